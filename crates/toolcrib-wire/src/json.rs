//! Borrowed JSON text: one valid value, read where it stands and never built into a tree.

use std::borrow::Cow;
use std::fmt;

use crate::key::Key;
use crate::limits::Limits;
use crate::malformed::Fault;
use crate::scan::{Scanner, Span};
use crate::text::unquote;

/// One JSON value as text. It is valid by construction, so reading it cannot fail, only find
/// something else than was hoped for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

/// What sort of value a piece of JSON is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl<'a> Json<'a> {
    pub const NULL: Json<'static> = Json("null");
    pub const EMPTY: Json<'static> = Json("{}");

    /// Checks that `text` is exactly one JSON value within the limits.
    pub fn parse(text: &'a str, limits: &Limits) -> Result<Self, Fault> {
        limits.check_size(text.len())?;
        let mut scanner = Scanner::new(text, limits.depth);
        let span = scanner.value().and_then(|span| scanner.end().map(|()| span));
        span.map(|span| Json(&text[span])).map_err(|wrong| scanner.fault(wrong))
    }

    /// For text that a scanner has already been over.
    pub(crate) fn trusted(text: &'a str) -> Self {
        Json(text)
    }

    /// The bytes as the peer wrote them.
    pub fn text(self) -> &'a str {
        self.0
    }

    pub fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    pub fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    pub fn as_str(self) -> Option<Cow<'a, str>> {
        (self.kind() == Kind::String).then(|| unquote(self.0))
    }

    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// An integer written as one: `1.0` and `1e3` are not.
    pub fn as_i64(self) -> Option<i64> {
        self.0.parse().ok().filter(|_| self.kind() == Kind::Number)
    }

    pub fn as_f64(self) -> Option<f64> {
        self.0.parse().ok().filter(|_| self.kind() == Kind::Number)
    }

    /// The members of an object in their order, keys decoded; nothing for any other value.
    pub fn members(self) -> Members<'a> {
        Members(Walk::new(self.0, b'{'))
    }

    /// The items of an array in their order; nothing for any other value.
    pub fn items(self) -> Items<'a> {
        Items(Walk::new(self.0, b'['))
    }

    /// One member. Of several with the same key the last counts, as in most parsers.
    pub fn get(self, key: &str) -> Option<Json<'a>> {
        let [found] = self.pick([key]);
        found
    }

    /// Several members in one pass, which matters where values are large.
    pub fn pick<const N: usize>(self, keys: [&str; N]) -> [Option<Json<'a>>; N] {
        let mut found = [None; N];
        for (key, value) in self.members() {
            if let Some(place) = keys.iter().position(|wanted| *wanted == key) {
                found[place] = Some(value);
            }
        }
        found
    }

    /// Reads the value into a type of the caller's.
    pub fn read<T: serde::Deserialize<'a>>(self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0)
    }
}

/// Not the text: it may hold a secret.
impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {} bytes)", self.kind(), self.0.len())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Null => "null",
            Kind::Bool => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        })
    }
}

/// The members of an object, in order.
pub struct Members<'a>(Walk<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.0.next_member()?;
        Some((key.read(self.0.text), Json(&self.0.text[value])))
    }
}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Members")
    }
}

/// The items of an array, in order.
pub struct Items<'a>(Walk<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.0.next_item()?;
        Some(Json(&self.0.text[value]))
    }
}

impl fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Items")
    }
}

/// A walk over one container of text that is known to be valid, so a scanner's error can only mean
/// that the value is no such container, and that is an empty walk.
pub(crate) struct Walk<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    first: bool,
    done: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(text: &'a str, bracket: u8) -> Self {
        // The limit was checked when the text came in.
        let mut scanner = Scanner::new(text, usize::MAX);
        let done = scanner.enter(bracket).is_err();
        Walk { text, scanner, first: true, done }
    }

    pub(crate) fn next_member(&mut self) -> Option<(Key, Span)> {
        if self.done {
            return None;
        }
        let member = self.scanner.next_key(&mut self.first).ok().flatten();
        let member = member.map(|key| (key, self.scanner.known_value()));
        self.done = member.is_none();
        member
    }

    fn next_item(&mut self) -> Option<Span> {
        if self.done {
            return None;
        }
        let more = self.scanner.next_item(&mut self.first).unwrap_or(false);
        let item = more.then(|| self.scanner.known_value());
        self.done = item.is_none();
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::parse(text, &Limits::default()).unwrap()
    }

    #[test]
    fn members_and_items_come_in_order_as_they_were_written() {
        let members: Vec<_> = json(r#" { "a" : 1.50 , "b\u0063" : [ 1, {} ] } "#)
            .members()
            .map(|(key, value)| format!("{key}={}", value.text()))
            .collect();
        assert_eq!(members, ["a=1.50", "bc=[ 1, {} ]"]);
        let items: Vec<_> = json(r#"[1, "x" , [2]]"#).items().map(Json::text).collect();
        assert_eq!(items, ["1", "\"x\"", "[2]"]);
    }

    #[test]
    fn asking_a_value_for_what_it_is_not_finds_nothing() {
        for text in ["1", "null", "\"{\"", "[]", "true"] {
            assert_eq!(json(text).members().count(), 0);
            assert_eq!(json(text).get("a"), None);
        }
        assert_eq!(json("{}").items().count(), 0);
        assert_eq!(json("\"1\"").as_i64(), None);
        assert_eq!(json("\"true\"").as_bool(), None);
        assert_eq!(json("1.0").as_i64(), None);
        assert_eq!(json("1.5e1").as_f64(), Some(15.0));
        assert_eq!(json("-7").as_i64(), Some(-7));
    }

    #[test]
    fn the_last_of_equal_keys_counts_however_it_is_escaped() {
        assert_eq!(json(r#"{"a":1,"\u0061":2}"#).get("a").map(Json::text), Some("2"));
    }

    #[test]
    fn pick_finds_several_members_at_once() {
        let [b, x, a] = json(r#"{"a":1,"b":[2]}"#).pick(["b", "x", "a"]);
        assert_eq!((b.map(Json::text), x, a.map(Json::text)), (Some("[2]"), None, Some("1")));
    }
}

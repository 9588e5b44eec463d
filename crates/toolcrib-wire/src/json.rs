//! Borrowed JSON text that is read in place and never built into a tree.

use std::borrow::Cow;
use std::fmt;

use crate::key::Key;
use crate::limits::MessageLimits;
use crate::parse_error::ParseError;
use crate::quoting::unquote;
use crate::scanner::{Scanner, Span};

/// One JSON value as text. The text is always valid, so accessors cannot fail; they return `None` for values of
/// another kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

/// Kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl<'a> Json<'a> {
    /// The value `null`.
    pub const NULL: Json<'static> = Json("null");
    /// An empty object.
    pub const EMPTY: Json<'static> = Json("{}");

    /// Checks that `text` is exactly one JSON value within the limits.
    pub fn parse(text: &'a str, limits: &MessageLimits) -> Result<Self, ParseError> {
        limits.check_size(text.len())?;
        let mut scanner = Scanner::new(text, limits.depth);
        let span = scanner.skip_value().and_then(|span| scanner.expect_end().map(|()| span));
        span.map(|span| Json(&text[span])).map_err(|error| scanner.parse_error(error))
    }

    /// Wraps text that a scanner has already checked.
    pub(crate) fn from_trusted(text: &'a str) -> Self {
        Json(text)
    }

    /// The text as the peer wrote it.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// Returns the kind of the value.
    pub fn kind(self) -> JsonKind {
        match self.0.as_bytes().first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::String,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') | None => JsonKind::Null,
            Some(_) => JsonKind::Number,
        }
    }

    /// Returns whether the value is an object.
    pub fn is_object(self) -> bool {
        self.kind() == JsonKind::Object
    }

    /// Returns whether the value is null.
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// Returns the text of a string, without escapes.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        (self.kind() == JsonKind::String).then(|| unquote(self.0))
    }

    /// Returns the value of a boolean.
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The value of an integer. `1.0` and `1e3` are not integers.
    pub fn as_i64(self) -> Option<i64> {
        self.0.parse().ok().filter(|_| self.kind() == JsonKind::Number)
    }

    /// Returns the value of a number.
    pub fn as_f64(self) -> Option<f64> {
        self.0.parse().ok().filter(|_| self.kind() == JsonKind::Number)
    }

    /// Iterates over the members of an object in order, with decoded keys. Other values have no members.
    pub fn members(self) -> Members<'a> {
        Members(ContainerIter::new(self.0, b'{'))
    }

    /// Iterates over the items of an array in order. Other values have no items.
    pub fn items(self) -> Items<'a> {
        Items(ContainerIter::new(self.0, b'['))
    }

    /// Returns one member. The last of several equal keys counts, as in most parsers.
    pub fn get(self, key: &str) -> Option<Json<'a>> {
        let [found] = self.pick([key]);
        found
    }

    /// Returns several members in one pass, which matters for large values.
    pub fn pick<const N: usize>(self, keys: [&str; N]) -> [Option<Json<'a>>; N] {
        let mut found = [None; N];
        for (key, value) in self.members() {
            if let Some(place) = keys.iter().position(|wanted| *wanted == key) {
                found[place] = Some(value);
            }
        }
        found
    }

    /// Deserializes the value.
    pub fn read<T: serde::Deserialize<'a>>(self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0)
    }
}

/// Hides the text, because it may hold a secret.
impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {} bytes)", self.kind(), self.0.len())
    }
}

impl fmt::Display for JsonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JsonKind::Null => "null",
            JsonKind::Bool => "a boolean",
            JsonKind::Number => "a number",
            JsonKind::String => "a string",
            JsonKind::Array => "an array",
            JsonKind::Object => "an object",
        })
    }
}

/// Iterator over the members of an object, in order.
pub struct Members<'a>(ContainerIter<'a>);

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

/// Iterator over the items of an array, in order.
pub struct Items<'a>(ContainerIter<'a>);

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
pub(crate) struct ContainerIter<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    first: bool,
    done: bool,
}

impl<'a> ContainerIter<'a> {
    pub(crate) fn new(text: &'a str, bracket: u8) -> Self {
        // The limit was checked when the text came in.
        let mut scanner = Scanner::new(text, usize::MAX);
        let done = scanner.enter_container(bracket).is_err();
        ContainerIter { text, scanner, first: true, done }
    }

    pub(crate) fn next_member(&mut self) -> Option<(Key, Span)> {
        if self.done {
            return None;
        }
        let member = self.scanner.next_key(&mut self.first).ok().flatten();
        let member = member.map(|key| (key, self.scanner.skip_trusted_value()));
        self.done = member.is_none();
        member
    }

    fn next_item(&mut self) -> Option<Span> {
        if self.done {
            return None;
        }
        let more = self.scanner.next_item(&mut self.first).unwrap_or(false);
        let item = more.then(|| self.scanner.skip_trusted_value());
        self.done = item.is_none();
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::parse(text, &MessageLimits::default()).unwrap()
    }

    #[test]
    fn members_and_items_keep_their_order_and_text() {
        let members: Vec<_> = json(r#" { "a" : 1.50 , "b\u0063" : [ 1, {} ] } "#)
            .members()
            .map(|(key, value)| format!("{key}={}", value.text()))
            .collect();
        assert_eq!(members, ["a=1.50", "bc=[ 1, {} ]"]);
        let items: Vec<_> = json(r#"[1, "x" , [2]]"#).items().map(Json::text).collect();
        assert_eq!(items, ["1", "\"x\"", "[2]"]);
    }

    #[test]
    fn accessors_of_other_kinds_return_none() {
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
    fn last_duplicate_key_wins_even_when_escaped() {
        assert_eq!(json(r#"{"a":1,"\u0061":2}"#).get("a").map(Json::text), Some("2"));
    }

    #[test]
    fn pick_finds_several_members_in_one_pass() {
        let [b, x, a] = json(r#"{"a":1,"b":[2]}"#).pick(["b", "x", "a"]);
        assert_eq!((b.map(Json::text), x, a.map(Json::text)), (Some("[2]"), None, Some("1")));
    }
}

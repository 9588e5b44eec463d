//! Owned JSON text that many holders share.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::de::Deserializer;
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::Json;
use crate::limits::Limits;
use crate::malformed::Fault;
use crate::scan::Span;
use crate::text::quote;

/// One JSON value, byte for byte as the peer wrote it. Clones and parts share the text of the message
/// they came from, which lives as long as any of them.
#[derive(Clone)]
pub struct Raw {
    text: Arc<Text>,
    span: Span,
}

/// Something that is kept for as long as the text of a message, such as a reservation of memory.
pub type Held = Option<Box<dyn Any + Send + Sync>>;

/// Text, and what is dropped with it.
struct Text {
    text: String,
    held: Held,
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text { text, held: None }
    }
}

impl Raw {
    /// Checks that the bytes are exactly one JSON value within the limits; nothing is copied.
    pub fn parse(bytes: impl Into<Vec<u8>>, limits: &Limits) -> Result<Raw, Fault> {
        let text = utf8(bytes.into(), limits).map_err(|(fault, _)| fault)?;
        let json = Json::parse(&text, limits)?;
        let span = span_in(&text, json);
        Ok(Raw::within(span.unwrap_or(0..text.len()), text))
    }

    /// Any value that can be written as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Raw, serde_json::Error> {
        serde_json::to_string(value).map(Raw::trusted)
    }

    /// A JSON string with this text.
    pub fn string(text: &str) -> Raw {
        let mut out = String::with_capacity(text.len() + 2);
        quote(text, &mut out);
        Raw::trusted(out)
    }

    /// For text that this crate wrote or has been over.
    pub(crate) fn trusted(text: String) -> Raw {
        Raw::within(0..text.len(), text)
    }

    /// The part of such a text that is the value.
    pub(crate) fn within(span: Span, text: String) -> Raw {
        Raw { span, text: Arc::new(text.into()) }
    }

    /// The same, and something is kept for as long as the text.
    pub(crate) fn within_held(span: Span, text: String, held: Held) -> Raw {
        Raw { span, text: Arc::new(Text { text, held }) }
    }

    /// The same value, whose text keeps something if nobody else has it.
    #[must_use]
    pub fn holding(mut self, held: Held) -> Raw {
        if let Some(text) = Arc::get_mut(&mut self.text) {
            text.held = held;
        }
        self
    }

    pub(crate) fn slice(&self, span: Span) -> Raw {
        Raw {
            text: Arc::clone(&self.text),
            span: self.span.start + span.start..self.span.start + span.end,
        }
    }

    pub fn json(&self) -> Json<'_> {
        Json::trusted(self.text())
    }

    pub fn text(&self) -> &str {
        &self.text.text[self.span.clone()]
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.text().as_bytes()
    }

    /// A part of this value as a value of its own. What is not a part is copied.
    pub fn part(&self, json: Json<'_>) -> Raw {
        match span_in(&self.text.text, json) {
            Some(span) => Raw { text: Arc::clone(&self.text), span },
            None => Raw::from(json),
        }
    }

    /// One member of an object, sharing the text.
    pub fn get(&self, key: &str) -> Option<Raw> {
        self.json().get(key).map(|json| self.part(json))
    }

    /// The value and what is written around it. Where nobody else has its text and that is long enough, it stays where
    /// it is.
    pub(crate) fn between(mut self, before: &str, after: &str) -> Raw {
        let Span { start, end } = self.span.clone();
        if let Some(front) = start.checked_sub(before.len())
            && let Some(Text { text, .. }) = Arc::get_mut(&mut self.text)
            && text.is_char_boundary(front)
            && text.capacity() - end >= after.len()
        {
            text.truncate(end);
            text.push_str(after);
            text.replace_range(front..start, before);
            return Raw { text: self.text, span: front..end + after.len() };
        }
        Raw::trusted([before, self.text(), after].concat())
    }

    /// The same value in a text of its own, so that a small part kept for long does not keep a large
    /// message alive.
    pub fn detach(&self) -> Raw {
        Raw::from(self.json())
    }
}

/// Text, or the bytes that are none.
#[allow(unsafe_code, reason = "std would check again, and takes several times as long")]
pub(crate) fn utf8(bytes: Vec<u8>, limits: &Limits) -> Result<String, (Fault, Vec<u8>)> {
    if let Err(fault) = limits.check_size(bytes.len()) {
        return Err((fault, bytes));
    }
    match simdutf8::compat::from_utf8(&bytes) {
        // SAFETY: the bytes are those that were just found to be text.
        Ok(_) => Ok(unsafe { String::from_utf8_unchecked(bytes) }),
        Err(error) => Err((Fault::NotUtf8 { at: error.valid_up_to() }, bytes)),
    }
}

/// Where `part` stands in `text`, if it is a piece of it and not just equal to one.
fn span_in(text: &str, part: Json<'_>) -> Option<Span> {
    let part = part.text();
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start + part.len();
    (end <= text.len()).then_some(start..end)
}

impl From<Json<'_>> for Raw {
    fn from(json: Json<'_>) -> Self {
        Raw::trusted(json.text().to_owned())
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Raw {}

/// Not the text: it may hold a secret.
impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.json(), f)
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.text()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Raw::trusted(raw.get().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::raw;

    #[test]
    fn bytes_stay_as_they_were_written() {
        let odd = r#"{ "n" : 1.50e+2,"s":"\u00e9\/" , "big":12345678901234567890.10 }"#;
        assert_eq!(raw(&format!("  {odd}\n")).text(), odd);
        assert_eq!(serde_json::to_string(&raw(odd)).unwrap(), odd);
        assert_eq!(serde_json::from_str::<Raw>(odd).unwrap().text(), odd);
    }

    #[test]
    fn parts_share_the_text_and_detached_ones_do_not() {
        let whole = raw(r#"{"a":{"b":[1, 2]}}"#);
        let part = whole.get("a").and_then(|a| a.get("b")).unwrap();
        assert_eq!(part.text(), "[1, 2]");
        assert!(Arc::ptr_eq(&whole.text, &part.text));
        assert!(!Arc::ptr_eq(&whole.text, &part.detach().text));
        assert_eq!(whole.part(Json::NULL).text(), "null");
    }

    #[test]
    fn what_is_written_around_a_value_leaves_it_in_its_place_or_copies_it() {
        let part = |text: &str, has_other: bool| {
            let whole = raw(text);
            let part = whole.get("a").unwrap();
            let place = part.text().as_ptr();
            let other = has_other.then_some(whole);
            let (around, is_same) = {
                let around = part.between("<<", ">");
                let is_same = around.text()[2..].as_ptr() == place;
                (around.text().to_owned(), is_same)
            };
            drop(other);
            (around, is_same)
        };
        for (text, has_other, is_same) in [
            (r#"{"a":[1, 2]}"#, false, true),
            (r#"{"a":[1, 2] }"#, false, true),
            (r#"{"a":[1, 2]}"#, true, false),
            ("{\"ü\":0,\"a\":[1, 2]}", false, true),
        ] {
            assert_eq!(part(text, has_other), ("<<[1, 2]>".to_owned(), is_same), "{text}");
        }
        // No room before it, none behind it, and none that could be cut there.
        let long = "-".repeat(9);
        for (before, after) in [(long.as_str(), ">"), ("<", ">>"), ("<<<", ">")] {
            let value = raw("{\"ü\":7}").get("ü").unwrap();
            assert_eq!(value.between(before, after).text(), format!("{before}7{after}"));
        }
    }

    #[test]
    fn limits_and_encoding_are_checked() {
        let limits = Limits { size: 8, depth: 2, batch: 1 };
        assert_eq!(Raw::parse("[1,2,3,4,5]", &limits), Err(Fault::TooLarge { size: 11, limit: 8 }));
        assert_eq!(Raw::parse("[[[]]]", &limits), Err(Fault::TooDeep { limit: 2 }));
        assert_eq!(Raw::parse(b"\"a\xff\"".to_vec(), &limits), Err(Fault::NotUtf8 { at: 2 }));
    }

    proptest! {
        #[test]
        fn what_is_text_and_where_it_is_none_is_what_std_says(
            pieces in prop::collection::vec(prop::sample::select(vec![
                &b"plain text of some length, "[..], "é".as_bytes(), "漢字".as_bytes(), "🦀".as_bytes(), b"a",
            ]), 0..60),
            broken in prop::sample::select(vec![
                &b""[..], b"\xff", b"\xc3", b"\xe6\xbc", b"\xf0\x9f\xa6", b"\xc0\x80", b"\xed\xa0\x80", b"\x80",
            ]),
            rest in prop::collection::vec(prop::sample::select(b"a\x80\xc3".to_vec()), 0..90),
        ) {
            for rest in [&[][..], &rest] {
                let bytes = [&pieces.concat(), broken, rest].concat();
                let expected = String::from_utf8(bytes.clone()).map_err(|error| {
                    let fault = Fault::NotUtf8 { at: error.utf8_error().valid_up_to() };
                    (fault, error.into_bytes())
                });
                prop_assert_eq!(utf8(bytes, &Limits::default()), expected);
            }
        }
    }

    #[test]
    fn what_a_value_holds_is_not_shown() {
        let whole = raw(r#"{"token":"geheim"}"#);
        for shown in [
            format!("{whole:?}"),
            format!("{:?}", whole.json()),
            format!(
                "{:?}",
                crate::parse(
                    r#"{"jsonrpc":"2.0","id":1,"result":{"a":"geheim"}}"#,
                    &Limits::default()
                )
            ),
            format!("{:?}", crate::ObjectWriter::new().string("a", "geheim")),
            format!(
                "{:?}",
                crate::Frame { framing: crate::Framing::Newline, bytes: b"geheim".to_vec() }
            ),
            format!("{:?}", crate::SseEvent { data: b"geheim".to_vec(), ..Default::default() }),
        ] {
            assert!(!shown.contains("geheim") && !shown.contains("103, 101"), "{shown}");
            assert!(shown.contains(" bytes"), "{shown}");
        }
        assert_eq!(format!("{:?}", raw("[1, 2]")), "(an array, 6 bytes)");
    }
}

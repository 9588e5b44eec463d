//! Owned JSON text that is shared by reference count.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::de::Deserializer;
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::Json;
use crate::limits::MessageLimits;
use crate::parse_error::ParseError;
use crate::quoting::quote;
use crate::scanner::Span;

/// One JSON value, byte for byte as the peer wrote it. Clones and parts share the text of their message, which lives
/// as long as any of them.
#[derive(Clone)]
pub struct RawJson {
    text: Arc<SharedText>,
    span: Span,
}

/// A value that is dropped together with the text of a message, such as a reservation of memory.
pub type TextGuard = Option<Box<dyn Any + Send + Sync>>;

/// Text and its guard.
struct SharedText {
    text: String,
    guard: TextGuard,
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        SharedText { text, guard: None }
    }
}

impl RawJson {
    /// Checks that the bytes are exactly one JSON value within the limits. Does not copy them.
    pub fn parse(bytes: impl Into<Vec<u8>>, limits: &MessageLimits) -> Result<RawJson, ParseError> {
        let text = utf8(bytes.into(), limits).map_err(|(error, _)| error)?;
        let json = Json::parse(&text, limits)?;
        let span = span_in(&text, json);
        Ok(RawJson::from_span(span.unwrap_or(0..text.len()), text))
    }

    /// Serializes any value as JSON.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<RawJson, serde_json::Error> {
        serde_json::to_string(value).map(RawJson::from_trusted)
    }

    /// Creates a JSON string with this text.
    pub fn string(text: &str) -> RawJson {
        let mut out = String::with_capacity(text.len() + 2);
        quote(text, &mut out);
        RawJson::from_trusted(out)
    }

    /// Wraps text that this crate wrote or has checked.
    pub(crate) fn from_trusted(text: String) -> RawJson {
        RawJson::from_span(0..text.len(), text)
    }

    /// Wraps the part of checked text that holds the value.
    pub(crate) fn from_span(span: Span, text: String) -> RawJson {
        RawJson { span, text: Arc::new(text.into()) }
    }

    /// Like [`RawJson::from_span`], and keeps the guard for as long as the text.
    pub(crate) fn from_span_with_guard(span: Span, text: String, guard: TextGuard) -> RawJson {
        RawJson { span, text: Arc::new(SharedText { text, guard }) }
    }

    /// Adds a guard to the text if this value is its only owner.
    #[must_use]
    pub fn with_guard(mut self, guard: TextGuard) -> RawJson {
        if let Some(text) = Arc::get_mut(&mut self.text) {
            text.guard = guard;
        }
        self
    }

    pub(crate) fn slice(&self, span: Span) -> RawJson {
        RawJson {
            text: Arc::clone(&self.text),
            span: self.span.start + span.start..self.span.start + span.end,
        }
    }

    /// Returns the borrowed value.
    pub fn json(&self) -> Json<'_> {
        Json::from_trusted(self.text())
    }

    /// Returns the text of the value.
    pub fn text(&self) -> &str {
        &self.text.text[self.span.clone()]
    }

    /// Returns the bytes of the value.
    pub fn as_bytes(&self) -> &[u8] {
        self.text().as_bytes()
    }

    /// Returns a part of this value as a value of its own. A value from elsewhere is copied.
    pub fn part(&self, json: Json<'_>) -> RawJson {
        match span_in(&self.text.text, json) {
            Some(span) => RawJson { text: Arc::clone(&self.text), span },
            None => RawJson::from(json),
        }
    }

    /// Returns one member of an object. It shares the text.
    pub fn get(&self, key: &str) -> Option<RawJson> {
        self.json().get(key).map(|json| self.part(json))
    }

    /// Adds text before and after the value. The value stays in place if its buffer has a single owner and enough
    /// room.
    pub(crate) fn surround_with(mut self, before: &str, after: &str) -> RawJson {
        let Span { start, end } = self.span.clone();
        if let Some(front) = start.checked_sub(before.len())
            && let Some(SharedText { text, .. }) = Arc::get_mut(&mut self.text)
            && text.is_char_boundary(front)
            && text.capacity() - end >= after.len()
        {
            text.truncate(end);
            text.push_str(after);
            text.replace_range(front..start, before);
            return RawJson { text: self.text, span: front..end + after.len() };
        }
        RawJson::from_trusted([before, self.text(), after].concat())
    }

    /// Copies the value to a text of its own, so a small part does not keep a large message alive.
    pub fn detach(&self) -> RawJson {
        RawJson::from(self.json())
    }
}

/// Converts bytes to text. Returns the bytes if they are too long or not UTF-8.
#[allow(unsafe_code, reason = "std would check again, and takes several times as long")]
pub(crate) fn utf8(
    bytes: Vec<u8>,
    limits: &MessageLimits,
) -> Result<String, (ParseError, Vec<u8>)> {
    if let Err(error) = limits.check_size(bytes.len()) {
        return Err((error, bytes));
    }
    match simdutf8::compat::from_utf8(&bytes) {
        // SAFETY: `simdutf8` has just found the bytes to be valid UTF-8.
        Ok(_) => Ok(unsafe { String::from_utf8_unchecked(bytes) }),
        Err(error) => Err((ParseError::NotUtf8 { at: error.valid_up_to() }, bytes)),
    }
}

/// Returns the range of `part` in `text` if it is a slice of it, and not only equal to one.
fn span_in(text: &str, part: Json<'_>) -> Option<Span> {
    let part = part.text();
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start + part.len();
    (end <= text.len()).then_some(start..end)
}

impl From<Json<'_>> for RawJson {
    fn from(json: Json<'_>) -> Self {
        RawJson::from_trusted(json.text().to_owned())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for RawJson {}

/// Hides the text, because it may hold a secret.
impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.json(), f)
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.text()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(RawJson::from_trusted(raw.get().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::raw;

    #[test]
    fn parsing_keeps_every_byte() {
        let odd = r#"{ "n" : 1.50e+2,"s":"\u00e9\/" , "big":12345678901234567890.10 }"#;
        assert_eq!(raw(&format!("  {odd}\n")).text(), odd);
        assert_eq!(serde_json::to_string(&raw(odd)).unwrap(), odd);
        assert_eq!(serde_json::from_str::<RawJson>(odd).unwrap().text(), odd);
    }

    #[test]
    fn parts_share_the_text_and_detached_values_do_not() {
        let whole = raw(r#"{"a":{"b":[1, 2]}}"#);
        let part = whole.get("a").and_then(|a| a.get("b")).unwrap();
        assert_eq!(part.text(), "[1, 2]");
        assert!(Arc::ptr_eq(&whole.text, &part.text));
        assert!(!Arc::ptr_eq(&whole.text, &part.detach().text));
        assert_eq!(whole.part(Json::NULL).text(), "null");
    }

    #[test]
    fn surround_with_reuses_the_buffer_where_it_can() {
        let part = |text: &str, has_other: bool| {
            let whole = raw(text);
            let part = whole.get("a").unwrap();
            let place = part.text().as_ptr();
            let other = has_other.then_some(whole);
            let (around, is_same) = {
                let around = part.surround_with("<<", ">");
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
        // Too little room before the value, behind it, or at a character boundary.
        let long = "-".repeat(9);
        for (before, after) in [(long.as_str(), ">"), ("<", ">>"), ("<<<", ">")] {
            let value = raw("{\"ü\":7}").get("ü").unwrap();
            assert_eq!(value.surround_with(before, after).text(), format!("{before}7{after}"));
        }
    }

    #[test]
    fn limits_and_encoding_are_checked() {
        let limits = MessageLimits { size: 8, depth: 2, batch: 1 };
        assert_eq!(
            RawJson::parse("[1,2,3,4,5]", &limits),
            Err(ParseError::TooLarge { size: 11, limit: 8 })
        );
        assert_eq!(RawJson::parse("[[[]]]", &limits), Err(ParseError::TooDeep { limit: 2 }));
        assert_eq!(
            RawJson::parse(b"\"a\xff\"".to_vec(), &limits),
            Err(ParseError::NotUtf8 { at: 2 })
        );
    }

    proptest! {
        #[test]
        fn utf8_check_agrees_with_std(
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
                    let not_utf8 = ParseError::NotUtf8 { at: error.utf8_error().valid_up_to() };
                    (not_utf8, error.into_bytes())
                });
                prop_assert_eq!(utf8(bytes, &MessageLimits::default()), expected);
            }
        }
    }

    #[test]
    fn debug_output_hides_the_content() {
        let whole = raw(r#"{"token":"geheim"}"#);
        for shown in [
            format!("{whole:?}"),
            format!("{:?}", whole.json()),
            format!(
                "{:?}",
                crate::parse(
                    r#"{"jsonrpc":"2.0","id":1,"result":{"a":"geheim"}}"#,
                    &MessageLimits::default()
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

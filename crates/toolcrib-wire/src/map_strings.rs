//! Replaces strings inside a JSON value without changing any other byte.

use crate::quoting::{quote, unquote};
use crate::raw_json::RawJson;
use crate::splice::Splice;

/// Role of a string in a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringKind<'a> {
    /// The name of a member.
    Key,
    /// A value below the member with this name, directly or in arrays. The name is empty outside of objects.
    Value { key: &'a str },
}

/// An open object or array.
struct OpenContainer {
    is_object: bool,
    /// Name of the member whose value is being read.
    key: String,
    /// True if the next string of the object is a name.
    expects_key: bool,
}

impl RawJson {
    /// Replaces strings for which `replace` returns another text. `replace` gets the text without its escapes.
    /// Returns `None` if nothing was replaced.
    pub fn map_strings(
        &self,
        mut replace: impl FnMut(StringKind<'_>, &str) -> Option<String>,
    ) -> Option<RawJson> {
        let text = self.text();
        let mut splice = Splice::new(text);
        let mut has_changed = false;
        let mut open: Vec<OpenContainer> = Vec::new();
        let mut at = 0;
        while let Some(byte) = text.as_bytes().get(at) {
            match byte {
                b'{' | b'[' => {
                    let key = open.last().map(|it| it.key.clone()).unwrap_or_default();
                    let is_object = *byte == b'{';
                    open.push(OpenContainer { is_object, key, expects_key: is_object });
                }
                b'}' | b']' => drop(open.pop()),
                b',' => {
                    if let Some(top) = open.last_mut() {
                        top.expects_key = top.is_object;
                    }
                }
                b'"' => {
                    let end = at + quoted_length(&text[at..]);
                    let inner = unquote(&text[at..end]);
                    let is_key = open.last().is_some_and(|top| top.expects_key);
                    let key = open.last().map_or("", |top| &top.key);
                    let kind = if is_key { StringKind::Key } else { StringKind::Value { key } };
                    if let Some(new) = replace(kind, &inner) {
                        let mut quoted = String::new();
                        quote(&new, &mut quoted);
                        splice.replace(at..end, quoted);
                        has_changed = true;
                    }
                    if let Some(top) = open.last_mut().filter(|_| is_key) {
                        (top.key, top.expects_key) = (inner.into_owned(), false);
                    }
                    at = end;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        has_changed.then(|| RawJson::from_trusted(splice.finish()))
    }
}

/// Length of a JSON string with its quotes.
fn quoted_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::raw;

    #[test]
    fn strings_are_replaced_and_every_other_byte_stays() {
        let whole =
            raw(r#"{ "a" : "se\u0063ret", "n":1.50e+2,"l":["x","secret",{"secret":"b\"\\"}] }"#);
        let mut seen = Vec::new();
        let mapped = whole.map_strings(|kind, text| {
            seen.push((format!("{kind:?}"), text.to_owned()));
            (text == "secret").then(|| "*\"*".to_owned())
        });
        let expected = r#"{ "a" : "*\"*", "n":1.50e+2,"l":["x","*\"*",{"*\"*":"b\"\\"}] }"#;
        assert_eq!(mapped.unwrap().text(), expected);
        let value =
            |key: &str, text: &str| (format!("{:?}", StringKind::Value { key }), text.to_owned());
        let key = |text: &str| ("Key".to_owned(), text.to_owned());
        let expected = [
            key("a"),
            value("a", "secret"),
            key("n"),
            key("l"),
            value("l", "x"),
            value("l", "secret"),
            key("secret"),
            value("secret", "b\"\\"),
        ];
        assert_eq!(seen, expected);
        assert!(whole.map_strings(|_, _| None).is_none());
        assert_eq!(raw("\"a\"").map_strings(|_, _| Some("b".into())).unwrap().text(), "\"b\"");
    }

    proptest! {
        #[test]
        fn every_string_is_visited(texts in prop::collection::vec(any::<String>(), 0..8)) {
            let whole = RawJson::from_value(&texts).unwrap();
            let mut seen = Vec::new();
            let mapped = whole.map_strings(|_, text| { seen.push(text.to_owned()); Some(text.to_owned()) });
            prop_assert_eq!(&seen, &texts);
            if let Some(mapped) = mapped {
                prop_assert_eq!(serde_json::from_str::<Vec<String>>(mapped.text()).unwrap(), texts);
            }
        }
    }
}

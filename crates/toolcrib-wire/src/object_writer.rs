//! Writes a JSON object member by member.

use std::fmt;

use crate::id::Id;
use crate::json::Json;
use crate::quoting::{push_integer, quote};
use crate::raw_json::RawJson;

/// Capacity for a few small members, so most objects are written without growing.
const SMALL: usize = 112;

/// A JSON object under construction. Keys keep their order; a key that is added twice is written twice.
#[derive(Clone)]
pub struct ObjectWriter {
    out: String,
}

impl Default for ObjectWriter {
    fn default() -> Self {
        ObjectWriter::new()
    }
}

impl ObjectWriter {
    /// Creates a writer for a small object.
    pub fn new() -> Self {
        ObjectWriter::with_capacity(0)
    }

    /// Creates a writer for about this many bytes besides a few small members.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut out = String::with_capacity(bytes + SMALL);
        out.push('{');
        ObjectWriter { out }
    }

    /// Adds a member.
    pub fn json(mut self, key: &str, value: Json<'_>) -> Self {
        self.key(key).push_str(value.text());
        self
    }

    /// Adds a member if the value is present.
    pub fn json_if(self, key: &str, value: Option<Json<'_>>) -> Self {
        match value {
            Some(value) => self.json(key, value),
            None => self,
        }
    }

    /// Adds all members of an object with their bytes.
    pub fn members(mut self, object: Json<'_>) -> Self {
        let inner = object.text().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let inner = inner.unwrap_or_default().trim();
        if !inner.is_empty() {
            self.comma();
            self.out.push_str(inner);
        }
        self
    }

    /// Adds a string.
    pub fn string(mut self, key: &str, value: &str) -> Self {
        quote(value, self.key(key));
        self
    }

    /// Adds a string if it is present.
    pub fn string_if(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.string(key, value),
            None => self,
        }
    }

    /// Adds a boolean.
    pub fn bool(mut self, key: &str, value: bool) -> Self {
        self.key(key).push_str(if value { "true" } else { "false" });
        self
    }

    /// Adds an integer.
    pub fn integer(mut self, key: &str, value: i64) -> Self {
        push_integer(value, self.key(key));
        self
    }

    /// Adds a number. Values that JSON cannot express become null.
    pub fn number(mut self, key: &str, value: f64) -> Self {
        let text = if value.is_finite() { value.to_string() } else { "null".to_owned() };
        self.key(key).push_str(&text);
        self
    }

    /// Adds a request id.
    pub fn id(mut self, key: &str, value: &Id) -> Self {
        value.write(self.key(key));
        self
    }

    /// Adds an array of strings.
    pub fn strings<'s>(self, key: &str, values: impl IntoIterator<Item = &'s str>) -> Self {
        self.array(key, values.into_iter().map(RawJson::string))
    }

    /// Adds an array of values.
    pub fn array(mut self, key: &str, values: impl IntoIterator<Item = RawJson>) -> Self {
        let out = self.key(key);
        out.push('[');
        for (place, value) in values.into_iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            out.push_str(value.text());
        }
        out.push(']');
        self
    }

    /// Returns the finished object.
    pub fn finish(mut self) -> RawJson {
        self.out.push('}');
        RawJson::from_trusted(self.out)
    }

    fn key(&mut self, key: &str) -> &mut String {
        self.comma();
        quote(key, &mut self.out);
        self.out.push(':');
        &mut self.out
    }

    fn comma(&mut self) {
        if self.out.len() > 1 {
            self.out.push(',');
        }
    }
}

impl fmt::Debug for ObjectWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectWriter({} bytes)", self.out.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::raw;

    #[test]
    fn members_keep_their_order_and_strings_are_escaped() {
        let inner = ObjectWriter::new().finish();
        let written = ObjectWriter::new()
            .string("a\"b", "x\ny")
            .string_if("none", None)
            .json("o", inner.json())
            .bool("t", true)
            .integer("i", -3)
            .number("half", 0.5)
            .number("odd", f64::NAN)
            .id("id", &Id::from("7"))
            .strings("list", ["p", "q"])
            .finish();
        let expected = r#"{"a\"b":"x\ny","o":{},"t":true,"i":-3,"half":0.5,"odd":null,"id":"7","list":["p","q"]}"#;
        assert_eq!(written.text(), expected);
    }

    #[test]
    fn members_of_another_object_keep_their_bytes() {
        for (object, expected) in [
            (r#"{ "a" : 1.0,"\u0062":[ ] }"#, r#"{"x":1,"a" : 1.0,"\u0062":[ ],"y":2}"#),
            ("{ }", r#"{"x":1,"y":2}"#),
            ("[1]", r#"{"x":1,"y":2}"#),
        ] {
            let writer = ObjectWriter::new().integer("x", 1).members(raw(object).json());
            assert_eq!(writer.integer("y", 2).finish().text(), expected);
        }
    }
}

//! Writing a JSON object member by member.

use std::fmt;

use crate::id::Id;
use crate::json::Json;
use crate::raw::Raw;
use crate::text::{push_integer, quote};

/// Room for a few small members, so that most objects are written without growing.
const SMALL: usize = 112;

/// An object under construction. Keys stay in the order in which they were given; giving one twice
/// writes it twice.
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
    pub fn new() -> Self {
        ObjectWriter::with_room(0)
    }

    /// An object that will take about so many bytes besides a few small members.
    pub fn with_room(bytes: usize) -> Self {
        let mut out = String::with_capacity(bytes + SMALL);
        out.push('{');
        ObjectWriter { out }
    }

    pub fn json(mut self, key: &str, value: Json<'_>) -> Self {
        self.key(key).push_str(value.text());
        self
    }

    pub fn json_if(self, key: &str, value: Option<Json<'_>>) -> Self {
        match value {
            Some(value) => self.json(key, value),
            None => self,
        }
    }

    /// All members of an object, as they are written there.
    pub fn members(mut self, object: Json<'_>) -> Self {
        let inner = object.text().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let inner = inner.unwrap_or_default().trim();
        if !inner.is_empty() {
            self.comma();
            self.out.push_str(inner);
        }
        self
    }

    pub fn string(mut self, key: &str, value: &str) -> Self {
        quote(value, self.key(key));
        self
    }

    pub fn string_if(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.string(key, value),
            None => self,
        }
    }

    pub fn bool(mut self, key: &str, value: bool) -> Self {
        self.key(key).push_str(if value { "true" } else { "false" });
        self
    }

    pub fn integer(mut self, key: &str, value: i64) -> Self {
        push_integer(value, self.key(key));
        self
    }

    /// A number; what JSON cannot express becomes null.
    pub fn number(mut self, key: &str, value: f64) -> Self {
        let text = if value.is_finite() { value.to_string() } else { "null".to_owned() };
        self.key(key).push_str(&text);
        self
    }

    pub fn id(mut self, key: &str, value: &Id) -> Self {
        value.write(self.key(key));
        self
    }

    pub fn strings<'s>(self, key: &str, values: impl IntoIterator<Item = &'s str>) -> Self {
        self.array(key, values.into_iter().map(Raw::string))
    }

    pub fn array(mut self, key: &str, values: impl IntoIterator<Item = Raw>) -> Self {
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

    pub fn finish(mut self) -> Raw {
        self.out.push('}');
        Raw::trusted(self.out)
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
    use crate::testing::raw;

    #[test]
    fn members_stand_in_their_order_and_strings_are_escaped() {
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

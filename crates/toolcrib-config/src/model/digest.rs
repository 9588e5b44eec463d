//! A hash over settings as they are, without a tree of them in between.

use std::io::Write;

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Bytes that two values of one type share exactly when they mean the same: each text carries its
/// length, each collection its end, the entries of a map are sorted, and the fields of a struct need
/// no names, as those that are left out are counted.
#[derive(Default)]
pub(super) struct Canonical(Vec<u8>);

/// Settings hold nothing that cannot be written down; the error is there for serde.
#[derive(Debug)]
pub(super) struct Never(String);

impl Canonical {
    pub(super) fn of(value: &impl Serialize) -> Vec<u8> {
        let mut bytes = Self::default();
        // What cannot be is told apart by its message.
        if let Err(Never(why)) = value.serialize(&mut bytes) {
            bytes.text(b'!', &why);
        }
        bytes.0
    }

    fn text(&mut self, kind: u8, text: &str) {
        self.0.push(kind);
        // Few texts are long: a byte of 255 says that more of the length follows.
        let mut length = text.len();
        while length >= 255 {
            self.0.push(255);
            length -= 255;
        }
        self.0.push(length as u8);
        self.0.extend(text.as_bytes());
    }

    fn number(&mut self, number: impl std::fmt::Display) -> Result<(), Never> {
        write!(self.0, "#{number};").map_err(serde::ser::Error::custom)
    }

    fn open(&mut self, kind: u8) -> Open<'_> {
        self.0.push(kind);
        Open { bytes: self }
    }
}

/// A list or a struct, whose parts stand in their order.
pub(super) struct Open<'a> {
    bytes: &'a mut Canonical,
}

/// A map, whose entries are sorted at its end.
pub(super) struct Entries<'a> {
    bytes: &'a mut Canonical,
    entries: Vec<Vec<u8>>,
}

impl Open<'_> {
    fn part(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Never> {
        value.serialize(&mut *self.bytes)
    }

    fn close(self) -> Result<(), Never> {
        self.bytes.0.push(b']');
        Ok(())
    }
}

impl std::fmt::Display for Never {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Never {}

impl serde::ser::Error for Never {
    fn custom<T: std::fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

macro_rules! numbers {
    ($($method:ident: $ty:ty),* $(,)?) => {$(
        fn $method(self, value: $ty) -> Result<(), Never> {
            self.number(value)
        }
    )*};
}

impl<'a> Serializer for &'a mut Canonical {
    type Ok = ();
    type Error = Never;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Open<'a>;
    type SerializeTupleStruct = Open<'a>;
    type SerializeTupleVariant = Open<'a>;
    type SerializeMap = Entries<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Open<'a>;

    numbers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_f32: f32, serialize_f64: f64,
    }

    fn serialize_bool(self, value: bool) -> Result<(), Never> {
        self.0.push(if value { b't' } else { b'f' });
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Never> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Never> {
        self.text(b'"', value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Never> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Never> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Never> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Never> {
        self.0.push(b'n');
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Never> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Never> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Never> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Never> {
        self.text(b'v', variant);
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'a>, Never> {
        Ok(self.open(b'['))
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'a>, Never> {
        Ok(self.open(b'['))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'a>, Never> {
        Ok(self.open(b'['))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>, Never> {
        self.text(b'v', variant);
        Ok(self.open(b'['))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'a>, Never> {
        Ok(Entries { bytes: self, entries: Vec::new() })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'a>, Never> {
        Ok(self.open(b'{'))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>, Never> {
        self.text(b'v', variant);
        Ok(self.open(b'{'))
    }
}

macro_rules! parts {
    ($($kind:ident: $method:ident),* $(,)?) => {$(
        impl $kind for Open<'_> {
            type Ok = ();
            type Error = Never;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Never> {
                self.part(value)
            }
            fn end(self) -> Result<(), Never> {
                self.close()
            }
        }
    )*};
}

macro_rules! fields {
    ($($kind:ident),* $(,)?) => {$(
        impl $kind for Open<'_> {
            type Ok = ();
            type Error = Never;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                _: &'static str,
                value: &T,
            ) -> Result<(), Never> {
                self.part(value)
            }
            fn skip_field(&mut self, _: &'static str) -> Result<(), Never> {
                self.bytes.0.push(b'-');
                Ok(())
            }
            fn end(self) -> Result<(), Never> {
                self.close()
            }
        }
    )*};
}

parts! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}
fields! { SerializeStruct, SerializeStructVariant }

impl SerializeMap for Entries<'_> {
    type Ok = ();
    type Error = Never;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Never> {
        let mut entry = Canonical::default();
        key.serialize(&mut entry)?;
        self.entries.push(entry.0);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Never> {
        let mut entry = Canonical(self.entries.pop().unwrap_or_default());
        value.serialize(&mut entry)?;
        self.entries.push(entry.0);
        Ok(())
    }

    fn end(mut self) -> Result<(), Never> {
        self.entries.sort();
        self.bytes.0.push(b'<');
        self.entries.iter().for_each(|entry| self.bytes.0.extend(entry));
        self.bytes.0.push(b'>');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_meaning_gives_the_same_bytes_and_no_other_does() {
        let same = [
            (json!({"a": 1, "b": [true, null]}), json!({"b": [true, null], "a": 1})),
            (json!({}), json!({})),
        ];
        for (one, other) in same {
            assert_eq!(Canonical::of(&one), Canonical::of(&other));
        }
        let different = [
            json!({"a": "bc"}),
            json!({"ab": "c"}),
            json!({"a": ["b", "c"]}),
            json!({"a": ["bc"]}),
            json!({"a": [["b"], "c"]}),
            json!({"a": ["b", ["c"]]}),
            json!({"a": {"b": "c"}}),
            json!({"a": {}, "b": "c"}),
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"a": true}),
            json!({"a": null}),
            json!({"a": []}),
            json!({"a": ""}),
        ];
        let bytes: std::collections::BTreeSet<_> = different.iter().map(Canonical::of).collect();
        assert_eq!(bytes.len(), different.len());
    }
}

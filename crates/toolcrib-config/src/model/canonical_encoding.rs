//! Canonical encoding of settings for hashing, without an intermediate tree.

use std::io::Write;

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Bytes that are equal for two values of one type exactly if the values are equal. Texts carry their length,
/// collections their end, and map entries are sorted. Struct fields need no names, because skipped fields are marked.
#[derive(Default)]
pub(super) struct CanonicalBytes(Vec<u8>);

/// Encoding error, required by serde. Settings never cause one.
#[derive(Debug)]
pub(super) struct EncodeError(String);

impl CanonicalBytes {
    pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
        let mut bytes = Self::default();
        // An encoding error is part of the bytes, so that it differs from any value.
        if let Err(EncodeError(why)) = value.serialize(&mut bytes) {
            bytes.push_text(b'!', &why);
        }
        bytes.0
    }

    fn push_text(&mut self, kind: u8, text: &str) {
        self.0.push(kind);
        // Most texts are short. A byte of 255 means that more of the length follows.
        let mut length = text.len();
        while length >= 255 {
            self.0.push(255);
            length -= 255;
        }
        self.0.push(length as u8);
        self.0.extend(text.as_bytes());
    }

    fn push_number(&mut self, number: impl std::fmt::Display) -> Result<(), EncodeError> {
        write!(self.0, "#{number};").map_err(serde::ser::Error::custom)
    }

    fn begin_sequence(&mut self, kind: u8) -> SequenceEncoder<'_> {
        self.0.push(kind);
        SequenceEncoder { bytes: self }
    }
}

/// Encoder for lists and structs, whose parts keep their order.
pub(super) struct SequenceEncoder<'a> {
    bytes: &'a mut CanonicalBytes,
}

/// Encoder for maps, whose entries are sorted at the end.
pub(super) struct MapEncoder<'a> {
    bytes: &'a mut CanonicalBytes,
    entries: Vec<Vec<u8>>,
}

impl SequenceEncoder<'_> {
    fn encode_part(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), EncodeError> {
        value.serialize(&mut *self.bytes)
    }

    fn close(self) -> Result<(), EncodeError> {
        self.bytes.0.push(b']');
        Ok(())
    }
}

impl std::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EncodeError {}

impl serde::ser::Error for EncodeError {
    fn custom<T: std::fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

macro_rules! numbers {
    ($($method:ident: $ty:ty),* $(,)?) => {$(
        fn $method(self, value: $ty) -> Result<(), EncodeError> {
            self.push_number(value)
        }
    )*};
}

impl<'a> Serializer for &'a mut CanonicalBytes {
    type Ok = ();
    type Error = EncodeError;
    type SerializeSeq = SequenceEncoder<'a>;
    type SerializeTuple = SequenceEncoder<'a>;
    type SerializeTupleStruct = SequenceEncoder<'a>;
    type SerializeTupleVariant = SequenceEncoder<'a>;
    type SerializeMap = MapEncoder<'a>;
    type SerializeStruct = SequenceEncoder<'a>;
    type SerializeStructVariant = SequenceEncoder<'a>;

    numbers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_f32: f32, serialize_f64: f64,
    }

    fn serialize_bool(self, value: bool) -> Result<(), EncodeError> {
        self.0.push(if value { b't' } else { b'f' });
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), EncodeError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), EncodeError> {
        self.push_text(b'"', value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), EncodeError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), EncodeError> {
        self.0.push(b'n');
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), EncodeError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), EncodeError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), EncodeError> {
        self.push_text(b'v', variant);
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<SequenceEncoder<'a>, EncodeError> {
        Ok(self.begin_sequence(b'['))
    }

    fn serialize_tuple(self, _: usize) -> Result<SequenceEncoder<'a>, EncodeError> {
        Ok(self.begin_sequence(b'['))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<SequenceEncoder<'a>, EncodeError> {
        Ok(self.begin_sequence(b'['))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<SequenceEncoder<'a>, EncodeError> {
        self.push_text(b'v', variant);
        Ok(self.begin_sequence(b'['))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<MapEncoder<'a>, EncodeError> {
        Ok(MapEncoder { bytes: self, entries: Vec::new() })
    }

    fn serialize_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<SequenceEncoder<'a>, EncodeError> {
        Ok(self.begin_sequence(b'{'))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<SequenceEncoder<'a>, EncodeError> {
        self.push_text(b'v', variant);
        Ok(self.begin_sequence(b'{'))
    }
}

macro_rules! parts {
    ($($kind:ident: $method:ident),* $(,)?) => {$(
        impl $kind for SequenceEncoder<'_> {
            type Ok = ();
            type Error = EncodeError;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
                self.encode_part(value)
            }
            fn end(self) -> Result<(), EncodeError> {
                self.close()
            }
        }
    )*};
}

macro_rules! fields {
    ($($kind:ident),* $(,)?) => {$(
        impl $kind for SequenceEncoder<'_> {
            type Ok = ();
            type Error = EncodeError;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                _: &'static str,
                value: &T,
            ) -> Result<(), EncodeError> {
                self.encode_part(value)
            }
            fn skip_field(&mut self, _: &'static str) -> Result<(), EncodeError> {
                self.bytes.0.push(b'-');
                Ok(())
            }
            fn end(self) -> Result<(), EncodeError> {
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

impl SerializeMap for MapEncoder<'_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), EncodeError> {
        let mut entry = CanonicalBytes::default();
        key.serialize(&mut entry)?;
        self.entries.push(entry.0);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        let mut entry = CanonicalBytes(self.entries.pop().unwrap_or_default());
        value.serialize(&mut entry)?;
        self.entries.push(entry.0);
        Ok(())
    }

    fn end(mut self) -> Result<(), EncodeError> {
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
    fn equal_values_and_only_equal_values_encode_equally() {
        let same = [
            (json!({"a": 1, "b": [true, null]}), json!({"b": [true, null], "a": 1})),
            (json!({}), json!({})),
        ];
        for (one, other) in same {
            assert_eq!(CanonicalBytes::encode(&one), CanonicalBytes::encode(&other));
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
        let bytes: std::collections::BTreeSet<_> =
            different.iter().map(CanonicalBytes::encode).collect();
        assert_eq!(bytes.len(), different.len());
    }
}

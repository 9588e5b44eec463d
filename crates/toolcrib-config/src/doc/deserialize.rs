//! A serde deserializer over a document. It keeps the node of each value and records unknown keys and type errors.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::at::{AT, ValueError};
use super::{Doc, NodeId, NodeKind};
use crate::text;

/// Result of a deserialization: the value, the errors and the unknown keys.
#[derive(Debug)]
pub(crate) struct Deserialized<T> {
    pub(crate) value: Option<T>,
    pub(crate) errors: Vec<ValueError>,
    pub(crate) unknown: Vec<UnknownKey>,
}

/// A key that the type does not have.
#[derive(Debug)]
pub(crate) struct UnknownKey {
    /// The map that contains the key.
    pub(crate) map: NodeId,
    /// The index of the entry in the map.
    pub(crate) entry: usize,
    pub(crate) key: String,
    pub(crate) known: &'static [&'static str],
}

/// Deserializes a node.
pub(crate) fn deserialize<'de, T: Deserialize<'de>>(
    doc: &'de Doc,
    node: NodeId,
) -> Deserialized<T> {
    let diagnostics = RefCell::new(Diagnostics::default());
    let value = T::deserialize(DocDeserializer { doc, node, diagnostics: &diagnostics });
    let mut diagnostics = diagnostics.into_inner();
    let value = value.map_err(|error| diagnostics.errors.push(error.with_node(node))).ok();
    Deserialized { value, errors: diagnostics.errors, unknown: diagnostics.unknown }
}

/// Newtype name that requests a number's source text.
pub(crate) const SCALAR: &str = "toolcrib::Scalar";
/// Newtype name by which the deserializer recognises `Either`.
const EITHER: &str = "toolcrib::Either";

/// Names a node's kind for messages. It never shows the content, because a misplaced value may be a secret.
pub(crate) fn describe_node(doc: &Doc, node: NodeId) -> &'static str {
    match doc.kind(node) {
        NodeKind::Null => "nothing",
        NodeKind::Bool(_) => "a boolean",
        NodeKind::Number(_) => "a number",
        NodeKind::Text(_) => "a text",
        NodeKind::Seq(_) => "a list",
        NodeKind::Map(_) => "a map",
    }
}

#[derive(Default)]
struct Diagnostics {
    errors: Vec<ValueError>,
    unknown: Vec<UnknownKey>,
}

impl ValueError {
    fn with_node(mut self, node: NodeId) -> Self {
        self.node.get_or_insert(node);
        self
    }

    /// Adds the node, and the found kind if the error is a type mismatch.
    fn with_found_type(mut self, reader: &DocDeserializer<'_, '_>) -> Self {
        if std::mem::take(&mut self.mismatch) {
            let found = describe_node(reader.doc, self.node.unwrap_or(reader.node));
            self.text = format!("{}, found {found}", self.text);
        }
        self.with_node(reader.node)
    }
}

#[derive(Clone, Copy)]
struct DocDeserializer<'de, 'n> {
    doc: &'de Doc,
    node: NodeId,
    diagnostics: &'n RefCell<Diagnostics>,
}

impl<'de> DocDeserializer<'de, '_> {
    fn for_node(self, node: NodeId) -> Self {
        Self { node, ..self }
    }

    fn type_error(&self, expected: &dyn serde::de::Expected) -> ValueError {
        ValueError::invalid_type(serde::de::Unexpected::Unit, expected).with_found_type(self)
    }

    fn visit_number<V: Visitor<'de>>(
        self,
        number: &str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let number = super::to_decimal(number);
        if let Ok(n) = number.parse::<u64>() {
            visitor.visit_u64(n)
        } else if let Ok(n) = number.parse::<i64>() {
            visitor.visit_i64(n)
        } else {
            match number.parse::<f64>() {
                Ok(n) if n.is_finite() => visitor.visit_f64(n),
                _ => Err(ValueError::custom("the number is out of range")),
            }
        }
    }
}

impl<'de> Deserializer<'de> for DocDeserializer<'de, '_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let result = match self.doc.kind(self.node) {
            NodeKind::Null => visitor.visit_unit(),
            NodeKind::Bool(b) => visitor.visit_bool(*b),
            NodeKind::Number(n) => self.visit_number(n, visitor),
            NodeKind::Text(t) => visitor.visit_borrowed_str(t),
            NodeKind::Seq(items) => {
                visitor.visit_seq(SeqReader { reader: self, items: items.iter() })
            }
            NodeKind::Map(entries) => visitor.visit_map(MapReader::new(self, entries, None)),
        };
        result.map_err(|error| error.with_found_type(&self))
    }

    /// Ignored values are not visited.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.doc.kind(self.node) {
            NodeKind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match (name, self.doc.kind(self.node)) {
            (SCALAR, NodeKind::Number(written)) => visitor.visit_borrowed_str(written),
            (EITHER, NodeKind::Number(_)) => visitor.visit_some(self),
            (SCALAR | EITHER, _) => self.deserialize_any(visitor),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        if name == AT {
            return visitor.visit_map(AtReader { reader: self, step: 0 });
        }
        match self.doc.kind(self.node) {
            NodeKind::Map(entries) => {
                visitor.visit_map(MapReader::new(self, entries, Some(fields)))
            }
            // An empty key, such as `servers:` without a value, counts as an empty map.
            NodeKind::Null => visitor.visit_map(MapReader::new(self, &[], None)),
            _ => Err(self.type_error(&"a map")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.doc.kind(self.node) {
            NodeKind::Null => self.deserialize_struct("", &[], visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match self.doc.kind(self.node) {
            NodeKind::Text(word) => visitor.visit_enum(word.as_str().into_deserializer()),
            NodeKind::Map(entries) => match entries.as_slice() {
                [(key, value)] => visitor
                    .visit_enum(VariantReader { name: &key.name, reader: self.for_node(*value) }),
                _ => Err(self.type_error(&"one word, or a map with one key")),
            },
            _ => Err(self.type_error(&"one word, or a map with one key")),
        }
        .map_err(|error: ValueError| error.with_node(self.node))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct identifier
    }
}

struct SeqReader<'de, 'n> {
    reader: DocDeserializer<'de, 'n>,
    items: std::slice::Iter<'de, NodeId>,
}

impl<'de> SeqAccess<'de> for SeqReader<'de, '_> {
    type Error = ValueError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ValueError> {
        let Some(node) = self.items.next() else {
            return Ok(None);
        };
        seed.deserialize(self.reader.for_node(*node))
            .map(Some)
            .map_err(|error| error.with_node(*node))
    }
}

struct MapReader<'de, 'n> {
    reader: DocDeserializer<'de, 'n>,
    entries: std::iter::Enumerate<std::slice::Iter<'de, (super::Key, NodeId)>>,
    value: Option<NodeId>,
    /// The fields of a struct. Other keys are recorded and skipped.
    known: Option<&'static [&'static str]>,
}

impl<'de, 'n> MapReader<'de, 'n> {
    fn new(
        reader: DocDeserializer<'de, 'n>,
        entries: &'de [(super::Key, NodeId)],
        known: Option<&'static [&'static str]>,
    ) -> Self {
        Self { reader, entries: entries.iter().enumerate(), value: None, known }
    }
}

impl<'de> MapAccess<'de> for MapReader<'de, '_> {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ValueError> {
        for (entry, (key, value)) in self.entries.by_ref() {
            if let Some(known) = self.known
                && !known.contains(&key.name.as_str())
            {
                let unknown =
                    UnknownKey { map: self.reader.node, entry, key: key.name.clone(), known };
                self.reader.diagnostics.borrow_mut().unknown.push(unknown);
                continue;
            }
            self.value = Some(*value);
            return seed.deserialize(StrDeserializer::new(&key.name)).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ValueError> {
        let node =
            self.value.take().ok_or_else(|| ValueError::custom("a value without its key"))?;
        seed.deserialize(self.reader.for_node(node)).map_err(|error| error.with_node(node))
    }
}

/// Passes the node's number and then its value to `At`. An invalid value is recorded.
struct AtReader<'de, 'n> {
    reader: DocDeserializer<'de, 'n>,
    step: u8,
}

impl<'de> MapAccess<'de> for AtReader<'de, '_> {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ValueError> {
        let Some(name) = super::at::AT_FIELDS.get(usize::from(self.step)) else {
            return Ok(None);
        };
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ValueError> {
        self.step += 1;
        let DocDeserializer { node, diagnostics, .. } = self.reader;
        if self.step == 1 {
            return seed.deserialize(node.0.into_deserializer());
        }
        let value = seed.deserialize(self.reader);
        value.inspect_err(|error| {
            diagnostics.borrow_mut().errors.push(error.clone().with_node(node))
        })
    }
}

struct VariantReader<'de, 'n> {
    name: &'de str,
    reader: DocDeserializer<'de, 'n>,
}

impl<'de> EnumAccess<'de> for VariantReader<'de, '_> {
    type Error = ValueError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), ValueError> {
        Ok((seed.deserialize(StrDeserializer::<ValueError>::new(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for VariantReader<'de, '_> {
    type Error = ValueError;

    fn unit_variant(self) -> Result<(), ValueError> {
        Err(ValueError::custom(format!("`{}` takes no value", text::clip(self.name))))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, ValueError> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        self.reader.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        self.reader.deserialize_struct("", fields, visitor)
    }
}

/// A value in a short scalar form or in a long form as a map or list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Either<S, M> {
    Scalar(S),
    Nested(M),
}

impl<'de, S: Deserialize<'de>, M: Deserialize<'de>> Deserialize<'de> for Either<S, M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(EITHER, EitherVisitor(PhantomData))
    }
}

struct EitherVisitor<S, M>(PhantomData<(S, M)>);

impl<'de, S: Deserialize<'de>, M: Deserialize<'de>> Visitor<'de> for EitherVisitor<S, M> {
    type Value = Either<S, M>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or its long form")
    }

    /// The deserializer passes numbers through, so that the type decides between a number and its text.
    fn visit_some<D: Deserializer<'de>>(self, number: D) -> Result<Self::Value, D::Error> {
        S::deserialize(number).map(Either::Scalar)
    }

    /// Handles deserializers of other formats.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, other: D) -> Result<Self::Value, D::Error> {
        other.deserialize_any(self)
    }

    fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<Self::Value, E> {
        S::deserialize(v.into_deserializer()).map(Either::Scalar)
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Self::Value, E> {
        S::deserialize(v.into_deserializer()).map(Either::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        M::deserialize(SeqDeserializer(seq)).map(Either::Nested)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        M::deserialize(MapAccessDeserializer::new(map)).map(Either::Nested)
    }
}

/// Deserializes a sequence as a list only. serde's own sequence deserializer would also accept a list for a struct.
struct SeqDeserializer<A>(A);

impl<'de, A: SeqAccess<'de>> Deserializer<'de> for SeqDeserializer<A> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_seq(self.0)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, A::Error> {
        Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &"a text or a map"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

//! Reads serde types from a tree: every value with its place, unknown keys and wrong types noted.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::at::{AT, Wrong};
use super::{Doc, Kind, NodeId};
use crate::text;

/// What a reading gave: the value, what could not be read, and what nobody asked for.
#[derive(Debug)]
pub(crate) struct Reading<T> {
    pub(crate) value: Option<T>,
    pub(crate) wrongs: Vec<Wrong>,
    pub(crate) unknown: Vec<Unknown>,
}

/// A key that the type does not have.
#[derive(Debug)]
pub(crate) struct Unknown {
    /// The map that holds the key.
    pub(crate) map: NodeId,
    /// Which of the map's entries it is.
    pub(crate) entry: usize,
    pub(crate) key: String,
    pub(crate) known: &'static [&'static str],
}

/// Reads a node as `T`.
pub(crate) fn read<'de, T: Deserialize<'de>>(doc: &'de Doc, node: NodeId) -> Reading<T> {
    let notes = RefCell::new(Notes::default());
    let value = T::deserialize(Reader { doc, node, notes: &notes });
    let mut notes = notes.into_inner();
    let value = value.map_err(|wrong| notes.wrongs.push(wrong.at(node))).ok();
    Reading { value, wrongs: notes.wrongs, unknown: notes.unknown }
}

/// The name by which the reader recognises that a number's text is wanted, as it was written.
pub(crate) const SCALAR: &str = "toolcrib::Scalar";
/// The name by which the reader recognises `Either`.
const EITHER: &str = "toolcrib::Either";

/// What a node is, in the words of a person. Never what it holds: a value that stands where it does
/// not belong may be a secret.
pub(crate) fn describe(doc: &Doc, node: NodeId) -> &'static str {
    match doc.kind(node) {
        Kind::Null => "nothing",
        Kind::Bool(_) => "a boolean",
        Kind::Number(_) => "a number",
        Kind::Text(_) => "a text",
        Kind::Seq(_) => "a list",
        Kind::Map(_) => "a map",
    }
}

#[derive(Default)]
struct Notes {
    wrongs: Vec<Wrong>,
    unknown: Vec<Unknown>,
}

impl Wrong {
    fn at(mut self, node: NodeId) -> Self {
        self.node.get_or_insert(node);
        self
    }

    /// The same with its place, and with what stands there where that is the mistake.
    fn found(mut self, reader: &Reader<'_, '_>) -> Self {
        if std::mem::take(&mut self.mismatch) {
            let found = describe(reader.doc, self.node.unwrap_or(reader.node));
            self.text = format!("{}, found {found}", self.text);
        }
        self.at(reader.node)
    }
}

#[derive(Clone, Copy)]
struct Reader<'de, 'n> {
    doc: &'de Doc,
    node: NodeId,
    notes: &'n RefCell<Notes>,
}

impl<'de> Reader<'de, '_> {
    fn on(self, node: NodeId) -> Self {
        Self { node, ..self }
    }

    fn wrong(&self, expected: &dyn serde::de::Expected) -> Wrong {
        Wrong::invalid_type(serde::de::Unexpected::Unit, expected).found(self)
    }

    fn visit_number<V: Visitor<'de>>(self, number: &str, visitor: V) -> Result<V::Value, Wrong> {
        let number = super::decimal(number);
        if let Ok(n) = number.parse::<u64>() {
            visitor.visit_u64(n)
        } else if let Ok(n) = number.parse::<i64>() {
            visitor.visit_i64(n)
        } else {
            match number.parse::<f64>() {
                Ok(n) if n.is_finite() => visitor.visit_f64(n),
                _ => Err(Wrong::custom("the number is out of range")),
            }
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let result = match self.doc.kind(self.node) {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool(b) => visitor.visit_bool(*b),
            Kind::Number(n) => self.visit_number(n, visitor),
            Kind::Text(t) => visitor.visit_borrowed_str(t),
            Kind::Seq(items) => visitor.visit_seq(Items { reader: self, items: items.iter() }),
            Kind::Map(entries) => visitor.visit_map(Entries::of(self, entries, None)),
        };
        result.map_err(|wrong| wrong.found(&self))
    }

    /// What nobody asked for is not looked at.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.doc.kind(self.node) {
            Kind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match (name, self.doc.kind(self.node)) {
            (SCALAR, Kind::Number(written)) => visitor.visit_borrowed_str(written),
            (EITHER, Kind::Number(_)) => visitor.visit_some(self),
            (SCALAR | EITHER, _) => self.deserialize_any(visitor),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        if name == AT {
            return visitor.visit_map(WithPlace { reader: self, step: 0 });
        }
        match self.doc.kind(self.node) {
            Kind::Map(entries) => visitor.visit_map(Entries::of(self, entries, Some(fields))),
            // An empty key (`servers:` and nothing below it) is an empty map to whoever wrote it.
            Kind::Null => visitor.visit_map(Entries::of(self, &[], None)),
            _ => Err(self.wrong(&"a map")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.doc.kind(self.node) {
            Kind::Null => self.deserialize_struct("", &[], visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self.doc.kind(self.node) {
            Kind::Text(word) => visitor.visit_enum(word.as_str().into_deserializer()),
            Kind::Map(entries) => match entries.as_slice() {
                [(key, value)] => {
                    visitor.visit_enum(Variant { name: &key.name, reader: self.on(*value) })
                }
                _ => Err(self.wrong(&"one word, or a map with one key")),
            },
            _ => Err(self.wrong(&"one word, or a map with one key")),
        }
        .map_err(|wrong: Wrong| wrong.at(self.node))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct identifier
    }
}

struct Items<'de, 'n> {
    reader: Reader<'de, 'n>,
    items: std::slice::Iter<'de, NodeId>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Wrong> {
        let Some(node) = self.items.next() else {
            return Ok(None);
        };
        seed.deserialize(self.reader.on(*node)).map(Some).map_err(|wrong| wrong.at(*node))
    }
}

struct Entries<'de, 'n> {
    reader: Reader<'de, 'n>,
    entries: std::iter::Enumerate<std::slice::Iter<'de, (super::Key, NodeId)>>,
    value: Option<NodeId>,
    /// The fields of a struct; other keys are noted and passed over.
    known: Option<&'static [&'static str]>,
}

impl<'de, 'n> Entries<'de, 'n> {
    fn of(
        reader: Reader<'de, 'n>,
        entries: &'de [(super::Key, NodeId)],
        known: Option<&'static [&'static str]>,
    ) -> Self {
        Self { reader, entries: entries.iter().enumerate(), value: None, known }
    }
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        for (entry, (key, value)) in self.entries.by_ref() {
            if let Some(known) = self.known
                && !known.contains(&key.name.as_str())
            {
                let unknown =
                    Unknown { map: self.reader.node, entry, key: key.name.clone(), known };
                self.reader.notes.borrow_mut().unknown.push(unknown);
                continue;
            }
            self.value = Some(*value);
            return seed.deserialize(StrDeserializer::new(&key.name)).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let node = self.value.take().ok_or_else(|| Wrong::custom("a value without its key"))?;
        seed.deserialize(self.reader.on(node)).map_err(|wrong| wrong.at(node))
    }
}

/// Hands an `At` first its node's number, then its value; a value that is wrong is noted.
struct WithPlace<'de, 'n> {
    reader: Reader<'de, 'n>,
    step: u8,
}

impl<'de> MapAccess<'de> for WithPlace<'de, '_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        let Some(name) = super::at::AT_FIELDS.get(usize::from(self.step)) else {
            return Ok(None);
        };
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        self.step += 1;
        let Reader { node, notes, .. } = self.reader;
        if self.step == 1 {
            return seed.deserialize(node.0.into_deserializer());
        }
        let value = seed.deserialize(self.reader);
        value.inspect_err(|wrong| notes.borrow_mut().wrongs.push(wrong.clone().at(node)))
    }
}

struct Variant<'de, 'n> {
    name: &'de str,
    reader: Reader<'de, 'n>,
}

impl<'de> EnumAccess<'de> for Variant<'de, '_> {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Wrong> {
        Ok((seed.deserialize(StrDeserializer::<Wrong>::new(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de, '_> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        Err(Wrong::custom(format!("`{}` takes no value", text::clip(self.name))))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.reader.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.reader.deserialize_struct("", fields, visitor)
    }
}

/// A value that may be written as a text (or another scalar) or as a map or list.
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

    /// The tree's reader hands over a number whole: its type decides whether it is one or a text.
    fn visit_some<D: Deserializer<'de>>(self, number: D) -> Result<Self::Value, D::Error> {
        S::deserialize(number).map(Either::Scalar)
    }

    /// Another format than a tree.
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
        M::deserialize(serde::de::value::SeqAccessDeserializer::new(seq)).map(Either::Nested)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        M::deserialize(MapAccessDeserializer::new(map)).map(Either::Nested)
    }
}

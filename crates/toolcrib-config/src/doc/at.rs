//! A value with its node.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    Deserialize, Deserializer, Error as _, Expected, IgnoredAny, MapAccess, Unexpected, Visitor,
};
use serde::{Serialize, Serializer};

use super::NodeId;

/// Struct name by which the deserializer recognises `At`.
pub(crate) const AT: &str = "toolcrib::At";
pub(crate) const AT_FIELDS: &[&str] = &["node", "value"];

/// A value of a file with its node. A value that could not be read is `None` here and is listed in the errors, so that
/// one mistake is one problem and the neighbouring values are still read.
#[derive(Clone, Debug, PartialEq)]
pub struct At<T> {
    /// The node of the value.
    pub node: NodeId,
    /// The value, or `None` if it could not be read.
    pub value: Option<T>,
}

/// The error of a node that could not be read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValueError {
    pub(crate) node: Option<NodeId>,
    pub text: String,
    /// True if the text names only the expected type. The deserializer then appends the found type.
    pub(crate) mismatch: bool,
}

impl<T> At<T> {
    /// Combines a value with its node.
    pub fn new(node: NodeId, value: T) -> Self {
        Self { node, value: Some(value) }
    }

    /// Converts the value and keeps the node.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { node: self.node, value: self.value.map(f) }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ValueError {}

impl serde::de::Error for ValueError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self { node: None, text: text.to_string(), mismatch: false }
    }

    /// serde's own message is "invalid type: integer `7`, expected a string". The found type is added later, in the
    /// terms of the file format.
    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self { node: None, text: format!("expected {expected}"), mismatch: true }
    }

    /// serde's own message would quote the value.
    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }
}

impl<T: Serialize> Serialize for At<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_unit(),
        }
    }
}

impl<T: schemars::JsonSchema> schemars::JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct(AT, AT_FIELDS, AtVisitor(PhantomData))
    }
}

struct AtVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtVisitor<T> {
    type Value = At<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value with its location")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<At<T>, A::Error> {
        let node: Option<(IgnoredAny, u32)> = map.next_entry()?;
        let Some((_, node)) = node else {
            return Err(A::Error::custom("no location"));
        };
        let node = NodeId(node);
        map.next_key::<IgnoredAny>()?;
        // The deserializer has already recorded the error.
        Ok(At { node, value: map.next_value::<T>().ok() })
    }
}

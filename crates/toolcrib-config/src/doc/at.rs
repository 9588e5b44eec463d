//! A value together with where it was written.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    Deserialize, Deserializer, Error as _, Expected, IgnoredAny, MapAccess, Unexpected, Visitor,
};
use serde::{Serialize, Serializer};

use super::NodeId;

/// The name by which the tree's reader recognises that a place is wanted.
pub(crate) const AT: &str = "toolcrib::At";
pub(crate) const AT_FIELDS: &[&str] = &["node", "value"];

/// One value of a file. A value that could not be read is absent here and told in the reading's
/// list of wrongs, so that one slip is one problem and its neighbours are still read.
#[derive(Clone, Debug, PartialEq)]
pub struct At<T> {
    pub node: NodeId,
    pub value: Option<T>,
}

/// Why a node could not be read, and which node it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wrong {
    pub(crate) node: Option<NodeId>,
    pub text: String,
    /// Whether the text is only what was expected; whoever knows the node adds what was found.
    pub(crate) mismatch: bool,
}

impl<T> At<T> {
    pub fn new(node: NodeId, value: T) -> Self {
        Self { node, value: Some(value) }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { node: self.node, value: self.value.map(f) }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Wrong {}

impl serde::de::Error for Wrong {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self { node: None, text: text.to_string(), mismatch: false }
    }

    /// serde's own words are "invalid type: integer `7`, expected a string"; ours name the value as it
    /// stands in the file.
    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self { node: None, text: format!("expected {expected}"), mismatch: true }
    }

    /// serde would quote the value.
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
        f.write_str("a value with its place")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<At<T>, A::Error> {
        let node: Option<(IgnoredAny, u32)> = map.next_entry()?;
        let Some((_, node)) = node else {
            return Err(A::Error::custom("no place"));
        };
        let node = NodeId(node);
        map.next_key::<IgnoredAny>()?;
        // The reader has noted what is wrong before the error came up to here.
        Ok(At { node, value: map.next_value::<T>().ok() })
    }
}

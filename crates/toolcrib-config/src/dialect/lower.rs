//! Small steps from a dialect's texts to native keys, for the dialects that share them.

use indexmap::IndexMap;

use crate::doc::At;
use crate::model::transport::{EnvKeys, Plain};
use crate::value::Value;

/// Named texts as most formats write variables and headers.
pub(super) type Texts = IndexMap<String, At<String>>;

/// Texts as values, by the rules of their file.
pub(super) fn values(texts: Texts, value: &dyn Fn(String) -> Value) -> IndexMap<String, At<Value>> {
    texts.into_iter().map(|(name, at)| (name, at.map(value))).collect()
}

pub(super) fn plains(texts: Vec<String>, value: &dyn Fn(String) -> Value) -> Vec<Plain> {
    texts.into_iter().map(|text| Plain(value(text))).collect()
}

/// Variables that a server's process is given, and nothing else about its environment.
pub(super) fn env(set: At<IndexMap<String, At<Value>>>) -> At<EnvKeys> {
    let keys = EnvKeys { set: Some(At { node: set.node, value: set.value }), ..EnvKeys::default() };
    At::new(set.node, keys)
}

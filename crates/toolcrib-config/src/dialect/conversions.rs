//! Converts texts of a dialect to native values, for the dialects that share these steps.

use indexmap::IndexMap;

use crate::doc::At;
use crate::model::transport::{DisplayValue, EnvKeys};
use crate::value::Value;

/// Texts by name, as most formats write variables and headers.
pub(super) type TextMap = IndexMap<String, At<String>>;

/// Converts a map of texts to values with the file's expansion rule.
pub(super) fn lower_text_map(
    texts: TextMap,
    value: &dyn Fn(String) -> Value,
) -> IndexMap<String, At<Value>> {
    texts.into_iter().map(|(name, at)| (name, at.map(value))).collect()
}

pub(super) fn lower_texts(
    texts: Vec<String>,
    value: &dyn Fn(String) -> Value,
) -> Vec<DisplayValue> {
    texts.into_iter().map(|text| DisplayValue(value(text))).collect()
}

/// Environment keys that set variables and leave everything else at its default.
pub(super) fn env_keys(set: At<IndexMap<String, At<Value>>>) -> At<EnvKeys> {
    let keys = EnvKeys { set: Some(At { node: set.node, value: set.value }), ..EnvKeys::default() };
    At::new(set.node, keys)
}

//! Classifies keywords that apply schemas to the same value, with helpers for their values.

use serde_json::{Map, Value};

use super::limits::UncheckedReason;
use super::references::References;

/// Schemas that a keyword applies to the same value. Empty for all other keywords.
pub(super) fn same_value_schemas<'a>(
    references: &References<'a>,
    key: &str,
    value: &'a Value,
) -> Result<Vec<&'a Value>, UncheckedReason> {
    Ok(match key {
        "$ref" | "$dynamicRef" | "$recursiveRef" => references.targets(value)?,
        "allOf" | "anyOf" | "oneOf" => array_items(value).collect(),
        "not" | "if" | "then" | "else" => vec![value],
        "dependentSchemas" | "dependencies" => object_values(value).collect(),
        _ => Vec::new(),
    })
}

pub(super) fn has_unevaluated(keywords: &Map<String, Value>) -> bool {
    keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems")
}

pub(super) fn array_items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn object_values(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_object().into_iter().flat_map(Map::values)
}

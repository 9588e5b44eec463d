//! Which keywords hold a schema against the same value, and small views of what they hold.

use serde_json::{Map, Value};

use super::bounds::Unchecked;
use super::refs::Refs;

/// The schemas that a keyword holds against the same value; none for all other keywords.
pub(super) fn in_place<'a>(
    refs: &Refs<'a>,
    key: &str,
    value: &'a Value,
) -> Result<Vec<&'a Value>, Unchecked> {
    Ok(match key {
        "$ref" | "$dynamicRef" | "$recursiveRef" => refs.targets(value)?,
        "allOf" | "anyOf" | "oneOf" => list(value).collect(),
        "not" | "if" | "then" | "else" => vec![value],
        "dependentSchemas" | "dependencies" => members(value).collect(),
        _ => Vec::new(),
    })
}

pub(super) fn has_unevaluated(keywords: &Map<String, Value>) -> bool {
    keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems")
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn members(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_object().into_iter().flat_map(Map::values)
}

//! Finds tool schemas that are not valid JSON Schema, once per list of tools.
//!
//! Only certain defects count. A schema that is too large, names an unknown dialect or refers to another document may
//! be valid.

use std::collections::HashSet;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value, json};
use toolcrib_wire::RawJson;

use super::keywords::{array_items, object_values};
use super::limits::{self, UncheckedReason};
use super::references::References;
use super::violation::Violation;

/// Keywords with a schema or a list of schemas.
const ONE_OR_MANY: [&str; 16] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords with an object of schemas.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// A tool with an invalid schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSchema {
    /// The server's own name of the tool.
    pub tool: String,
    pub reason: String,
}

/// Checks schemas. Create it once for many schemas.
#[derive(Debug)]
pub struct SchemaLinter {
    /// Accepts ECMA-262 patterns. `None` if it could not be built; then every pattern is accepted.
    ecma_pattern: Option<Validator>,
}

impl Default for SchemaLinter {
    fn default() -> Self {
        let format = json!({"type": "string", "format": "regex"});
        let options = jsonschema::options().offline().should_validate_formats(true);
        SchemaLinter { ecma_pattern: options.build(&format).ok() }
    }
}

impl SchemaLinter {
    /// Returns the first defect. `None` if the schema is valid or cannot be judged.
    pub fn find_defect(&self, schema: &RawJson) -> Option<String> {
        if schema.text().len() > limits::MAX_SCHEMA_BYTES {
            return None;
        }
        let schema: Value = schema.json().read().ok()?;
        limits::check_schema_limits(&schema).ok()?;
        meta_schema_defect(&schema).or_else(|| reference_defect(&schema)).or_else(|| {
            let mut schemas = Vec::new();
            collect_schemas(&schema, &mut schemas);
            schemas.into_iter().find_map(|schema| self.pattern_defect(schema))
        })
    }

    fn pattern_defect(&self, schema: &Map<String, Value>) -> Option<String> {
        let own = schema.get("pattern").and_then(Value::as_str);
        let names = schema.get("patternProperties").and_then(Value::as_object);
        let mut patterns =
            own.into_iter().chain(names.into_iter().flat_map(Map::keys).map(String::as_str));
        let bad = patterns.find(|pattern| !self.is_pattern(pattern))?;
        Some(format!("`{}` is not a valid pattern", bad.chars().take(80).collect::<String>()))
    }

    /// Accepts patterns of ECMA-262 and of the engine, because schemas are written for both.
    fn is_pattern(&self, pattern: &str) -> bool {
        let Some(ecma) = &self.ecma_pattern else { return true };
        let limits = PatternOptions::regex()
            .size_limit(limits::MAX_COMPILED_PATTERN_BYTES)
            .dfa_size_limit(limits::MAX_COMPILED_PATTERN_BYTES);
        let compiled = || {
            let options = jsonschema::options().offline().with_pattern_options(limits);
            options.build(&json!({ "pattern": pattern })).is_ok()
        };
        ecma.is_valid(&Value::from(pattern)) || compiled()
    }
}

fn meta_schema_defect(schema: &Value) -> Option<String> {
    if Draft::default().detect(schema) == Draft::Unknown {
        return None;
    }
    let error = jsonschema::meta::validate(schema).err()?;
    Some(Violation::from_error(&error).to_string())
}

/// Finds a reference to nothing, to something other than a schema, or to other references only.
fn reference_defect(schema: &Value) -> Option<String> {
    let references = References::collect(schema).ok()?;
    let mut schemas = Vec::new();
    collect_schemas(schema, &mut schemas);
    schemas.into_iter().find_map(|schema| follow_references(&references, schema))
}

/// Follows a chain of references to a schema without one.
fn follow_references<'a>(
    references: &References<'a>,
    mut schema: &'a Map<String, Value>,
) -> Option<String> {
    let mut seen = HashSet::new();
    loop {
        let reference = schema.get("$ref").filter(|reference| reference.is_string())?;
        let name = reference.as_str().unwrap_or_default();
        let clipped = || name.chars().take(80).collect::<String>();
        if !seen.insert(std::ptr::from_ref(schema).addr()) {
            return Some(format!("the reference `{}` is circular", clipped()));
        }
        let targets = match references.targets(reference) {
            Ok(targets) => targets,
            Err(UncheckedReason::BadSchema { reason }) if name.starts_with('#') => {
                return Some(reason);
            }
            // The target is in another document.
            Err(_) => return None,
        };
        // With several candidates the dialect decides.
        let [target] = targets[..] else { return None };
        match target {
            Value::Object(next) => schema = next,
            Value::Bool(_) => return None,
            _ => return Some(format!("the reference `{}` does not point to a schema", clipped())),
        }
    }
}

/// Collects all nested schemas, the schema itself first. The depth has been checked before.
fn collect_schemas<'a>(schema: &'a Value, found: &mut Vec<&'a Map<String, Value>>) {
    let Value::Object(keywords) = schema else { return };
    found.push(keywords);
    for (key, value) in keywords {
        if ONE_OR_MANY.contains(&key.as_str()) {
            collect_schemas(value, found);
            array_items(value).for_each(|inner| collect_schemas(inner, found));
        } else if NAMED.contains(&key.as_str()) {
            object_values(value).for_each(|inner| collect_schemas(inner, found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defect(schema: &Value) -> Option<String> {
        SchemaLinter::default().find_defect(&RawJson::from_value(schema).unwrap())
    }

    #[test]
    fn dom_100_invalid_schemas_are_reported() {
        for (schema, words) in [
            (json!({"type": 5}), "`/type`: expected"),
            (json!({"type": "objekt"}), "`/type`: expected"),
            (json!({"type": "object", "properties": []}), "`/properties`: expected object"),
            (
                json!({"properties": {"a": {"required": "a"}}}),
                "`/properties/a/required`: expected array",
            ),
            (json!({"properties": {"a": {"pattern": "("}}}), "`(` is not a valid pattern"),
            (json!({"patternProperties": {"[": {}}}), "`[` is not a valid pattern"),
            (json!({"$ref": "#"}), "`#` is circular"),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/x"}},
                    "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}),
                "is circular",
            ),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
                "unresolved reference `#/$defs/none`",
            ),
            (
                json!({"properties": {"a": {"$ref": "#/required"}}, "required": ["a"]}),
                "does not point to a schema",
            ),
        ] {
            let clipped = defect(&schema).unwrap_or_default();
            assert!(clipped.contains(words), "{schema}: {clipped:?}");
        }
    }

    #[test]
    fn dom_100_valid_or_undecidable_schemas_have_no_defect() {
        for schema in [
            json!({}),
            json!({"type": "object"}),
            json!({"type": ["object", "null"], "additionalProperties": false}),
            // Recursion through a part of the value is legal.
            json!({"properties": {"child": {"$ref": "#"}, "all": {"items": {"$ref": "#/$defs/n"}}},
                "$defs": {"n": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": true}}),
            json!({"properties": {"$ref": {"type": "string"}, "pattern": {"type": "string"}}}),
            json!({"default": {"$ref": "#/none", "type": 5}, "enum": [{"pattern": "("}]}),
            // ECMA-262 has look-ahead; other engines accept additional escapes.
            json!({"pattern": "^(?=.*\\d)[a-z]+$"}),
            json!({"pattern": "^\\@x\\-y$"}),
            json!({"properties": {"a": {"$ref": "https://example.com/other.json"}}}),
            json!({"$schema": "https://example.com/mine", "type": 5}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {}, "items": [{}]}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true}),
        ] {
            assert_eq!(defect(&schema), None, "{schema}");
        }
    }

    /// The size of a server's schema is unlimited.
    #[test]
    fn schema_over_the_limits_has_no_defect() {
        let deep = (0..100).fold(json!({"type": 5}), |inner, _| json!({ "not": inner }));
        assert_eq!(defect(&deep), None);
        let groups = "(".repeat(2000);
        assert!(defect(&json!({ "pattern": groups })).is_some());
    }
}

//! Whether a tool's schema is a JSON Schema at all, found out once for each list of tools.
//!
//! Only certain mistakes count: a schema that is too large to look at, that names an unknown dialect or that refers to
//! another document may be a good one.

use std::collections::HashSet;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value, json};
use toolcrib_wire::Raw;

use super::bounds::{self, Unchecked};
use super::keywords::{list, members};
use super::refs::Refs;
use super::violation::Violation;

/// Keywords whose value is a schema, or a list of schemas.
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

/// Keywords whose value is an object of schemas.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// A tool whose schema is no JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSchema {
    /// The server's own name for it.
    pub tool: String,
    pub reason: String,
}

/// Looks at schemas. It is made once for many of them.
#[derive(Debug)]
pub struct SchemaJudge {
    /// Accepts what ECMA-262 calls a pattern; `None` if it could not be made, so that no pattern is refused.
    ecma_pattern: Option<Validator>,
}

impl Default for SchemaJudge {
    fn default() -> Self {
        let format = json!({"type": "string", "format": "regex"});
        let options = jsonschema::options().offline().should_validate_formats(true);
        SchemaJudge { ecma_pattern: options.build(&format).ok() }
    }
}

impl SchemaJudge {
    /// Why the text is no schema; `None` if it is one, or if that cannot be known.
    pub fn flaw(&self, schema: &Raw) -> Option<String> {
        if schema.text().len() > bounds::SCHEMA_BYTES {
            return None;
        }
        let schema: Value = schema.json().read().ok()?;
        bounds::schema_within(&schema).ok()?;
        against_meta_schema(&schema).or_else(|| bad_reference(&schema)).or_else(|| {
            let mut schemas = Vec::new();
            collect(&schema, &mut schemas);
            schemas.into_iter().find_map(|schema| self.bad_pattern(schema))
        })
    }

    fn bad_pattern(&self, schema: &Map<String, Value>) -> Option<String> {
        let own = schema.get("pattern").and_then(Value::as_str);
        let names = schema.get("patternProperties").and_then(Value::as_object);
        let mut patterns =
            own.into_iter().chain(names.into_iter().flat_map(Map::keys).map(String::as_str));
        let bad = patterns.find(|pattern| !self.is_pattern(pattern))?;
        Some(format!("`{}` is no pattern", bad.chars().take(80).collect::<String>()))
    }

    /// Schemas are written for ECMA-262, but also for engines that read more than that.
    fn is_pattern(&self, pattern: &str) -> bool {
        let Some(ecma) = &self.ecma_pattern else { return true };
        let limits = PatternOptions::regex()
            .size_limit(bounds::PATTERN_SIZE)
            .dfa_size_limit(bounds::PATTERN_SIZE);
        let compiled = || {
            let options = jsonschema::options().offline().with_pattern_options(limits);
            options.build(&json!({ "pattern": pattern })).is_ok()
        };
        ecma.is_valid(&Value::from(pattern)) || compiled()
    }
}

fn against_meta_schema(schema: &Value) -> Option<String> {
    if Draft::default().detect(schema) == Draft::Unknown {
        return None;
    }
    let error = jsonschema::meta::validate(schema).err()?;
    Some(Violation::of(&error).to_string())
}

/// A reference that leads nowhere, to something that is no schema, or only to other references.
fn bad_reference(schema: &Value) -> Option<String> {
    let refs = Refs::of(schema).ok()?;
    let mut schemas = Vec::new();
    collect(schema, &mut schemas);
    schemas.into_iter().find_map(|schema| follow(&refs, schema))
}

/// Follows a chain of references until it reaches a schema without one.
fn follow<'a>(refs: &Refs<'a>, mut schema: &'a Map<String, Value>) -> Option<String> {
    let mut seen = HashSet::new();
    loop {
        let reference = schema.get("$ref").filter(|reference| reference.is_string())?;
        let name = reference.as_str().unwrap_or_default();
        let told = || name.chars().take(80).collect::<String>();
        if !seen.insert(std::ptr::from_ref(schema).addr()) {
            return Some(format!("the reference `{}` never reaches a schema", told()));
        }
        let targets = match refs.targets(reference) {
            Ok(targets) => targets,
            Err(Unchecked::BadSchema { reason }) if name.starts_with('#') => return Some(reason),
            // It is in another document.
            Err(_) => return None,
        };
        // Which one of several is meant depends on the dialect.
        let [target] = targets[..] else { return None };
        match target {
            Value::Object(next) => schema = next,
            Value::Bool(_) => return None,
            _ => return Some(format!("the reference `{}` leads to no schema", told())),
        }
    }
}

/// Every schema in a schema, itself first. Its depth was checked before.
fn collect<'a>(schema: &'a Value, found: &mut Vec<&'a Map<String, Value>>) {
    let Value::Object(keywords) = schema else { return };
    found.push(keywords);
    for (key, value) in keywords {
        if ONE_OR_MANY.contains(&key.as_str()) {
            collect(value, found);
            list(value).for_each(|inner| collect(inner, found));
        } else if NAMED.contains(&key.as_str()) {
            members(value).for_each(|inner| collect(inner, found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(schema: &Value) -> Option<String> {
        SchemaJudge::default().flaw(&Raw::of(schema).unwrap())
    }

    #[test]
    fn dom_100_what_is_no_schema_is_told() {
        for (schema, words) in [
            (json!({"type": 5}), "`/type`: expected"),
            (json!({"type": "objekt"}), "`/type`: expected"),
            (json!({"type": "object", "properties": []}), "`/properties`: expected object"),
            (
                json!({"properties": {"a": {"required": "a"}}}),
                "`/properties/a/required`: expected array",
            ),
            (json!({"properties": {"a": {"pattern": "("}}}), "`(` is no pattern"),
            (json!({"patternProperties": {"[": {}}}), "`[` is no pattern"),
            (json!({"$ref": "#"}), "`#` never reaches a schema"),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/x"}},
                    "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}),
                "never reaches a schema",
            ),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
                "`#/$defs/none`, which is not in it",
            ),
            (
                json!({"properties": {"a": {"$ref": "#/required"}}, "required": ["a"]}),
                "leads to no schema",
            ),
        ] {
            let told = flaw(&schema).unwrap_or_default();
            assert!(told.contains(words), "{schema}: {told:?}");
        }
    }

    #[test]
    fn dom_100_what_is_a_schema_or_may_be_one_passes() {
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
            // ECMA-262 has look-ahead; other engines read escapes that it does not have.
            json!({"pattern": "^(?=.*\\d)[a-z]+$"}),
            json!({"pattern": "^\\@x\\-y$"}),
            json!({"properties": {"a": {"$ref": "https://example.com/other.json"}}}),
            json!({"$schema": "https://example.com/mine", "type": 5}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {}, "items": [{}]}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true}),
        ] {
            assert_eq!(flaw(&schema), None, "{schema}");
        }
    }

    /// What servers may send has no bound of its own.
    #[test]
    fn a_schema_that_is_too_large_to_look_at_passes() {
        let deep = (0..100).fold(json!({"type": 5}), |inner, _| json!({ "not": inner }));
        assert_eq!(flaw(&deep), None);
        let groups = "(".repeat(2000);
        assert!(flaw(&json!({ "pattern": groups })).is_some());
    }
}

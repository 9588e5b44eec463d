//! Limits for schemas and values. Anything larger stays unchecked.

use serde_json::Value;

/// Size limit of a schema in bytes.
pub(super) const MAX_SCHEMA_BYTES: usize = 512 * 1024;
/// Limit of JSON values in a schema.
const MAX_SCHEMA_VALUES: usize = 20_000;
/// Nesting limit of a schema, because compiling and checking recurse.
const MAX_SCHEMA_DEPTH: usize = 64;
const MAX_PATTERNS: usize = 128;
const MAX_PATTERN_BYTES: usize = 2_048;
/// Size limit of one compiled pattern in bytes.
pub(super) const MAX_COMPILED_PATTERN_BYTES: usize = 512 * 1024;
/// Size limit of a checked value in bytes.
pub(super) const MAX_VALUE_BYTES: usize = 8 * 1024 * 1024;
const MAX_VALUE_DEPTH: usize = 128;

/// Reason why a value was not checked. It says nothing about the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UncheckedReason {
    #[error("the schema has more than {limit} {of}")]
    SchemaOver { limit: usize, of: &'static str },
    #[error("the schema cannot be used: {reason}")]
    BadSchema { reason: String },
    #[error("the schema refers to itself for the same value")]
    Loop,
    #[error("the value has more than {limit} {of}")]
    ValueOver { limit: usize, of: &'static str },
    #[error("a number is too large to be compared")]
    Number,
    #[error("checking would take too long")]
    TooMuchWork,
}

/// Checks the schema limits before compiling.
pub(super) fn check_schema_limits(schema: &Value) -> Result<(), UncheckedReason> {
    let mut totals = SchemaTotals::default();
    totals.count_schema(schema, 0)
}

pub(super) fn check_value_limits(value: &Value) -> Result<(), UncheckedReason> {
    check_numbers_and_depth(value, 0)
}

/// Valid JSON fails to parse only because of its depth.
pub(super) fn value_too_deep() -> UncheckedReason {
    UncheckedReason::ValueOver { limit: MAX_VALUE_DEPTH, of: "levels" }
}

#[derive(Default)]
struct SchemaTotals {
    values: usize,
    patterns: usize,
}

impl SchemaTotals {
    /// Counts every value of the document, because a reference can use any of them as a schema.
    fn count_schema(&mut self, schema: &Value, depth: usize) -> Result<(), UncheckedReason> {
        self.values += 1;
        check_limit(self.values, MAX_SCHEMA_VALUES, "values")?;
        check_limit(depth, MAX_SCHEMA_DEPTH, "levels")?;
        match schema {
            Value::Number(number) if number.as_f64().is_none() => Err(UncheckedReason::Number),
            Value::Array(items) => {
                items.iter().try_for_each(|item| self.count_schema(item, depth + 1))
            }
            Value::Object(members) => members.iter().try_for_each(|(key, value)| {
                self.count_pattern(key, value)?;
                self.count_schema(value, depth + 1)
            }),
            _ => Ok(()),
        }
    }

    fn count_pattern(&mut self, key: &str, value: &Value) -> Result<(), UncheckedReason> {
        let longest = match (key, value) {
            ("pattern", Value::String(pattern)) => {
                self.patterns += 1;
                pattern.len()
            }
            ("patternProperties", Value::Object(members)) => {
                self.patterns += members.len();
                members.keys().map(String::len).max().unwrap_or(0)
            }
            _ => return Ok(()),
        };
        check_limit(self.patterns, MAX_PATTERNS, "patterns")?;
        check_limit(longest, MAX_PATTERN_BYTES, "bytes in a pattern")
    }
}

fn check_numbers_and_depth(value: &Value, depth: usize) -> Result<(), UncheckedReason> {
    if depth > MAX_VALUE_DEPTH {
        return Err(value_too_deep());
    }
    match value {
        Value::Number(number) if number.as_f64().is_none() => Err(UncheckedReason::Number),
        Value::Array(items) => {
            items.iter().try_for_each(|item| check_numbers_and_depth(item, depth + 1))
        }
        Value::Object(members) => {
            members.values().try_for_each(|value| check_numbers_and_depth(value, depth + 1))
        }
        _ => Ok(()),
    }
}

fn check_limit(count: usize, limit: usize, of: &'static str) -> Result<(), UncheckedReason> {
    if count > limit { Err(UncheckedReason::SchemaOver { limit, of }) } else { Ok(()) }
}

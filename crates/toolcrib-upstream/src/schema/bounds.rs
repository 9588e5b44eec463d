//! What a schema or a value may cost before it is left unchecked.

use serde_json::Value;

/// Bytes of a schema.
pub(super) const SCHEMA_BYTES: usize = 512 * 1024;
/// Values in a schema, however nested.
const SCHEMA_VALUES: usize = 20_000;
/// Levels of a schema: compiling and checking it recurse over them.
const SCHEMA_DEPTH: usize = 64;
const PATTERNS: usize = 128;
const PATTERN_BYTES: usize = 2_048;
/// Bytes of one compiled pattern.
pub(super) const PATTERN_SIZE: usize = 512 * 1024;
/// Bytes of a value that is to be checked.
pub(super) const VALUE_BYTES: usize = 8 * 1024 * 1024;
const VALUE_DEPTH: usize = 128;

/// Why a value was not checked. It says nothing about the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unchecked {
    #[error("the schema has more than {limit} {of}")]
    SchemaOver { limit: usize, of: &'static str },
    #[error("the schema cannot be used: {reason}")]
    BadSchema { reason: String },
    #[error("the schema leads back to itself without going deeper into the value")]
    Loop,
    #[error("the value has more than {limit} {of}")]
    ValueOver { limit: usize, of: &'static str },
    #[error("a number is too large to be compared")]
    Number,
    #[error("checking would take too long")]
    TooMuchWork,
}

/// Decides before anything is compiled whether a schema can be.
pub(super) fn schema_within(schema: &Value) -> Result<(), Unchecked> {
    let mut sums = Sums::default();
    sums.schema(schema, 0)
}

pub(super) fn value_within(value: &Value) -> Result<(), Unchecked> {
    numbers_and_depth(value, 0)
}

/// Text that is valid JSON fails to become a tree for no other reason.
pub(super) fn too_deep_a_value() -> Unchecked {
    Unchecked::ValueOver { limit: VALUE_DEPTH, of: "levels" }
}

#[derive(Default)]
struct Sums {
    values: usize,
    patterns: usize,
}

impl Sums {
    /// Every value of the document is looked at, wherever a schema may stand: a reference can make any of
    /// them a schema.
    fn schema(&mut self, schema: &Value, depth: usize) -> Result<(), Unchecked> {
        self.values += 1;
        at_most(self.values, SCHEMA_VALUES, "values")?;
        at_most(depth, SCHEMA_DEPTH, "levels")?;
        match schema {
            Value::Number(number) if number.as_f64().is_none() => Err(Unchecked::Number),
            Value::Array(items) => items.iter().try_for_each(|item| self.schema(item, depth + 1)),
            Value::Object(members) => members.iter().try_for_each(|(key, value)| {
                self.pattern(key, value)?;
                self.schema(value, depth + 1)
            }),
            _ => Ok(()),
        }
    }

    fn pattern(&mut self, key: &str, value: &Value) -> Result<(), Unchecked> {
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
        at_most(self.patterns, PATTERNS, "patterns")?;
        at_most(longest, PATTERN_BYTES, "bytes in a pattern")
    }
}

fn numbers_and_depth(value: &Value, depth: usize) -> Result<(), Unchecked> {
    if depth > VALUE_DEPTH {
        return Err(too_deep_a_value());
    }
    match value {
        Value::Number(number) if number.as_f64().is_none() => Err(Unchecked::Number),
        Value::Array(items) => items.iter().try_for_each(|item| numbers_and_depth(item, depth + 1)),
        Value::Object(members) => {
            members.values().try_for_each(|value| numbers_and_depth(value, depth + 1))
        }
        _ => Ok(()),
    }
}

fn at_most(count: usize, limit: usize, of: &'static str) -> Result<(), Unchecked> {
    if count > limit { Err(Unchecked::SchemaOver { limit, of }) } else { Ok(()) }
}

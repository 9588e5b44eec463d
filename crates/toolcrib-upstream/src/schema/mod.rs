//! Validates values against untrusted schemas with bounded time and memory.
//!
//! Schemas come from servers and may be hostile. Oversized schemas are rejected before compilation, patterns run on a
//! linear-time engine, nothing is fetched, and the cost of a check is estimated first. A value that cannot be checked
//! in time is [`Validity::Unchecked`], which is neither valid nor invalid.

mod compile_cost;
mod keywords;
mod limits;
mod lint;
mod references;
mod schema_cache;
mod validation_cost;
mod violation;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use toolcrib_wire::RawJson;

pub use limits::UncheckedReason;
pub use lint::{InvalidSchema, SchemaLinter};
pub use violation::Violation;

use references::References;
use schema_cache::SchemaCache;

/// Step limit of a check. A step takes some tens of nanoseconds.
const MAX_VERDICT_STEPS: u64 = 2_000_000;
/// Step limit for collecting errors, which also cost memory.
const MAX_ERROR_STEPS: u64 = 200_000;
/// Limit of reported violations.
const MAX_VIOLATIONS: usize = 5;

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validity {
    Valid,
    /// The first violations, at least one.
    Invalid(Vec<Violation>),
    Unchecked(UncheckedReason),
}

/// Checks values against schemas and caches compiled schemas.
#[derive(Debug, Default)]
pub struct SchemaValidator {
    cache: SchemaCache<Result<CompiledSchema, UncheckedReason>>,
}

impl SchemaValidator {
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks a value. Supports drafts 4, 6, 7, 2019-09 and 2020-12 by `$schema`; the default is 2020-12.
    pub fn check(&self, schema: &RawJson, value: &RawJson) -> Validity {
        self.try_check(schema, value).unwrap_or_else(Validity::Unchecked)
    }

    /// Checks whether a schema can be used.
    pub fn check_schema(&self, schema: &RawJson) -> Result<(), UncheckedReason> {
        self.compiled(schema).as_ref().as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn try_check(&self, schema: &RawJson, value: &RawJson) -> Result<Validity, UncheckedReason> {
        let compiled = self.compiled(schema);
        let compiled = compiled.as_ref().as_ref().map_err(Clone::clone)?;
        if value.text().len() > limits::MAX_VALUE_BYTES {
            return Err(UncheckedReason::ValueOver { limit: limits::MAX_VALUE_BYTES, of: "bytes" });
        }
        let value: Value = value.json().read().map_err(|_| limits::value_too_deep())?;
        limits::check_value_limits(&value)?;
        compiled.check(&value)
    }

    fn compiled(&self, schema: &RawJson) -> Arc<Result<CompiledSchema, UncheckedReason>> {
        if schema.text().len() > limits::MAX_SCHEMA_BYTES {
            let over = UncheckedReason::SchemaOver { limit: limits::MAX_SCHEMA_BYTES, of: "bytes" };
            return Arc::new(Err(over));
        }
        self.cache.get_or_insert_with(schema.text(), || CompiledSchema::compile(schema))
    }
}

/// A usable schema, as JSON and compiled.
#[derive(Debug)]
struct CompiledSchema {
    schema: Value,
    validator: Validator,
}

impl CompiledSchema {
    fn compile(schema: &RawJson) -> Result<Self, UncheckedReason> {
        let schema: Value = schema.json().read().map_err(|error| bad_schema(&error))?;
        limits::check_schema_limits(&schema)?;
        compile_cost::check_compile_cost(&schema, &References::collect(&schema)?)?;
        let patterns = PatternOptions::regex()
            .size_limit(limits::MAX_COMPILED_PATTERN_BYTES)
            .dfa_size_limit(limits::MAX_COMPILED_PATTERN_BYTES);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            // Formats are annotations, because validators disagree on their meaning.
            .should_validate_formats(false)
            .build(&schema)
            .map_err(|error| bad_schema(&error))?;
        Ok(CompiledSchema { schema, validator })
    }

    fn check(&self, value: &Value) -> Result<Validity, UncheckedReason> {
        let cost = validation_cost::validation_cost(
            &self.schema,
            &References::collect(&self.schema)?,
            value,
        )?;
        if cost.verdict > MAX_VERDICT_STEPS {
            return Err(UncheckedReason::TooMuchWork);
        }
        if self.validator.is_valid(value) {
            return Ok(Validity::Valid);
        }
        if cost.errors > MAX_ERROR_STEPS {
            return Ok(Validity::Invalid(vec![Violation::unknown_place()]));
        }
        let mut found: Vec<_> = self
            .validator
            .iter_errors(value)
            .take(MAX_VIOLATIONS)
            .map(|error| Violation::from_error(&error))
            .collect();
        if found.is_empty() {
            found.push(Violation::unknown_place());
        }
        Ok(Validity::Invalid(found))
    }
}

fn bad_schema(error: &dyn std::fmt::Display) -> UncheckedReason {
    UncheckedReason::BadSchema { reason: error.to_string().chars().take(200).collect() }
}

//! Whether a value fits a server's schema: found out within bounds, whatever the schema is.
//!
//! Schemas come from servers and are nobody's friends. What is too large is refused before it is compiled,
//! patterns run on an engine that is linear in the text, nothing is ever fetched, and how long a check
//! will take is counted before it is begun. A value that cannot be checked in time is [`Verdict::Unchecked`],
//! which is neither valid nor invalid.

mod bounds;
mod cache;
mod compiling;
mod effort;
mod keywords;
mod refs;
mod validity;
mod violation;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use toolcrib_wire::Raw;

pub use bounds::Unchecked;
pub use validity::{InvalidSchema, SchemaJudge};
pub use violation::Violation;

use cache::Cache;
use refs::Refs;

/// Steps of a verdict; a step is some tens of nanoseconds.
const VERDICT_STEPS: u64 = 2_000_000;
/// Steps of gathering errors, each of which may cost memory too.
const ERROR_STEPS: u64 = 200_000;
/// Violations that are named; the rest is more of the same.
const NAMED: usize = 5;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Valid,
    /// At least one, and the first few only.
    Invalid(Vec<Violation>),
    Unchecked(Unchecked),
}

/// Checks values against schemas and remembers the schemas that it has compiled.
#[derive(Debug, Default)]
pub struct Checker {
    cache: Cache<Result<Compiled, Unchecked>>,
}

impl Checker {
    pub fn new() -> Self {
        Self::default()
    }

    /// Drafts 4, 6, 7, 2019-09 and 2020-12 by the schema's `$schema`; without it 2020-12.
    pub fn check(&self, schema: &Raw, value: &Raw) -> Verdict {
        self.verdict(schema, value).unwrap_or_else(Verdict::Unchecked)
    }

    /// Whether a schema can be used at all, before there is anything to check.
    pub fn usable(&self, schema: &Raw) -> Result<(), Unchecked> {
        self.compiled(schema).as_ref().as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn verdict(&self, schema: &Raw, value: &Raw) -> Result<Verdict, Unchecked> {
        let compiled = self.compiled(schema);
        let compiled = compiled.as_ref().as_ref().map_err(Clone::clone)?;
        if value.text().len() > bounds::VALUE_BYTES {
            return Err(Unchecked::ValueOver { limit: bounds::VALUE_BYTES, of: "bytes" });
        }
        let value: Value = value.json().read().map_err(|_| bounds::too_deep_a_value())?;
        bounds::value_within(&value)?;
        compiled.check(&value)
    }

    fn compiled(&self, schema: &Raw) -> Arc<Result<Compiled, Unchecked>> {
        if schema.text().len() > bounds::SCHEMA_BYTES {
            let over = Unchecked::SchemaOver { limit: bounds::SCHEMA_BYTES, of: "bytes" };
            return Arc::new(Err(over));
        }
        self.cache.get_or(schema.text(), || Compiled::of(schema))
    }
}

/// A schema that can be used, as it was written and as it is run.
#[derive(Debug)]
struct Compiled {
    schema: Value,
    validator: Validator,
}

impl Compiled {
    fn of(schema: &Raw) -> Result<Self, Unchecked> {
        let schema: Value = schema.json().read().map_err(|error| bad(&error))?;
        bounds::schema_within(&schema)?;
        compiling::compilable(&schema, &Refs::of(&schema)?)?;
        let patterns = PatternOptions::regex()
            .size_limit(bounds::PATTERN_SIZE)
            .dfa_size_limit(bounds::PATTERN_SIZE);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            // A format is a remark: what each means differs between those who check it.
            .should_validate_formats(false)
            .build(&schema)
            .map_err(|error| bad(&error))?;
        Ok(Compiled { schema, validator })
    }

    fn check(&self, value: &Value) -> Result<Verdict, Unchecked> {
        let effort = effort::effort(&self.schema, &Refs::of(&self.schema)?, value)?;
        if effort.verdict > VERDICT_STEPS {
            return Err(Unchecked::TooMuchWork);
        }
        if self.validator.is_valid(value) {
            return Ok(Verdict::Valid);
        }
        if effort.errors > ERROR_STEPS {
            return Ok(Verdict::Invalid(vec![Violation::somewhere()]));
        }
        let mut found: Vec<_> = self
            .validator
            .iter_errors(value)
            .take(NAMED)
            .map(|error| Violation::of(&error))
            .collect();
        if found.is_empty() {
            found.push(Violation::somewhere());
        }
        Ok(Verdict::Invalid(found))
    }
}

fn bad(error: &dyn std::fmt::Display) -> Unchecked {
    Unchecked::BadSchema { reason: error.to_string().chars().take(200).collect() }
}

//! Estimates the cost of compiling a schema before compiling it.
//!
//! The cost is one step for each value, except for `unevaluated…`: such a keyword compiles all schemas of the same
//! value once more, references included.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::Value;

use super::keywords::{array_items, has_unevaluated, object_values, same_value_schemas};
use super::limits::UncheckedReason;
use super::references::References;

const MAX_STEPS: u64 = 100_000;
/// Nesting limit, references included.
const MAX_DEPTH: usize = 192;

/// Rejects a schema that would take too long to compile. Its own depth has been checked before.
pub(super) fn check_compile_cost(
    schema: &Value,
    references: &References<'_>,
) -> Result<(), UncheckedReason> {
    let mut counter = CompileCostCounter { references, evaluation_costs: HashMap::new(), depth: 0 };
    match counter.compile_cost(schema)? {
        steps if steps > MAX_STEPS => Err(UncheckedReason::TooMuchWork),
        _ => Ok(()),
    }
}

struct CompileCostCounter<'r, 'a> {
    references: &'r References<'a>,
    /// Costs by address. `None` while the cost is being computed.
    evaluation_costs: HashMap<usize, Option<u64>>,
    depth: usize,
}

impl<'a> CompileCostCounter<'_, 'a> {
    fn compile_cost(&mut self, schema: &'a Value) -> Result<u64, UncheckedReason> {
        let mut steps: u64 = 1;
        for inner in array_items(schema).chain(object_values(schema)) {
            steps = steps.saturating_add(self.compile_cost(inner)?);
        }
        if schema.as_object().is_some_and(has_unevaluated) {
            steps = steps.saturating_add(self.evaluation_cost(schema)?);
        }
        Ok(steps)
    }

    /// Cost of finding the values that a schema evaluates.
    fn evaluation_cost(&mut self, schema: &'a Value) -> Result<u64, UncheckedReason> {
        match self.evaluation_costs.entry(std::ptr::from_ref(schema).addr()) {
            Entry::Occupied(known) => return known.get().ok_or(UncheckedReason::Loop),
            Entry::Vacant(place) => place.insert(None),
        };
        if self.depth > MAX_DEPTH {
            return Err(UncheckedReason::TooMuchWork);
        }
        self.depth += 1;
        let mut steps: u64 = 1;
        for (key, value) in schema.as_object().into_iter().flatten() {
            for beside in same_value_schemas(self.references, key, value)? {
                let more = self.compile_cost(beside)?.saturating_add(self.evaluation_cost(beside)?);
                steps = steps.saturating_add(more);
            }
        }
        self.depth -= 1;
        self.evaluation_costs.insert(std::ptr::from_ref(schema).addr(), Some(steps));
        Ok(steps)
    }
}

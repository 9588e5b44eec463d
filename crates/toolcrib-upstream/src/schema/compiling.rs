//! How much work compiling a schema will be, counted before it is done.
//!
//! It is one step for each value, but for `unevaluated…`: to know what stands evaluated beside such a
//! keyword, everything that is held against the same value is compiled once more, references followed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::Value;

use super::bounds::Unchecked;
use super::keywords::{has_unevaluated, in_place, list, members};
use super::refs::Refs;

const STEPS: u64 = 100_000;
/// The most schemas within each other, references followed.
const DEPTH: usize = 192;

/// Refuses what would take too long to compile. The schema's own depth was checked before.
pub(super) fn compilable(schema: &Value, refs: &Refs<'_>) -> Result<(), Unchecked> {
    let mut counter = Counter { refs, marks: HashMap::new(), depth: 0 };
    match counter.compile(schema)? {
        steps if steps > STEPS => Err(Unchecked::TooMuchWork),
        _ => Ok(()),
    }
}

struct Counter<'r, 'a> {
    refs: &'r Refs<'a>,
    /// By address; nothing while it is being counted.
    marks: HashMap<usize, Option<u64>>,
    depth: usize,
}

impl<'a> Counter<'_, 'a> {
    fn compile(&mut self, schema: &'a Value) -> Result<u64, Unchecked> {
        let mut steps: u64 = 1;
        for inner in list(schema).chain(members(schema)) {
            steps = steps.saturating_add(self.compile(inner)?);
        }
        if schema.as_object().is_some_and(has_unevaluated) {
            steps = steps.saturating_add(self.marks(schema)?);
        }
        Ok(steps)
    }

    /// Finding out what a schema evaluates.
    fn marks(&mut self, schema: &'a Value) -> Result<u64, Unchecked> {
        match self.marks.entry(std::ptr::from_ref(schema).addr()) {
            Entry::Occupied(known) => return known.get().ok_or(Unchecked::Loop),
            Entry::Vacant(place) => place.insert(None),
        };
        if self.depth > DEPTH {
            return Err(Unchecked::TooMuchWork);
        }
        self.depth += 1;
        let mut steps: u64 = 1;
        for (key, value) in schema.as_object().into_iter().flatten() {
            for beside in in_place(self.refs, key, value)? {
                let more = self.compile(beside)?.saturating_add(self.marks(beside)?);
                steps = steps.saturating_add(more);
            }
        }
        self.depth -= 1;
        self.marks.insert(std::ptr::from_ref(schema).addr(), Some(steps));
        Ok(steps)
    }
}

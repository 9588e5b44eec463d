//! How much work a check will be, counted before it is done.
//!
//! A validator walks a schema once for each way that leads to it, which a few lines of schema can make
//! more than there is time for. Here each pair of a schema and a value is counted once and multiplied, so
//! that the count is quick even where the walk would not be. It follows every branch that a validator
//! could take and never takes one back: the true effort is at most what is counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

use super::bounds::Unchecked;
use super::keywords::{has_unevaluated, in_place, list, members};
use super::refs::Refs;

/// The most schemas within each other on the way into a value; each costs a validator some stack.
const DEPTH: usize = 192;
/// Pairs and edges that are looked at for counting.
const STEPS: u64 = 1_000_000;
/// States of a pattern times bytes of text that count as one step.
const MATCHING: u64 = 32;
/// About how many states a pattern can have before it is refused as too large.
const STATES: u64 = 16_384;

/// Steps of a validator, saturating.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// Of finding out whether the value is valid.
    pub(super) verdict: u64,
    /// Of finding out what a schema evaluates, for `unevaluated…`.
    marks: u64,
    /// Of finding out what is wrong.
    pub(super) errors: u64,
}

pub(super) fn effort(schema: &Value, refs: &Refs<'_>, value: &Value) -> Result<Cost, Unchecked> {
    let mut counter = Counter { refs, known: HashMap::new(), sizes: HashMap::new(), steps: 0 };
    counter.cost(schema, Target::Value(value), 0)
}

/// What a schema is held against.
#[derive(Clone, Copy)]
enum Target<'a> {
    Value(&'a Value),
    /// The name of a member.
    Name(&'a str),
}

struct Counter<'r, 'a> {
    refs: &'r Refs<'a>,
    /// By address; nothing while it is being counted.
    known: HashMap<(usize, usize), Option<Cost>>,
    sizes: HashMap<usize, u64>,
    steps: u64,
}

/// One schema that is held against one value because of a keyword of another schema.
struct Edge<'a> {
    schema: &'a Value,
    target: Target<'a>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Against the same value.
    Same,
    /// Against a part of it.
    Part,
    /// Against a part of it, by an `unevaluated…` keyword.
    Unevaluated,
}

impl<'a> Counter<'_, 'a> {
    fn cost(
        &mut self,
        schema: &'a Value,
        target: Target<'a>,
        depth: usize,
    ) -> Result<Cost, Unchecked> {
        let Value::Object(keywords) = schema else {
            return Ok(Cost { verdict: 1, marks: 1, errors: 1 });
        };
        let pair = (std::ptr::from_ref(schema).addr(), target.addr());
        match self.known.entry(pair) {
            Entry::Occupied(known) => return known.get().ok_or(Unchecked::Loop),
            Entry::Vacant(place) => place.insert(None),
        };
        if depth > DEPTH {
            return Err(Unchecked::TooMuchWork);
        }
        let cost = self.sum(keywords, target, depth)?;
        self.known.insert(pair, Some(cost));
        Ok(cost)
    }

    fn sum(
        &mut self,
        keywords: &'a Map<String, Value>,
        target: Target<'a>,
        depth: usize,
    ) -> Result<Cost, Unchecked> {
        let own = self.own(keywords, target);
        let size = self.size_of(target);
        let mut sum = Cost { verdict: own, marks: own, errors: own.saturating_add(size) };
        for edge in self.edges(keywords, target)? {
            let below = self.cost(edge.schema, edge.target, depth + 1)?;
            sum.verdict = sum.verdict.saturating_add(below.verdict);
            // Branches are tried, and tried again, before their errors are gathered.
            let thrice = below.verdict.saturating_mul(3);
            sum.errors = sum.errors.saturating_add(thrice).saturating_add(below.errors);
            sum.marks = sum.marks.saturating_add(match edge.kind {
                Kind::Same => below.verdict.saturating_add(below.marks),
                Kind::Unevaluated => below.verdict,
                Kind::Part => 0,
            });
        }
        if has_unevaluated(keywords) {
            sum.verdict = sum.verdict.saturating_add(sum.marks);
            sum.errors = sum.errors.saturating_add(sum.marks);
        }
        Ok(sum)
    }

    /// What the keywords cost that hold no schemas.
    fn own(&mut self, keywords: &'a Map<String, Value>, target: Target<'a>) -> u64 {
        let mut own = 1 + keywords.len() as u64;
        for (key, value) in keywords {
            own = own.saturating_add(match key.as_str() {
                "enum" | "const" | "required" | "dependentRequired" | "dependencies" => {
                    self.size(value)
                }
                "pattern" => value.as_str().map_or(0, |pattern| matching(pattern, target.bytes())),
                "uniqueItems" | "contentEncoding" | "contentMediaType" => self.size_of(target),
                "patternProperties" => names_matching(value, target),
                _ => 0,
            });
        }
        own
    }

    fn edges(
        &mut self,
        keywords: &'a Map<String, Value>,
        target: Target<'a>,
    ) -> Result<Vec<Edge<'a>>, Unchecked> {
        let mut edges = Vec::new();
        for (key, value) in keywords {
            let beside = in_place(self.refs, key, value)?;
            edges.extend(beside.into_iter().map(|schema| Edge {
                schema,
                target,
                kind: Kind::Same,
            }));
            parts(&mut edges, key, value, target);
            self.steps = self.steps.saturating_add(edges.len() as u64 + 1);
            if self.steps > STEPS {
                return Err(Unchecked::TooMuchWork);
            }
        }
        Ok(edges)
    }

    fn size_of(&mut self, target: Target<'a>) -> u64 {
        match target {
            Target::Value(value) => self.size(value),
            Target::Name(name) => 1 + name.len() as u64 / 64,
        }
    }

    /// Values in a value, with long text counted in pieces.
    fn size(&mut self, value: &Value) -> u64 {
        let addr = std::ptr::from_ref(value).addr();
        if let Some(size) = self.sizes.get(&addr) {
            return *size;
        }
        let inside: u64 = match value {
            Value::String(text) => return 1 + text.len() as u64 / 64,
            Value::Array(items) => items.iter().map(|item| self.size(item)).sum(),
            Value::Object(members) => members.values().map(|value| self.size(value)).sum(),
            _ => return 1,
        };
        self.sizes.insert(addr, 1 + inside);
        1 + inside
    }
}

impl Target<'_> {
    fn addr(self) -> usize {
        match self {
            Target::Value(value) => std::ptr::from_ref(value).addr(),
            Target::Name(name) => name.as_ptr().addr(),
        }
    }

    /// Of the text that a pattern would be tried on.
    fn bytes(self) -> usize {
        match self {
            Target::Value(Value::String(text)) => text.len(),
            Target::Name(name) => name.len(),
            Target::Value(_) => 0,
        }
    }
}

/// The keywords that go deeper into a value.
fn parts<'a>(edges: &mut Vec<Edge<'a>>, key: &str, schema: &'a Value, target: Target<'a>) {
    let Target::Value(value) = target else { return };
    let kind = if key.starts_with("unevaluated") { Kind::Unevaluated } else { Kind::Part };
    let edge =
        |schema: &'a Value, value: &'a Value| Edge { schema, target: Target::Value(value), kind };
    match (key, value) {
        ("properties", Value::Object(object)) => {
            let known = object.iter().filter_map(|(name, value)| Some((schema.get(name)?, value)));
            edges.extend(known.map(|(schema, value)| edge(schema, value)));
        }
        ("patternProperties", Value::Object(object)) => {
            for schema in members(schema) {
                edges.extend(object.values().map(|value| edge(schema, value)));
            }
        }
        ("additionalProperties" | "unevaluatedProperties", Value::Object(object)) => {
            edges.extend(object.values().map(|value| edge(schema, value)));
        }
        ("propertyNames", Value::Object(object)) => {
            edges.extend(object.keys().map(|name| Edge {
                schema,
                target: Target::Name(name),
                kind,
            }));
        }
        ("items" | "prefixItems", Value::Array(items)) if schema.is_array() => {
            edges.extend(list(schema).zip(items).map(|(schema, value)| edge(schema, value)));
        }
        ("items" | "additionalItems" | "unevaluatedItems" | "contains", Value::Array(items)) => {
            edges.extend(items.iter().map(|value| edge(schema, value)));
        }
        _ => {}
    }
}

fn names_matching(patterns: &Value, target: Target<'_>) -> u64 {
    let (Some(patterns), Target::Value(Value::Object(object))) = (patterns.as_object(), target)
    else {
        return 0;
    };
    let bytes = object.keys().map(|name| name.len() + 1).sum();
    patterns.keys().fold(0, |sum: u64, pattern| sum.saturating_add(matching(pattern, bytes)))
}

/// A linear engine takes at most the states of the pattern for each byte.
fn matching(pattern: &str, bytes: usize) -> u64 {
    1 + states(pattern).saturating_mul(bytes as u64) / MATCHING
}

fn states(pattern: &str) -> u64 {
    let repeats = pattern.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let repeats = repeats.fold(1, |product: u64, n: u64| product.saturating_mul(n.max(1)));
    let classes = if pattern.contains("\\p") || pattern.contains("\\P") { 100 } else { 1 };
    (pattern.len() as u64).saturating_mul(repeats).saturating_mul(classes).min(STATES)
}

//! Estimates the cost of a check before running it.
//!
//! A validator visits a schema once for each path to it, so a few lines of schema can take unbounded time. This
//! estimate visits each pair of schema and value once and multiplies, so it stays fast. It follows every branch that a
//! validator could take, so the real cost is at most the estimate.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

use super::keywords::{array_items, has_unevaluated, object_values, same_value_schemas};
use super::limits::UncheckedReason;
use super::references::References;

/// Nesting limit of schemas on the way into a value. Each level costs the validator stack.
const MAX_DEPTH: usize = 192;
/// Limit of visited pairs and edges.
const MAX_STEPS: u64 = 1_000_000;
/// Pattern states times text bytes that count as one step.
const STATE_BYTES_PER_STEP: u64 = 32;
/// Approximate state limit of a pattern; larger ones are rejected.
const MAX_STATES: u64 = 16_384;

/// Saturating step counts of a validator.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ValidationCost {
    /// Steps to decide validity.
    pub(super) verdict: u64,
    /// Steps to find evaluated values, for `unevaluated…`.
    evaluation: u64,
    /// Steps to collect errors.
    pub(super) errors: u64,
}

pub(super) fn validation_cost(
    schema: &Value,
    references: &References<'_>,
    value: &Value,
) -> Result<ValidationCost, UncheckedReason> {
    let mut counter =
        CostCounter { references, costs: HashMap::new(), sizes: HashMap::new(), steps: 0 };
    counter.pair_cost(schema, EdgeTarget::Value(value), 0)
}

/// Value that a schema applies to.
#[derive(Clone, Copy)]
enum EdgeTarget<'a> {
    Value(&'a Value),
    /// A member name.
    Name(&'a str),
}

struct CostCounter<'r, 'a> {
    references: &'r References<'a>,
    /// Costs by address. `None` while the cost is being computed.
    costs: HashMap<(usize, usize), Option<ValidationCost>>,
    sizes: HashMap<usize, u64>,
    steps: u64,
}

/// Application of one schema to one value by a keyword of another schema.
struct SchemaEdge<'a> {
    schema: &'a Value,
    target: EdgeTarget<'a>,
    kind: EdgeKind,
}

#[derive(Clone, Copy, PartialEq)]
enum EdgeKind {
    /// To the same value.
    Same,
    /// To a part of the value.
    Part,
    /// To a part of the value, by an `unevaluated…` keyword.
    Unevaluated,
}

impl<'a> CostCounter<'_, 'a> {
    fn pair_cost(
        &mut self,
        schema: &'a Value,
        target: EdgeTarget<'a>,
        depth: usize,
    ) -> Result<ValidationCost, UncheckedReason> {
        let Value::Object(keywords) = schema else {
            return Ok(ValidationCost { verdict: 1, evaluation: 1, errors: 1 });
        };
        let pair = (std::ptr::from_ref(schema).addr(), target.address());
        match self.costs.entry(pair) {
            Entry::Occupied(costs) => return costs.get().ok_or(UncheckedReason::Loop),
            Entry::Vacant(place) => place.insert(None),
        };
        if depth > MAX_DEPTH {
            return Err(UncheckedReason::TooMuchWork);
        }
        let cost = self.keyword_cost(keywords, target, depth)?;
        self.costs.insert(pair, Some(cost));
        Ok(cost)
    }

    fn keyword_cost(
        &mut self,
        keywords: &'a Map<String, Value>,
        target: EdgeTarget<'a>,
        depth: usize,
    ) -> Result<ValidationCost, UncheckedReason> {
        let own = self.own_cost(keywords, target);
        let size = self.target_size(target);
        let mut sum =
            ValidationCost { verdict: own, evaluation: own, errors: own.saturating_add(size) };
        for edge in self.edges(keywords, target)? {
            let below = self.pair_cost(edge.schema, edge.target, depth + 1)?;
            sum.verdict = sum.verdict.saturating_add(below.verdict);
            // A validator tries branches up to three times before it collects their errors.
            let tripled = below.verdict.saturating_mul(3);
            sum.errors = sum.errors.saturating_add(tripled).saturating_add(below.errors);
            sum.evaluation = sum.evaluation.saturating_add(match edge.kind {
                EdgeKind::Same => below.verdict.saturating_add(below.evaluation),
                EdgeKind::Unevaluated => below.verdict,
                EdgeKind::Part => 0,
            });
        }
        if has_unevaluated(keywords) {
            sum.verdict = sum.verdict.saturating_add(sum.evaluation);
            sum.errors = sum.errors.saturating_add(sum.evaluation);
        }
        Ok(sum)
    }

    /// Cost of the keywords without schemas.
    fn own_cost(&mut self, keywords: &'a Map<String, Value>, target: EdgeTarget<'a>) -> u64 {
        let mut own = 1 + keywords.len() as u64;
        for (key, value) in keywords {
            own = own.saturating_add(match key.as_str() {
                "enum" | "const" | "required" | "dependentRequired" | "dependencies" => {
                    self.value_size(value)
                }
                "pattern" => {
                    value.as_str().map_or(0, |pattern| matching_cost(pattern, target.bytes()))
                }
                "uniqueItems" | "contentEncoding" | "contentMediaType" => self.target_size(target),
                "patternProperties" => name_matching_cost(value, target),
                _ => 0,
            });
        }
        own
    }

    fn edges(
        &mut self,
        keywords: &'a Map<String, Value>,
        target: EdgeTarget<'a>,
    ) -> Result<Vec<SchemaEdge<'a>>, UncheckedReason> {
        let mut edges = Vec::new();
        for (key, value) in keywords {
            let beside = same_value_schemas(self.references, key, value)?;
            edges.extend(beside.into_iter().map(|schema| SchemaEdge {
                schema,
                target,
                kind: EdgeKind::Same,
            }));
            push_part_edges(&mut edges, key, value, target);
            self.steps = self.steps.saturating_add(edges.len() as u64 + 1);
            if self.steps > MAX_STEPS {
                return Err(UncheckedReason::TooMuchWork);
            }
        }
        Ok(edges)
    }

    fn target_size(&mut self, target: EdgeTarget<'a>) -> u64 {
        match target {
            EdgeTarget::Value(value) => self.value_size(value),
            EdgeTarget::Name(name) => 1 + name.len() as u64 / 64,
        }
    }

    /// Number of values in a value. Long text counts several times.
    fn value_size(&mut self, value: &Value) -> u64 {
        let addr = std::ptr::from_ref(value).addr();
        if let Some(size) = self.sizes.get(&addr) {
            return *size;
        }
        let inside: u64 = match value {
            Value::String(text) => return 1 + text.len() as u64 / 64,
            Value::Array(items) => items.iter().map(|item| self.value_size(item)).sum(),
            Value::Object(members) => members.values().map(|value| self.value_size(value)).sum(),
            _ => return 1,
        };
        self.sizes.insert(addr, 1 + inside);
        1 + inside
    }
}

impl EdgeTarget<'_> {
    fn address(self) -> usize {
        match self {
            EdgeTarget::Value(value) => std::ptr::from_ref(value).addr(),
            EdgeTarget::Name(name) => name.as_ptr().addr(),
        }
    }

    /// Length of the text that a pattern would match.
    fn bytes(self) -> usize {
        match self {
            EdgeTarget::Value(Value::String(text)) => text.len(),
            EdgeTarget::Name(name) => name.len(),
            EdgeTarget::Value(_) => 0,
        }
    }
}

/// Adds the edges of keywords that apply to parts of the value.
fn push_part_edges<'a>(
    edges: &mut Vec<SchemaEdge<'a>>,
    key: &str,
    schema: &'a Value,
    target: EdgeTarget<'a>,
) {
    let EdgeTarget::Value(value) = target else { return };
    let kind = if key.starts_with("unevaluated") { EdgeKind::Unevaluated } else { EdgeKind::Part };
    let edge = |schema: &'a Value, value: &'a Value| SchemaEdge {
        schema,
        target: EdgeTarget::Value(value),
        kind,
    };
    match (key, value) {
        ("properties", Value::Object(object)) => {
            let costs = object.iter().filter_map(|(name, value)| Some((schema.get(name)?, value)));
            edges.extend(costs.map(|(schema, value)| edge(schema, value)));
        }
        ("patternProperties", Value::Object(object)) => {
            for schema in object_values(schema) {
                edges.extend(object.values().map(|value| edge(schema, value)));
            }
        }
        ("additionalProperties" | "unevaluatedProperties", Value::Object(object)) => {
            edges.extend(object.values().map(|value| edge(schema, value)));
        }
        ("propertyNames", Value::Object(object)) => {
            edges.extend(object.keys().map(|name| SchemaEdge {
                schema,
                target: EdgeTarget::Name(name),
                kind,
            }));
        }
        ("items" | "prefixItems", Value::Array(items)) if schema.is_array() => {
            edges.extend(array_items(schema).zip(items).map(|(schema, value)| edge(schema, value)));
        }
        ("items" | "additionalItems" | "unevaluatedItems" | "contains", Value::Array(items)) => {
            edges.extend(items.iter().map(|value| edge(schema, value)));
        }
        _ => {}
    }
}

fn name_matching_cost(patterns: &Value, target: EdgeTarget<'_>) -> u64 {
    let (Some(patterns), EdgeTarget::Value(Value::Object(object))) = (patterns.as_object(), target)
    else {
        return 0;
    };
    let bytes = object.keys().map(|name| name.len() + 1).sum();
    patterns.keys().fold(0, |sum: u64, pattern| sum.saturating_add(matching_cost(pattern, bytes)))
}

/// A linear engine takes at most one step for each state and byte.
fn matching_cost(pattern: &str, bytes: usize) -> u64 {
    1 + pattern_states(pattern).saturating_mul(bytes as u64) / STATE_BYTES_PER_STEP
}

fn pattern_states(pattern: &str) -> u64 {
    let repeats = pattern.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let repeats = repeats.fold(1, |product: u64, n: u64| product.saturating_mul(n.max(1)));
    let classes = if pattern.contains("\\p") || pattern.contains("\\P") { 100 } else { 1 };
    (pattern.len() as u64).saturating_mul(repeats).saturating_mul(classes).min(MAX_STATES)
}

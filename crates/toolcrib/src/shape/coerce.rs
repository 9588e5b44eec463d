//! Arguments from words: `-a count=3` is a number where the tool's schema says so.

use serde_json::{Map, Value};
use toolcrib_wire::Raw;

/// References that are followed to find a type.
const HOPS: usize = 8;

/// A word that cannot be what the schema asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadArgument {
    #[error("argument `{name}`: expected {expected}")]
    Mistyped { name: String, expected: String },
    #[error("argument `{name}` is given twice")]
    Twice { name: String },
    #[error("cannot read the tool's schema")]
    Schema,
}

/// The arguments of a call from names and words. An array may be given item by item, under one name.
pub fn arguments<'w>(
    schema: &Raw,
    words: impl IntoIterator<Item = (&'w str, &'w str)>,
) -> Result<Raw, BadArgument> {
    let schema: Value = schema.json().read().map_err(|_| BadArgument::Schema)?;
    let mut given = Map::new();
    for (name, word) in words {
        let about = schema.get("properties").and_then(|known| known.get(name));
        let as_item = takes_items(&schema, about, word);
        // Once only: the items of an array may be such arrays again, without end.
        let about = if as_item { items(&schema, about) } else { about };
        let value = value(&schema, about, word)
            .map_err(|expected| BadArgument::Mistyped { name: name.to_owned(), expected })?;
        add(&mut given, name, value, as_item)?;
    }
    Raw::of(&given).map_err(|_| BadArgument::Schema)
}

fn add(
    given: &mut Map<String, Value>,
    name: &str,
    value: Value,
    as_item: bool,
) -> Result<(), BadArgument> {
    match (given.get_mut(name), as_item) {
        (None, true) => given.insert(name.to_owned(), Value::Array(vec![value])),
        (None, false) => given.insert(name.to_owned(), value),
        (Some(Value::Array(items)), true) => {
            items.push(value);
            None
        }
        (Some(_), _) => return Err(BadArgument::Twice { name: name.to_owned() }),
    };
    Ok(())
}

/// A word for an array that is no JSON array is one of its items.
fn takes_items(root: &Value, about: Option<&Value>, word: &str) -> bool {
    let types = types(root, about);
    types.contains(&"array")
        && !types.contains(&"string")
        && !is_json(word, Value::is_array)
        && !types.iter().any(|one| fits(one, word).is_some())
}

fn items<'s>(root: &'s Value, about: Option<&'s Value>) -> Option<&'s Value> {
    follow(root, about?).get("items")
}

fn value(root: &Value, about: Option<&Value>, word: &str) -> Result<Value, String> {
    let types = types(root, about);
    if types.is_empty() {
        return Ok(serde_json::from_str(word).unwrap_or_else(|_| Value::from(word)));
    }
    if let Some(value) = types.iter().find_map(|one| fits(one, word)) {
        return Ok(value);
    }
    if types.contains(&"string") {
        return Ok(Value::from(word));
    }
    Err(types.join(" or "))
}

/// The word as a value of a type; text is what is left when it is nothing else.
fn fits(kind: &str, word: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(word.trim()).ok()?;
    let fits = match kind {
        "integer" => value.is_number() && !word.contains(['.', 'e', 'E']),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        _ => false,
    };
    fits.then_some(value)
}

fn is_json(word: &str, is: impl Fn(&Value) -> bool) -> bool {
    serde_json::from_str(word).is_ok_and(|value| is(&value))
}

/// The types that a schema names; none where it names none.
fn types<'s>(root: &'s Value, about: Option<&'s Value>) -> Vec<&'s str> {
    let Some(about) = about.map(|about| follow(root, about)) else { return Vec::new() };
    match about.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => ["anyOf", "oneOf"]
            .iter()
            .filter_map(|key| about.get(key)?.as_array())
            .flatten()
            .map(|form| follow(root, form))
            .filter_map(|form| form.get("type")?.as_str())
            .collect(),
    }
}

fn follow<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let mut here = schema;
    for _ in 0..HOPS {
        let target = here.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
        let Some(target) = target.and_then(|pointer| root.pointer(pointer)) else { break };
        here = target;
    }
    here
}

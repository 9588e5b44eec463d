//! Parses call arguments from the command line: `-a count=3` is a number if the tool's schema says so.

use serde_json::{Map, Value};
use toolcrib_wire::RawJson;

/// Maximum references that are followed to find a type.
const MAX_REFS: usize = 8;

/// A text that does not fit the schema of its argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The text does not fit the schema.
    #[error("argument `{name}`: expected {expected}")]
    WrongType {
        /// The name of the argument.
        name: String,
        /// The expected type.
        expected: String,
    },
    /// The argument occurs twice.
    #[error("argument `{name}` is given twice")]
    Duplicate {
        /// The name of the argument.
        name: String,
    },
    /// The tool's schema is not readable.
    #[error("cannot read the tool's schema")]
    UnreadableSchema,
}

/// Builds the arguments of a call from names and texts. An array may be given item by item under one name.
pub fn parse_arguments<'w>(
    schema: &RawJson,
    words: impl IntoIterator<Item = (&'w str, &'w str)>,
) -> Result<RawJson, ArgumentError> {
    let schema: Value = schema.json().read().map_err(|_| ArgumentError::UnreadableSchema)?;
    let mut given = Map::new();
    for (name, word) in words {
        let property = schema.get("properties").and_then(|known| known.get(name));
        let as_item = is_array_item(&schema, property, word);
        // Only one level: item schemas may be arrays of themselves without end.
        let property = if as_item { item_schema(&schema, property) } else { property };
        let value = parse_value(&schema, property, word)
            .map_err(|expected| ArgumentError::WrongType { name: name.to_owned(), expected })?;
        add_argument(&mut given, name, value, as_item)?;
    }
    RawJson::from_value(&given).map_err(|_| ArgumentError::UnreadableSchema)
}

fn add_argument(
    given: &mut Map<String, Value>,
    name: &str,
    value: Value,
    as_item: bool,
) -> Result<(), ArgumentError> {
    match (given.get_mut(name), as_item) {
        (None, true) => given.insert(name.to_owned(), Value::Array(vec![value])),
        (None, false) => given.insert(name.to_owned(), value),
        (Some(Value::Array(items)), true) => {
            items.push(value);
            None
        }
        (Some(_), _) => return Err(ArgumentError::Duplicate { name: name.to_owned() }),
    };
    Ok(())
}

/// Returns whether the text is one item of an array: the schema wants an array, and the text is not a JSON array.
fn is_array_item(root: &Value, property: Option<&Value>, word: &str) -> bool {
    let types = schema_types(root, property);
    types.contains(&"array")
        && !types.contains(&"string")
        && !is_json(word, Value::is_array)
        && !types.iter().any(|one| parse_as(one, word).is_some())
}

fn item_schema<'s>(root: &'s Value, property: Option<&'s Value>) -> Option<&'s Value> {
    resolve_ref(root, property?).get("items")
}

fn parse_value(root: &Value, property: Option<&Value>, word: &str) -> Result<Value, String> {
    let types = schema_types(root, property);
    if types.is_empty() {
        return Ok(serde_json::from_str(word).unwrap_or_else(|_| Value::from(word)));
    }
    if let Some(value) = types.iter().find_map(|one| parse_as(one, word)) {
        return Ok(value);
    }
    if types.contains(&"string") {
        return Ok(Value::from(word));
    }
    Err(types.join(" or "))
}

/// Parses the text as a value of the given type. Strings are the fallback of the caller.
fn parse_as(kind: &str, word: &str) -> Option<Value> {
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

/// Returns the types that a schema names.
fn schema_types<'s>(root: &'s Value, property: Option<&'s Value>) -> Vec<&'s str> {
    let Some(property) = property.map(|property| resolve_ref(root, property)) else {
        return Vec::new();
    };
    match property.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => ["anyOf", "oneOf"]
            .iter()
            .filter_map(|key| property.get(key)?.as_array())
            .flatten()
            .map(|form| resolve_ref(root, form))
            .filter_map(|form| form.get("type")?.as_str())
            .collect(),
    }
}

fn resolve_ref<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let mut here = schema;
    for _ in 0..MAX_REFS {
        let target = here.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
        let Some(target) = target.and_then(|pointer| root.pointer(pointer)) else { break };
        here = target;
    }
    here
}

//! Entries in TOML, each in its own table.

use serde_json::{Map, Value as Json};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

pub(super) fn insert_entry(text: &str, path: &[&str], entry: &Json) -> Option<String> {
    let mut doc: DocumentMut = text.parse().ok()?;
    let (last, containers) = path.split_last()?;
    let mut at: &mut dyn TableLike = doc.as_table_mut();
    for key in containers {
        if at.get(key).is_none() {
            let mut table = Table::new();
            table.set_implicit(true);
            at.insert(key, Item::Table(table));
        }
        at = at.get_mut(key)?.as_table_like_mut()?;
    }
    if at.get(last).is_none_or(|known| !known.is_table_like()) {
        at.insert(last, Item::Table(Table::new()));
    }
    let table = at.get_mut(last)?.as_table_like_mut()?;
    table.clear();
    for (key, value) in entry.as_object()? {
        table.insert(key, Item::Value(to_toml_value(value)?));
    }
    Some(doc.to_string())
}

pub(super) fn remove_entry(text: &str, path: &[&str]) -> Option<String> {
    let mut doc: DocumentMut = text.parse().ok()?;
    let (last, containers) = path.split_last()?;
    let mut at: &mut dyn TableLike = doc.as_table_mut();
    for key in containers {
        at = at.get_mut(key)?.as_table_like_mut()?;
    }
    at.remove(last)?;
    Some(doc.to_string())
}

fn to_toml_value(value: &Json) -> Option<Value> {
    Some(match value {
        Json::Null => return None,
        Json::Bool(is_so) => Value::from(*is_so),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::from(number),
            None => Value::from(number.as_f64()?),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => {
            Value::Array(items.iter().map(to_toml_value).collect::<Option<Array>>()?)
        }
        Json::Object(map) => Value::InlineTable(to_inline_table(map)?),
    })
}

fn to_inline_table(map: &Map<String, Json>) -> Option<InlineTable> {
    let mut table = InlineTable::new();
    for (key, value) in map {
        table.insert(key, to_toml_value(value)?);
    }
    Some(table)
}

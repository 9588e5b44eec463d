//! Entries in JSON with comments.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value as Json;

pub(super) fn insert_entry(text: &str, path: &[&str], entry: &Json) -> Option<String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let (last, containers) = path.split_last()?;
    let object = root.object_value_or_create()?;
    let map = containers.iter().try_fold(object, |at, key| at.object_value_or_create(key))?;
    match map.get(last) {
        Some(known) => known.set_value(to_cst_value(entry)),
        None => drop(map.append(last, to_cst_value(entry))),
    }
    Some(root.to_string())
}

pub(super) fn remove_entry(text: &str, path: &[&str]) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let (last, containers) = path.split_last()?;
    let step = |at: CstObject, key: &&str| at.object_value(key);
    let map = containers.iter().try_fold(root.object_value()?, step)?;
    map.get(last)?.remove();
    Some(root.to_string())
}

fn to_cst_value(value: &Json) -> CstInputValue {
    match value {
        Json::Null => CstInputValue::Null,
        Json::Bool(is_so) => CstInputValue::Bool(*is_so),
        Json::Number(number) => CstInputValue::Number(number.to_string()),
        Json::String(text) => CstInputValue::String(text.clone()),
        Json::Array(items) => CstInputValue::Array(items.iter().map(to_cst_value).collect()),
        Json::Object(map) => CstInputValue::Object(
            map.iter().map(|(key, value)| (key.clone(), to_cst_value(value))).collect(),
        ),
    }
}

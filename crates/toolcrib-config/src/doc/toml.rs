//! Parser for TOML. The `toml` crate itself rejects duplicate keys.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Defect, Key, MAX_DEPTH, NodeId, NodeKind, TreeBuilder, too_deep};
use crate::text;

pub(crate) fn build(text: &str, tree: &mut TreeBuilder) -> Result<(), Box<Defect>> {
    let table = DeTable::parse(text).map_err(|error| syntax_error(&error))?;
    let id = tree.add_node(0, NodeKind::Null)?;
    let kind = NodeKind::Map(build_entries(tree, table.get_ref(), 0)?);
    tree.fill_node(id, kind);
    Ok(())
}

fn syntax_error(error: &toml::de::Error) -> Box<Defect> {
    let offset = error.span().map_or(0, |span| span.start);
    // The crate has a lower depth limit, which only this word in the message identifies.
    if error.message().contains("recurs") {
        return too_deep(offset);
    }
    let text = format!("this is not valid TOML: {}", text::clip(error.message()));
    let fix = "check quotes, brackets and repeated keys";
    Box::new(Defect::new("toml.syntax", offset, text, fix))
}

fn build_entries(
    tree: &mut TreeBuilder,
    table: &DeTable<'_>,
    depth: usize,
) -> Result<Vec<(Key, NodeId)>, Box<Defect>> {
    let mut entries: Vec<(Key, NodeId)> = Vec::new();
    for (key, value) in table {
        let id = build_node(tree, value, depth + 1)?;
        let key = Key::new(key.get_ref().to_string(), key.span().start)?;
        entries.push((key, id));
    }
    // The crate sorts by name. The order of servers in the file matters.
    entries.sort_by_key(|(key, _)| key.offset);
    Ok(entries)
}

fn build_node(
    tree: &mut TreeBuilder,
    value: &Spanned<DeValue<'_>>,
    depth: usize,
) -> Result<NodeId, Box<Defect>> {
    let offset = value.span().start;
    if depth >= MAX_DEPTH {
        return Err(too_deep(offset));
    }
    let id = tree.add_node(offset, NodeKind::Null)?;
    let kind = match value.get_ref() {
        DeValue::String(s) => NodeKind::Text(s.to_string()),
        DeValue::Integer(n) => NodeKind::Number(integer_text(n.as_str(), n.radix())),
        DeValue::Float(n) => NodeKind::Number(n.as_str().to_string()),
        DeValue::Boolean(b) => NodeKind::Bool(*b),
        DeValue::Datetime(date) => NodeKind::Text(date.to_string()),
        DeValue::Array(items) => {
            let mut ids = Vec::new();
            for item in items.iter() {
                ids.push(build_node(tree, item, depth + 1)?);
            }
            NodeKind::Seq(ids)
        }
        DeValue::Table(table) => NodeKind::Map(build_entries(tree, table, depth)?),
    };
    tree.fill_node(id, kind);
    Ok(id)
}

fn integer_text(digits: &str, radix: u32) -> String {
    match i128::from_str_radix(digits, radix) {
        Ok(number) => number.to_string(),
        Err(_) => digits.to_string(),
    }
}

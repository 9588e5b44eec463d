//! TOML to a tree; the parser itself refuses duplicate keys.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Flaw, Key, Kind, MAX_DEPTH, NodeId, Tree, too_deep};
use crate::text;

pub(crate) fn build(text: &str, tree: &mut Tree) -> Result<(), Box<Flaw>> {
    let table = DeTable::parse(text).map_err(|error| syntax(&error))?;
    let id = tree.add(0, Kind::Null)?;
    let kind = Kind::Map(entries(tree, table.get_ref(), 0)?);
    tree.fill(id, kind);
    Ok(())
}

fn syntax(error: &toml::de::Error) -> Box<Flaw> {
    let offset = error.span().map_or(0, |span| span.start);
    // The parser has a lower limit of its own, and no other name for it than these words.
    if error.message().contains("recurs") {
        return too_deep(offset);
    }
    let text = format!("this is not valid TOML: {}", text::clip(error.message()));
    let fix = "check quotes, brackets and repeated keys";
    Box::new(Flaw::new("toml.syntax", offset, text, fix))
}

fn entries(
    tree: &mut Tree,
    table: &DeTable<'_>,
    depth: usize,
) -> Result<Vec<(Key, NodeId)>, Box<Flaw>> {
    let mut entries: Vec<(Key, NodeId)> = Vec::new();
    for (key, value) in table {
        let id = node(tree, value, depth + 1)?;
        let key = Key::new(key.get_ref().to_string(), key.span().start)?;
        entries.push((key, id));
    }
    // The parser sorts by name; servers count in the order of the file.
    entries.sort_by_key(|(key, _)| key.offset);
    Ok(entries)
}

fn node(tree: &mut Tree, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<NodeId, Box<Flaw>> {
    let offset = value.span().start;
    if depth >= MAX_DEPTH {
        return Err(too_deep(offset));
    }
    let id = tree.add(offset, Kind::Null)?;
    let kind = match value.get_ref() {
        DeValue::String(s) => Kind::Text(s.to_string()),
        DeValue::Integer(n) => Kind::Number(decimal(n.as_str(), n.radix())),
        DeValue::Float(n) => Kind::Number(n.as_str().to_string()),
        DeValue::Boolean(b) => Kind::Bool(*b),
        DeValue::Datetime(date) => Kind::Text(date.to_string()),
        DeValue::Array(items) => {
            let mut ids = Vec::new();
            for item in items.iter() {
                ids.push(node(tree, item, depth + 1)?);
            }
            Kind::Seq(ids)
        }
        DeValue::Table(table) => Kind::Map(entries(tree, table, depth)?),
    };
    tree.fill(id, kind);
    Ok(id)
}

fn decimal(digits: &str, radix: u32) -> String {
    match i128::from_str_radix(digits, radix) {
        Ok(number) => number.to_string(),
        Err(_) => digits.to_string(),
    }
}

//! Where the references of a schema may lead: a superset, found without knowing the rules of each draft.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::bounds::Unchecked;

/// Resources that a reference may start from; examples of values with ids count, too.
const RESOURCES: usize = 256;

/// What a reference can name: the document, parts of it that have an id of their own, and anchors.
pub(super) struct Refs<'a> {
    resources: Vec<&'a Value>,
    ids: Vec<&'a str>,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
}

impl<'a> Refs<'a> {
    pub(super) fn of(schema: &'a Value) -> Result<Self, Unchecked> {
        let mut refs = Refs { resources: vec![schema], ids: Vec::new(), anchors: HashMap::new() };
        refs.collect(schema);
        if refs.resources.len() > RESOURCES {
            return Err(Unchecked::SchemaOver { limit: RESOURCES, of: "ids" });
        }
        match refs.ids.iter().find(|id| is_disguised(id)) {
            Some(id) => Err(bad(&format!("it calls itself `{}`", cut(id)))),
            None => Ok(refs),
        }
    }

    /// Every schema that a reference could mean. Which of several it is depends on the draft and on where
    /// it stands; to count the effort all of them are taken.
    pub(super) fn targets(&self, reference: &Value) -> Result<Vec<&'a Value>, Unchecked> {
        let Some(reference) = reference.as_str() else { return Ok(Vec::new()) };
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let known = uri.is_empty() || self.ids.contains(&uri);
        let fragment = decode(fragment);
        let targets: Vec<_> = match fragment.is_empty() || fragment.starts_with('/') {
            _ if !known => Vec::new(),
            true => self.resources.iter().filter_map(|from| from.pointer(&fragment)).collect(),
            false => self.anchors.get(&*fragment).cloned().unwrap_or_default(),
        };
        match targets.is_empty() {
            true => Err(bad(&format!("it refers to `{}`, which is not in it", cut(reference)))),
            false => Ok(targets),
        }
    }

    fn collect(&mut self, schema: &'a Value) {
        match schema {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(members) => {
                for (key, value) in members {
                    if let Value::String(name) = value {
                        self.name(schema, key, name);
                    }
                    self.collect(value);
                }
            }
            _ => {}
        }
    }

    fn name(&mut self, schema: &'a Value, key: &str, name: &'a str) {
        match key {
            "$anchor" | "$dynamicAnchor" => self.anchors.entry(name).or_default().push(schema),
            // In older drafts an id that begins so is an anchor.
            "$id" | "id" if name.starts_with('#') => {
                self.anchors.entry(&name[1..]).or_default().push(schema);
            }
            "$id" | "id" => {
                self.resources.push(schema);
                self.ids.push(name.split('#').next().unwrap_or(name));
            }
            _ => {}
        }
    }
}

/// The drafts' own schemas are known to a validator without being in the document, so a schema that takes
/// their name could lead to them unseen.
fn is_disguised(id: &str) -> bool {
    id.contains('%') || id.to_ascii_lowercase().contains("json-schema.org")
}

fn bad(reason: &str) -> Unchecked {
    Unchecked::BadSchema { reason: reason.to_owned() }
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Percent escapes of a fragment.
fn decode(fragment: &str) -> Cow<'_, str> {
    if !fragment.contains('%') {
        return Cow::Borrowed(fragment);
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape = after.get(..2).filter(|_| *first == b'%');
        let escape = escape.and_then(|hex| std::str::from_utf8(hex).ok());
        match escape.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

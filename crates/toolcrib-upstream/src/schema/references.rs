//! Collects possible targets of references: a superset that holds for every draft.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::limits::UncheckedReason;

/// Limit of base resources. Example values with ids count too.
const MAX_RESOURCES: usize = 256;

/// Possible targets: the document, parts with an own id, and anchors.
pub(super) struct References<'a> {
    resources: Vec<&'a Value>,
    ids: Vec<&'a str>,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
}

impl<'a> References<'a> {
    pub(super) fn collect(schema: &'a Value) -> Result<Self, UncheckedReason> {
        let mut references =
            References { resources: vec![schema], ids: Vec::new(), anchors: HashMap::new() };
        references.collect_from(schema);
        if references.resources.len() > MAX_RESOURCES {
            return Err(UncheckedReason::SchemaOver { limit: MAX_RESOURCES, of: "ids" });
        }
        match references.ids.iter().find(|id| is_disguised(id)) {
            Some(id) => Err(bad_schema(&format!("it uses the reserved id `{}`", clip(id)))),
            None => Ok(references),
        }
    }

    /// Returns every schema that a reference could mean. The draft and the base decide which one it is; cost estimates
    /// use all of them.
    pub(super) fn targets(&self, reference: &Value) -> Result<Vec<&'a Value>, UncheckedReason> {
        let Some(reference) = reference.as_str() else { return Ok(Vec::new()) };
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let known = uri.is_empty() || self.ids.contains(&uri);
        let fragment = decode_fragment(fragment);
        let targets: Vec<_> = match fragment.is_empty() || fragment.starts_with('/') {
            _ if !known => Vec::new(),
            true => self.resources.iter().filter_map(|from| from.pointer(&fragment)).collect(),
            false => self.anchors.get(&*fragment).cloned().unwrap_or_default(),
        };
        match targets.is_empty() {
            true => Err(bad_schema(&format!("unresolved reference `{}`", clip(reference)))),
            false => Ok(targets),
        }
    }

    fn collect_from(&mut self, schema: &'a Value) {
        match schema {
            Value::Array(items) => items.iter().for_each(|item| self.collect_from(item)),
            Value::Object(members) => {
                for (key, value) in members {
                    if let Value::String(name) = value {
                        self.record_name(schema, key, name);
                    }
                    self.collect_from(value);
                }
            }
            _ => {}
        }
    }

    fn record_name(&mut self, schema: &'a Value, key: &str, name: &'a str) {
        match key {
            "$anchor" | "$dynamicAnchor" => self.anchors.entry(name).or_default().push(schema),
            // In older drafts such an id is an anchor.
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

/// Validators know the drafts' own schemas, so a schema with such an id could refer to them unseen.
fn is_disguised(id: &str) -> bool {
    id.contains('%') || id.to_ascii_lowercase().contains("json-schema.org")
}

fn bad_schema(reason: &str) -> UncheckedReason {
    UncheckedReason::BadSchema { reason: reason.to_owned() }
}

fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Decodes percent escapes.
fn decode_fragment(fragment: &str) -> Cow<'_, str> {
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

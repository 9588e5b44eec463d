//! Parser for YAML 1.2: core-schema scalars, aliases by copy, merge keys, duplicate keys as defects.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

use super::{
    Defect, Key, MAX_DEPTH, MapBuilder, NodeId, NodeKind, TreeBuilder, duplicate_key, push_defect,
    to_decimal, too_deep,
};
use crate::{Severity, text};

pub(crate) fn build(
    text: &str,
    tree: &mut TreeBuilder,
    defects: &mut Vec<Defect>,
) -> Result<(), Box<Defect>> {
    let mut builder =
        Builder { tree, defects, open: Vec::new(), anchors: HashMap::new(), documents: 0 };
    let options = granit_parser::options! { flow_nesting_limit: MAX_DEPTH + 1, block_nesting_limit: MAX_DEPTH + 1 };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax_error(&error))?;
        builder.handle_event(event, span.start.byte_offset().unwrap_or_default())?;
    }
    if builder.documents == 0 {
        builder.tree.add_node(0, NodeKind::Null)?;
    }
    Ok(())
}

struct Builder<'a> {
    tree: &'a mut TreeBuilder,
    defects: &'a mut Vec<Defect>,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, NodeId>,
    documents: usize,
}

/// A collection under construction. Its anchor becomes valid at its end, so an alias inside it has no target.
struct OpenCollection {
    id: NodeId,
    anchor: usize,
    content: Content,
}

enum Content {
    Seq(Vec<NodeId>),
    Map { own: MapBuilder, merges: Vec<NodeId>, slot: Slot },
}

/// The next element that a map expects.
enum Slot {
    Key,
    Value(Key),
    /// The value of `<<`.
    Merge,
    /// The value of a key that is not text. It is parsed and dropped; the defect is already reported.
    Dropped,
}

impl Builder<'_> {
    fn handle_event(&mut self, event: Event<'_>, offset: usize) -> Result<(), Box<Defect>> {
        match event {
            Event::DocumentStart(..) => self.start_document(offset)?,
            Event::Alias(anchor) => {
                let target =
                    self.anchors.get(&anchor).copied().ok_or_else(|| self_alias_error(offset))?;
                self.check_depth(self.tree.height(target), offset)?;
                let id = self.tree.copy_subtree(target, offset)?;
                self.attach_node(id, offset, true)?;
            }
            Event::Scalar(value, style, anchor, tag) => {
                let tagged_text = tag.as_ref().is_some_and(|t| t.suffix() == "str");
                let plain = matches!(style, ScalarStyle::Plain) && !tagged_text;
                let kind =
                    if plain { resolve_scalar(&value) } else { NodeKind::Text(value.into_owned()) };
                if anchor == 0 && self.waits_for_key() {
                    return self.set_key(kind, offset, plain);
                }
                let id = self.tree.add_node(offset, kind)?;
                self.record_anchor(anchor, id);
                self.attach_node(id, offset, plain)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open_collection(offset, anchor, Content::Seq(Vec::new()))?
            }
            Event::MappingStart(_, anchor, _) => {
                let content = Content::Map {
                    own: MapBuilder::default(),
                    merges: Vec::new(),
                    slot: Slot::Key,
                };
                self.open_collection(offset, anchor, content)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close_collection(offset)?,
            _ => {}
        }
        Ok(())
    }

    fn start_document(&mut self, offset: usize) -> Result<(), Box<Defect>> {
        self.documents += 1;
        if self.documents > 1 {
            let text = "the file contains a second YAML document".to_string();
            let fix = "remove the `---`, or move it to a file of its own";
            return Err(Box::new(Defect::new("yaml.documents", offset, text, fix)));
        }
        Ok(())
    }

    /// Checks that a subtree of this height fits at the current depth.
    fn check_depth(&self, height: usize, offset: usize) -> Result<(), Box<Defect>> {
        if self.open.len() + height > MAX_DEPTH { Err(too_deep(offset)) } else { Ok(()) }
    }

    fn record_anchor(&mut self, anchor: usize, id: NodeId) {
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
    }

    fn open_collection(
        &mut self,
        offset: usize,
        anchor: usize,
        content: Content,
    ) -> Result<(), Box<Defect>> {
        self.check_depth(1, offset)?;
        let id = self.tree.add_node(offset, NodeKind::Null)?;
        self.open.push(OpenCollection { id, anchor, content });
        Ok(())
    }

    fn close_collection(&mut self, offset: usize) -> Result<(), Box<Defect>> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let kind = match open.content {
            Content::Seq(items) => NodeKind::Seq(items),
            Content::Map { own, merges, .. } => NodeKind::Map(self.apply_merges(own, &merges)?),
        };
        self.tree.fill_node(open.id, kind);
        self.record_anchor(open.anchor, open.id);
        self.attach_node(open.id, offset, false)
    }

    /// Attaches a finished node to the innermost open collection.
    fn attach_node(&mut self, id: NodeId, offset: usize, plain: bool) -> Result<(), Box<Defect>> {
        let Some(open) = self.open.last_mut() else {
            return Ok(());
        };
        match &mut open.content {
            Content::Seq(items) => items.push(id),
            Content::Map { own, merges, slot } => match std::mem::replace(slot, Slot::Key) {
                Slot::Value(key) => own.insert(key, id),
                Slot::Merge => merges.push(id),
                Slot::Dropped => {}
                Slot::Key => {
                    let kind = self.tree.kind(id).cloned().unwrap_or(NodeKind::Null);
                    return self.set_key(kind, offset, plain);
                }
            },
        }
        Ok(())
    }

    fn waits_for_key(&self) -> bool {
        let open = self.open.last().map(|open| &open.content);
        matches!(open, Some(Content::Map { slot: Slot::Key, .. }))
    }

    /// Sets the current key of the innermost map.
    fn set_key(&mut self, kind: NodeKind, offset: usize, plain: bool) -> Result<(), Box<Defect>> {
        let (next, defect) = key_slot(kind, offset, plain)?;
        if let Some(mut defect) = defect {
            defect.path = self.path();
            push_defect(self.defects, defect)?;
        }
        let Some(OpenCollection { content: Content::Map { own, slot, .. }, .. }) =
            self.open.last_mut()
        else {
            return Ok(());
        };
        let duplicate = match &next {
            Slot::Value(key) if own.contains(&key.name) => Some(key.name.clone()),
            _ => None,
        };
        *slot = next;
        match duplicate {
            Some(name) => push_defect(self.defects, duplicate_key(&name, offset, self.path())),
            None => Ok(()),
        }
    }

    /// Returns the keys down to the innermost open collection.
    fn path(&self) -> Vec<String> {
        let above = self.open.split_last().map_or(&[][..], |(_, above)| above);
        above
            .iter()
            .filter_map(|open| match &open.content {
                Content::Map { slot: Slot::Value(key), .. } => Some(key.name.clone()),
                Content::Seq(items) => Some(items.len().to_string()),
                Content::Map { .. } => None,
            })
            .collect()
    }

    /// Applies `<<`: merged maps add keys that the map itself lacks. Earlier maps take precedence.
    fn apply_merges(
        &mut self,
        mut own: MapBuilder,
        merges: &[NodeId],
    ) -> Result<Vec<(Key, NodeId)>, Box<Defect>> {
        for merge in merges {
            for part in self.merge_parts(*merge)? {
                let Some(NodeKind::Map(from)) = self.tree.kind(part) else {
                    return Err(merge_error(self.tree.offset(part)));
                };
                for (key, value) in from {
                    if !own.contains(&key.name) {
                        own.insert(key.clone(), *value);
                    }
                }
            }
        }
        Ok(own.entries)
    }

    fn merge_parts(&self, merge: NodeId) -> Result<Vec<NodeId>, Box<Defect>> {
        match self.tree.kind(merge) {
            Some(NodeKind::Map(_)) => Ok(vec![merge]),
            Some(NodeKind::Seq(items)) => Ok(items.clone()),
            _ => Err(merge_error(self.tree.offset(merge))),
        }
    }
}

fn merge_error(offset: usize) -> Box<Defect> {
    let text = "`<<` requires a map or a list of maps".to_string();
    let fix = "refer to a map: `<<: *name`";
    Box::new(Defect::new("yaml.merge", offset, text, fix))
}

fn key_slot(
    kind: NodeKind,
    offset: usize,
    plain: bool,
) -> Result<(Slot, Option<Defect>), Box<Defect>> {
    let (name, kind_name) = match kind {
        NodeKind::Text(name) if plain && name == "<<" => return Ok((Slot::Merge, None)),
        NodeKind::Text(name) => return Ok((Slot::Value(Key::new(name, offset)?), None)),
        NodeKind::Number(name) => (name, "a number"),
        NodeKind::Bool(b) => (b.to_string(), "a boolean"),
        NodeKind::Null => ("null".to_string(), "null"),
        NodeKind::Seq(_) | NodeKind::Map(_) => {
            let text = "a key is a list or a map; its entry is ignored".to_string();
            let defect = Defect::new("key.not_text", offset, text, "use a text as key");
            return Ok((Slot::Dropped, Some(defect)));
        }
    };
    let shown = text::clip(&name);
    let text = format!("the key `{shown}` is {kind_name}; it is read as text");
    let mut defect = Defect::new("key.not_text", offset, text, "put it in quotes");
    defect.severity = Severity::Warning;
    Ok((Slot::Value(Key::new(name, offset)?), Some(defect)))
}

/// Resolves a plain scalar by the YAML 1.2 core schema.
fn resolve_scalar(text: &str) -> NodeKind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeKind::Null,
        "true" | "True" | "TRUE" => NodeKind::Bool(true),
        "false" | "False" | "FALSE" => NodeKind::Bool(false),
        _ if is_number(text) => NodeKind::Number(text.to_string()),
        _ => NodeKind::Text(text.to_string()),
    }
}

fn is_number(text: &str) -> bool {
    if text.starts_with("0x") || text.starts_with("0o") {
        return to_decimal(text) != text;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let starts = unsigned.bytes().next().is_some_and(|b| b.is_ascii_digit() || b == b'.');
    let digits = unsigned.bytes().any(|b| b.is_ascii_digit());
    let shape = unsigned.bytes().all(|b| b.is_ascii_digit() || b"eE.+-".contains(&b));
    starts && digits && shape && text.parse::<f64>().is_ok()
}

fn self_alias_error(offset: usize) -> Box<Defect> {
    let text = "the alias refers to a value that contains it".to_string();
    Box::new(Defect::new("yaml.alias", offset, text, "write the value out"))
}

fn syntax_error(error: &ScanError) -> Box<Defect> {
    let offset = error.marker().byte_offset().unwrap_or_default();
    let text = format!("this is not valid YAML: {}", text::clip(&error.info()));
    let fix = "check indentation, quotes and brackets here and in the line above";
    Box::new(Defect::new("yaml.syntax", offset, text, fix))
}

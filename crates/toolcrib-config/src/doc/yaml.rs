//! YAML 1.2 to a tree: core-schema scalars, aliases by copy, merge keys, duplicate keys as flaws.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

use super::{
    Flaw, Growing, Key, Kind, MAX_DEPTH, NodeId, Tree, decimal, duplicate, note, too_deep,
};
use crate::{Severity, text};

pub(crate) fn build(text: &str, tree: &mut Tree, flaws: &mut Vec<Flaw>) -> Result<(), Box<Flaw>> {
    let mut builder =
        Builder { tree, flaws, open: Vec::new(), anchors: HashMap::new(), documents: 0 };
    let options = granit_parser::options! { flow_nesting_limit: MAX_DEPTH + 1, block_nesting_limit: MAX_DEPTH + 1 };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax(&error))?;
        builder.take(event, span.start.byte_offset().unwrap_or_default())?;
    }
    if builder.documents == 0 {
        builder.tree.add(0, Kind::Null)?;
    }
    Ok(())
}

struct Builder<'a> {
    tree: &'a mut Tree,
    flaws: &'a mut Vec<Flaw>,
    open: Vec<Open>,
    anchors: HashMap<usize, NodeId>,
    documents: usize,
}

/// A collection that is still growing. Its anchor counts from its end on: an alias inside has no target.
struct Open {
    id: NodeId,
    anchor: usize,
    content: Content,
}

enum Content {
    Seq(Vec<NodeId>),
    Map { own: Growing, merges: Vec<NodeId>, slot: Slot },
}

/// What a map waits for.
enum Slot {
    Key,
    Value(Key),
    /// The value of `<<`.
    Merge,
    /// The value of a key that was not text: read and dropped, the flaw is already told.
    Dropped,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, offset: usize) -> Result<(), Box<Flaw>> {
        match event {
            Event::DocumentStart(..) => self.document(offset)?,
            Event::Alias(anchor) => {
                let target =
                    self.anchors.get(&anchor).copied().ok_or_else(|| self_alias(offset))?;
                self.room(self.tree.height(target), offset)?;
                let id = self.tree.copy(target, offset)?;
                self.place(id, offset, true)?;
            }
            Event::Scalar(value, style, anchor, tag) => {
                let tagged_text = tag.as_ref().is_some_and(|t| t.suffix() == "str");
                let plain = matches!(style, ScalarStyle::Plain) && !tagged_text;
                let kind = if plain { resolve(&value) } else { Kind::Text(value.into_owned()) };
                if anchor == 0 && self.waits_for_key() {
                    return self.key(kind, offset, plain);
                }
                let id = self.tree.add(offset, kind)?;
                self.remember(anchor, id);
                self.place(id, offset, plain)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.start(offset, anchor, Content::Seq(Vec::new()))?
            }
            Event::MappingStart(_, anchor, _) => {
                let content =
                    Content::Map { own: Growing::default(), merges: Vec::new(), slot: Slot::Key };
                self.start(offset, anchor, content)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(offset)?,
            _ => {}
        }
        Ok(())
    }

    fn document(&mut self, offset: usize) -> Result<(), Box<Flaw>> {
        self.documents += 1;
        if self.documents > 1 {
            let text = "the file holds a second YAML document".to_string();
            let fix = "remove the `---`, or move it to a file of its own";
            return Err(Box::new(Flaw::new("yaml.documents", offset, text, fix)));
        }
        Ok(())
    }

    /// Whether a subtree of this height fits at the present depth.
    fn room(&self, height: usize, offset: usize) -> Result<(), Box<Flaw>> {
        if self.open.len() + height > MAX_DEPTH { Err(too_deep(offset)) } else { Ok(()) }
    }

    fn remember(&mut self, anchor: usize, id: NodeId) {
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
    }

    fn start(&mut self, offset: usize, anchor: usize, content: Content) -> Result<(), Box<Flaw>> {
        self.room(1, offset)?;
        let id = self.tree.add(offset, Kind::Null)?;
        self.open.push(Open { id, anchor, content });
        Ok(())
    }

    fn end(&mut self, offset: usize) -> Result<(), Box<Flaw>> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let kind = match open.content {
            Content::Seq(items) => Kind::Seq(items),
            Content::Map { own, merges, .. } => Kind::Map(self.merged(own, &merges)?),
        };
        self.tree.fill(open.id, kind);
        self.remember(open.anchor, open.id);
        self.place(open.id, offset, false)
    }

    /// Puts a finished node where the innermost open collection wants it.
    fn place(&mut self, id: NodeId, offset: usize, plain: bool) -> Result<(), Box<Flaw>> {
        let Some(open) = self.open.last_mut() else {
            return Ok(());
        };
        match &mut open.content {
            Content::Seq(items) => items.push(id),
            Content::Map { own, merges, slot } => match std::mem::replace(slot, Slot::Key) {
                Slot::Value(key) => own.put(key, id),
                Slot::Merge => merges.push(id),
                Slot::Dropped => {}
                Slot::Key => {
                    let kind = self.tree.kind(id).cloned().unwrap_or(Kind::Null);
                    return self.key(kind, offset, plain);
                }
            },
        }
        Ok(())
    }

    fn waits_for_key(&self) -> bool {
        let open = self.open.last().map(|open| &open.content);
        matches!(open, Some(Content::Map { slot: Slot::Key, .. }))
    }

    /// Takes a key of the innermost map.
    fn key(&mut self, kind: Kind, offset: usize, plain: bool) -> Result<(), Box<Flaw>> {
        let (next, flaw) = key_slot(kind, offset, plain)?;
        if let Some(mut flaw) = flaw {
            flaw.path = self.path();
            note(self.flaws, flaw)?;
        }
        let Some(Open { content: Content::Map { own, slot, .. }, .. }) = self.open.last_mut()
        else {
            return Ok(());
        };
        let again = match &next {
            Slot::Value(key) if own.holds(&key.name) => Some(key.name.clone()),
            _ => None,
        };
        *slot = next;
        match again {
            Some(name) => note(self.flaws, duplicate(&name, offset, self.path())),
            None => Ok(()),
        }
    }

    /// The keys down to the innermost open collection.
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

    /// `<<`: the merged maps fill in what the map itself does not say, the first of them first.
    fn merged(
        &mut self,
        mut own: Growing,
        merges: &[NodeId],
    ) -> Result<Vec<(Key, NodeId)>, Box<Flaw>> {
        for merge in merges {
            for part in self.merge_parts(*merge)? {
                let Some(Kind::Map(from)) = self.tree.kind(part) else {
                    return Err(bad_merge(self.tree.offset(part)));
                };
                for (key, value) in from {
                    if !own.holds(&key.name) {
                        own.put(key.clone(), *value);
                    }
                }
            }
        }
        Ok(own.entries)
    }

    fn merge_parts(&self, merge: NodeId) -> Result<Vec<NodeId>, Box<Flaw>> {
        match self.tree.kind(merge) {
            Some(Kind::Map(_)) => Ok(vec![merge]),
            Some(Kind::Seq(items)) => Ok(items.clone()),
            _ => Err(bad_merge(self.tree.offset(merge))),
        }
    }
}

fn bad_merge(offset: usize) -> Box<Flaw> {
    let text = "`<<` takes a map or a list of maps".to_string();
    let fix = "refer to a map: `<<: *name`";
    Box::new(Flaw::new("yaml.merge", offset, text, fix))
}

fn key_slot(kind: Kind, offset: usize, plain: bool) -> Result<(Slot, Option<Flaw>), Box<Flaw>> {
    let (name, what) = match kind {
        Kind::Text(name) if plain && name == "<<" => return Ok((Slot::Merge, None)),
        Kind::Text(name) => return Ok((Slot::Value(Key::new(name, offset)?), None)),
        Kind::Number(name) => (name, "a number"),
        Kind::Bool(b) => (b.to_string(), "a boolean"),
        Kind::Null => ("null".to_string(), "null"),
        Kind::Seq(_) | Kind::Map(_) => {
            let text = "a key is a list or a map; its entry is left out".to_string();
            let flaw = Flaw::new("key.not_text", offset, text, "use a text as key");
            return Ok((Slot::Dropped, Some(flaw)));
        }
    };
    let shown = text::clip(&name);
    let text = format!("the key `{shown}` is {what}; it is read as text");
    let mut flaw = Flaw::new("key.not_text", offset, text, "put it in quotes");
    flaw.severity = Severity::Warning;
    Ok((Slot::Value(Key::new(name, offset)?), Some(flaw)))
}

/// The YAML 1.2 core schema for plain scalars.
fn resolve(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ if is_number(text) => Kind::Number(text.to_string()),
        _ => Kind::Text(text.to_string()),
    }
}

fn is_number(text: &str) -> bool {
    if text.starts_with("0x") || text.starts_with("0o") {
        return decimal(text) != text;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let starts = unsigned.bytes().next().is_some_and(|b| b.is_ascii_digit() || b == b'.');
    let digits = unsigned.bytes().any(|b| b.is_ascii_digit());
    let shape = unsigned.bytes().all(|b| b.is_ascii_digit() || b"eE.+-".contains(&b));
    starts && digits && shape && text.parse::<f64>().is_ok()
}

fn self_alias(offset: usize) -> Box<Flaw> {
    let text = "the alias refers to the value that it is part of".to_string();
    Box::new(Flaw::new("yaml.alias", offset, text, "write the value out"))
}

fn syntax(error: &ScanError) -> Box<Flaw> {
    let offset = error.marker().byte_offset().unwrap_or_default();
    let text = format!("this is not valid YAML: {}", text::clip(&error.info()));
    let fix = "check indentation, quotes and brackets here and in the line above";
    Box::new(Flaw::new("yaml.syntax", offset, text, fix))
}

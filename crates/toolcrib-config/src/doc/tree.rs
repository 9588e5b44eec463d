//! A document while it is being read: nodes that are added, filled and copied, within limits.

use std::collections::HashMap;

use super::{Flaw, Key, Kind, MAX_NODES, MAX_TEXT, Node, NodeId, too_much};

/// A map while it grows: the last of two equal keys counts.
#[derive(Default)]
pub(crate) struct Growing {
    pub(crate) entries: Vec<(Key, NodeId)>,
    /// Where each key stands; only filled where looking at all of them would take long.
    places: HashMap<String, usize>,
}

impl Growing {
    const FEW: usize = 16;

    pub(crate) fn holds(&mut self, name: &str) -> bool {
        self.position(name).is_some()
    }

    pub(crate) fn put(&mut self, key: Key, id: NodeId) {
        let known = self.position(&key.name);
        match known.and_then(|at| self.entries.get_mut(at)) {
            Some(entry) => *entry = (key, id),
            None => self.entries.push((key, id)),
        }
    }

    fn position(&mut self, name: &str) -> Option<usize> {
        if self.entries.len() <= Self::FEW {
            return self.entries.iter().position(|(key, _)| key.name == name);
        }
        for (at, (key, _)) in self.entries.iter().enumerate().skip(self.places.len()) {
            self.places.insert(key.name.clone(), at);
        }
        self.places.get(name).copied()
    }
}

/// The tree while it grows.
#[derive(Default)]
pub(crate) struct Tree {
    pub(super) nodes: Vec<Node>,
    text: usize,
}

impl Tree {
    pub(crate) fn add(&mut self, offset: usize, kind: Kind) -> Result<NodeId, Box<Flaw>> {
        if self.nodes.len() >= MAX_NODES {
            let text = format!("the file stands for more than {MAX_NODES} values");
            return Err(too_much(offset, text));
        }
        if let Kind::Text(text) | Kind::Number(text) = &kind {
            self.spend(text.len(), offset)?;
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { offset, parent: None, index: 0, height: 0, kind });
        Ok(id)
    }

    /// Counts text towards its limit.
    fn spend(&mut self, bytes: usize, offset: usize) -> Result<(), Box<Flaw>> {
        self.text += bytes;
        if self.text <= MAX_TEXT {
            return Ok(());
        }
        let text = format!("the file stands for more than {MAX_TEXT} bytes of text");
        Err(too_much(offset, text))
    }

    /// Gives a collection its children; they learn their parent.
    pub(crate) fn fill(&mut self, id: NodeId, kind: Kind) {
        let below = match &kind {
            Kind::Seq(items) => self.adopt(id, items.iter().map(|v| (*v, None))),
            Kind::Map(entries) => self.adopt(id, entries.iter().map(|(k, v)| (*v, Some(k.offset)))),
            _ => 0,
        };
        if let Some(node) = self.nodes.get_mut(id.0 as usize) {
            node.height = usize::from(matches!(kind, Kind::Seq(_) | Kind::Map(_))) + below;
            node.kind = kind;
        }
    }

    /// Tells children their parent; the height of the highest. A collection below a key is told of by
    /// that key, not by the first thing in it.
    fn adopt(
        &mut self,
        parent: NodeId,
        children: impl Iterator<Item = (NodeId, Option<usize>)>,
    ) -> usize {
        let mut below = 0;
        for (index, (child, key)) in children.enumerate() {
            if let Some(node) = self.nodes.get_mut(child.0 as usize) {
                node.parent = Some(parent);
                node.index = index as u32;
                below = below.max(node.height);
                let collection = matches!(node.kind, Kind::Seq(_) | Kind::Map(_));
                node.offset = key.filter(|_| collection).unwrap_or(node.offset);
            }
        }
        below
    }

    pub(crate) fn height(&self, id: NodeId) -> usize {
        self.nodes.get(id.0 as usize).map_or(0, |node| node.height)
    }

    pub(crate) fn kind(&self, id: NodeId) -> Option<&Kind> {
        self.nodes.get(id.0 as usize).map(|node| &node.kind)
    }

    pub(crate) fn offset(&self, id: NodeId) -> usize {
        self.nodes.get(id.0 as usize).map_or(0, |node| node.offset)
    }

    /// A copy of a subtree, so that an alias has nodes of its own. Depth is bounded by the original.
    pub(crate) fn copy(&mut self, id: NodeId, offset: usize) -> Result<NodeId, Box<Flaw>> {
        let original = self.kind(id).cloned().unwrap_or(Kind::Null);
        let (scalar, collection) = match original {
            Kind::Seq(_) | Kind::Map(_) => (Kind::Null, Some(original)),
            scalar => (scalar, None),
        };
        let new = self.add(offset, scalar)?;
        let copied = match collection {
            Some(Kind::Seq(mut items)) => {
                for item in &mut items {
                    *item = self.copy(*item, offset)?;
                }
                Kind::Seq(items)
            }
            Some(Kind::Map(mut entries)) => {
                for (key, value) in &mut entries {
                    self.spend(key.name.len(), offset)?;
                    key.offset = offset;
                    *value = self.copy(*value, offset)?;
                }
                Kind::Map(entries)
            }
            _ => return Ok(new),
        };
        self.fill(new, copied);
        Ok(new)
    }
}

//! Tree construction within limits: adding, filling and copying nodes.

use std::collections::HashMap;

use super::{Defect, Key, MAX_NODES, MAX_TEXT, Node, NodeId, NodeKind, too_many_values};

/// A map under construction. The last of two equal keys wins.
#[derive(Default)]
pub(crate) struct MapBuilder {
    pub(crate) entries: Vec<(Key, NodeId)>,
    /// Index of each key. It is filled only when a linear search would be slow.
    positions: HashMap<String, usize>,
}

impl MapBuilder {
    const LINEAR_SEARCH_MAX: usize = 16;

    pub(crate) fn contains(&mut self, name: &str) -> bool {
        self.position(name).is_some()
    }

    pub(crate) fn insert(&mut self, key: Key, id: NodeId) {
        let known = self.position(&key.name);
        match known.and_then(|at| self.entries.get_mut(at)) {
            Some(entry) => *entry = (key, id),
            None => self.entries.push((key, id)),
        }
    }

    fn position(&mut self, name: &str) -> Option<usize> {
        if self.entries.len() <= Self::LINEAR_SEARCH_MAX {
            return self.entries.iter().position(|(key, _)| key.name == name);
        }
        for (at, (key, _)) in self.entries.iter().enumerate().skip(self.positions.len()) {
            self.positions.insert(key.name.clone(), at);
        }
        self.positions.get(name).copied()
    }
}

/// A tree under construction.
#[derive(Default)]
pub(crate) struct TreeBuilder {
    pub(super) nodes: Vec<Node>,
    text: usize,
}

impl TreeBuilder {
    pub(crate) fn add_node(
        &mut self,
        offset: usize,
        kind: NodeKind,
    ) -> Result<NodeId, Box<Defect>> {
        if self.nodes.len() >= MAX_NODES {
            let text = format!("the file expands to more than {MAX_NODES} values");
            return Err(too_many_values(offset, text));
        }
        if let NodeKind::Text(text) | NodeKind::Number(text) = &kind {
            self.count_text(text.len(), offset)?;
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { offset, parent: None, index: 0, height: 0, kind });
        Ok(id)
    }

    /// Counts bytes towards the text limit.
    fn count_text(&mut self, bytes: usize, offset: usize) -> Result<(), Box<Defect>> {
        self.text += bytes;
        if self.text <= MAX_TEXT {
            return Ok(());
        }
        let text = format!("the file expands to more than {MAX_TEXT} bytes of text");
        Err(too_many_values(offset, text))
    }

    /// Sets a node's content and links its children to it.
    pub(crate) fn fill_node(&mut self, id: NodeId, kind: NodeKind) {
        let below = match &kind {
            NodeKind::Seq(items) => self.set_parent(id, items.iter().map(|v| (*v, None))),
            NodeKind::Map(entries) => {
                self.set_parent(id, entries.iter().map(|(k, v)| (*v, Some(k.offset))))
            }
            _ => 0,
        };
        if let Some(node) = self.nodes.get_mut(id.0 as usize) {
            node.height = usize::from(matches!(kind, NodeKind::Seq(_) | NodeKind::Map(_))) + below;
            node.kind = kind;
        }
    }

    /// Links children to their parent and returns the greatest height. A collection below a key is located at its key
    /// instead of its first element.
    fn set_parent(
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
                let collection = matches!(node.kind, NodeKind::Seq(_) | NodeKind::Map(_));
                node.offset = key.filter(|_| collection).unwrap_or(node.offset);
            }
        }
        below
    }

    pub(crate) fn height(&self, id: NodeId) -> usize {
        self.nodes.get(id.0 as usize).map_or(0, |node| node.height)
    }

    pub(crate) fn kind(&self, id: NodeId) -> Option<&NodeKind> {
        self.nodes.get(id.0 as usize).map(|node| &node.kind)
    }

    pub(crate) fn offset(&self, id: NodeId) -> usize {
        self.nodes.get(id.0 as usize).map_or(0, |node| node.offset)
    }

    /// Copies a subtree, so that an alias has its own nodes. The original's height bounds the recursion.
    pub(crate) fn copy_subtree(
        &mut self,
        id: NodeId,
        offset: usize,
    ) -> Result<NodeId, Box<Defect>> {
        let original = self.kind(id).cloned().unwrap_or(NodeKind::Null);
        let (scalar, collection) = match original {
            NodeKind::Seq(_) | NodeKind::Map(_) => (NodeKind::Null, Some(original)),
            scalar => (scalar, None),
        };
        let new = self.add_node(offset, scalar)?;
        let copied = match collection {
            Some(NodeKind::Seq(mut items)) => {
                for item in &mut items {
                    *item = self.copy_subtree(*item, offset)?;
                }
                NodeKind::Seq(items)
            }
            Some(NodeKind::Map(mut entries)) => {
                for (key, value) in &mut entries {
                    self.count_text(key.name.len(), offset)?;
                    key.offset = offset;
                    *value = self.copy_subtree(*value, offset)?;
                }
                NodeKind::Map(entries)
            }
            _ => return Ok(new),
        };
        self.fill_node(new, copied);
        Ok(new)
    }
}

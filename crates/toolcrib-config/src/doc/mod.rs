//! A configuration file as a tree whose every node knows its place, whatever syntax it was written in.

mod at;
mod json;
mod read;
mod toml;
mod yaml;

pub use at::At;
pub(crate) use at::Wrong;
pub(crate) use read::{Either, Reading, Unknown, describe, read};

use crate::place::Place;

/// Larger files are refused: a thousand servers fit in a tenth of this.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// Deeper nesting is refused, so that no reader of the tree can run out of stack.
pub(crate) const MAX_DEPTH: usize = 128;
/// More nodes are refused; an alias counts for every node that it stands for.
pub(crate) const MAX_NODES: usize = 500_000;

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Yaml,
    /// JSON; comments and trailing commas are accepted.
    Json,
    Toml,
}

/// One parsed file: an arena of nodes, the first of which is the root.
#[derive(Debug)]
pub(crate) struct Doc {
    nodes: Vec<Node>,
    lines: Lines,
}

/// A node's number in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The node of a value that no file holds.
    pub(crate) const NOWHERE: Self = Self(u32::MAX);
}

/// What a node holds. Numbers keep their text, so that nothing is rounded on the way.
#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Seq(Vec<NodeId>),
    Map(Vec<(Key, NodeId)>),
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) offset: usize,
}

#[derive(Debug)]
struct Node {
    offset: usize,
    parent: Option<NodeId>,
    /// Levels of collections below and including this node; copying an alias adds them to its depth.
    height: usize,
    kind: Kind,
}

/// Something wrong with a file's text, at a byte offset.
#[derive(Debug, PartialEq)]
pub(crate) struct Flaw {
    pub code: &'static str,
    pub text: String,
    pub fix: String,
    pub offset: usize,
    /// The keys down to the map that is flawed; empty for the whole file.
    pub path: Vec<String>,
    pub severity: crate::Severity,
}

impl Flaw {
    pub(crate) fn new(code: &'static str, offset: usize, text: String, fix: &str) -> Self {
        let (path, severity) = (Vec::new(), crate::Severity::Error);
        Self { code, text, fix: fix.to_string(), offset, path, severity }
    }
}

/// A file's text as read: a tree where the syntax allowed one, and what is wrong.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub doc: Option<Doc>,
    pub flaws: Vec<Flaw>,
    pub lines: Lines,
}

/// Parses `bytes`; never panics, in time and memory bounded by the limits above.
pub(crate) fn parse(syntax: Syntax, bytes: &[u8]) -> Parsed {
    let mut flaws = Vec::new();
    let text = match decode(bytes) {
        Ok(text) => text,
        Err((valid, flaw)) => {
            flaws.push(flaw);
            return Parsed { doc: None, flaws, lines: Lines::of(valid) };
        }
    };
    let lines = Lines::of(text);
    let mut tree = Tree::default();
    let outcome = match syntax {
        Syntax::Yaml => yaml::build(text, &mut tree, &mut flaws),
        Syntax::Json => json::build(text, &mut tree, &mut flaws),
        Syntax::Toml => toml::build(text, &mut tree),
    };
    match outcome {
        Ok(()) => {
            let doc = Doc { nodes: tree.nodes, lines: lines.clone() };
            Parsed { doc: Some(doc), flaws, lines }
        }
        Err(flaw) => {
            flaws.push(*flaw);
            Parsed { doc: None, flaws, lines }
        }
    }
}

fn decode(bytes: &[u8]) -> Result<&str, (&str, Flaw)> {
    if bytes.len() > MAX_BYTES {
        let text = format!("the file has {} bytes; at most {MAX_BYTES} are read", bytes.len());
        return Err(("", Flaw::new("file.too_large", 0, text, "split it with `include`")));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let good = error.valid_up_to();
        let valid = bytes.get(..good).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default();
        let text = "the file is not UTF-8 text".to_string();
        (valid, Flaw::new("file.not_utf8", good, text, "save the file as UTF-8"))
    })
}

impl Doc {
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn kind(&self, id: NodeId) -> &Kind {
        self.nodes.get(id.0 as usize).map_or(&Kind::Null, |node| &node.kind)
    }

    /// The entries of a map; nothing for any other node.
    pub(crate) fn entries(&self, id: NodeId) -> &[(Key, NodeId)] {
        match self.kind(id) {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, id: NodeId, key: &str) -> Option<NodeId> {
        self.entries(id).iter().find(|(k, _)| k.name == key).map(|(_, v)| *v)
    }

    /// Where a node stands in the text.
    pub(crate) fn place(&self, id: NodeId) -> Place {
        self.lines.place(self.nodes.get(id.0 as usize).map_or(0, |node| node.offset))
    }

    pub(crate) fn key_place(&self, key: &Key) -> Place {
        self.lines.place(key.offset)
    }

    /// The keys and indexes from the root to a node, as `servers.git.args[1]`.
    pub(crate) fn path(&self, id: NodeId) -> String {
        let mut steps = Vec::new();
        let mut at = id;
        while let Some(parent) = self.nodes.get(at.0 as usize).and_then(|node| node.parent) {
            steps.push(self.step(parent, at));
            at = parent;
        }
        steps.reverse();
        steps.concat().trim_start_matches('.').to_string()
    }

    /// Whether a node is `ancestor` or stands below it.
    pub(crate) fn is_within(&self, node: NodeId, ancestor: NodeId) -> bool {
        let parent = |id: &NodeId| self.nodes.get(id.0 as usize).and_then(|node| node.parent);
        std::iter::successors(Some(node), parent).any(|id| id == ancestor)
    }

    fn step(&self, parent: NodeId, child: NodeId) -> String {
        match self.kind(parent) {
            Kind::Map(entries) => {
                let key = entries.iter().find(|(_, v)| *v == child).map(|(k, _)| k.name.as_str());
                format!(".{}", crate::text::clip(key.unwrap_or("?")))
            }
            Kind::Seq(items) => {
                format!("[{}]", items.iter().position(|v| *v == child).unwrap_or_default())
            }
            _ => String::new(),
        }
    }

    /// The subtree as JSON; numbers keep their digits.
    pub(crate) fn json(&self, id: NodeId) -> serde_json::Value {
        use serde_json::Value;
        match self.kind(id) {
            Kind::Null => Value::Null,
            Kind::Bool(b) => Value::Bool(*b),
            Kind::Number(n) => number(n).map_or_else(|| Value::String(n.clone()), Value::Number),
            Kind::Text(t) => Value::String(t.clone()),
            Kind::Seq(items) => Value::Array(items.iter().map(|v| self.json(*v)).collect()),
            Kind::Map(entries) => Value::Object(
                entries.iter().map(|(k, v)| (k.name.clone(), self.json(*v))).collect(),
            ),
        }
    }
}

fn number(text: &str) -> Option<serde_json::Number> {
    text.parse::<u64>()
        .map(Into::into)
        .or_else(|_| text.parse::<i64>().map(Into::into))
        .ok()
        .or_else(|| text.parse::<f64>().ok().and_then(serde_json::Number::from_f64))
}

/// Where each line begins, so that an offset can be shown as line and column.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    text: std::sync::Arc<str>,
    starts: std::sync::Arc<[usize]>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let rest = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        let starts: Vec<usize> = std::iter::once(0).chain(rest).collect();
        Self { text: text.into(), starts: starts.into() }
    }

    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column =
            self.text.get(start..offset.min(self.text.len())).map_or(0, |s| s.chars().count());
        Place { line: line as u32, column: column as u32 + 1 }
    }

    /// The text of one line, counted from 1, without its end.
    pub fn line(&self, line: u32) -> Option<&str> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        Some(self.text.get(start..end)?.trim_end_matches(['\n', '\r']))
    }
}

/// The tree while it grows.
#[derive(Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    pub(crate) fn add(&mut self, offset: usize, kind: Kind) -> Result<NodeId, Box<Flaw>> {
        if self.nodes.len() >= MAX_NODES {
            let text = format!("the file stands for more than {MAX_NODES} values");
            let fix = "use fewer aliases, or split the file with `include`";
            return Err(Box::new(Flaw::new("file.too_many_values", offset, text, fix)));
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { offset, parent: None, height: 0, kind });
        Ok(id)
    }

    /// Gives a collection its children; they learn their parent. A collection below a key is told of
    /// by that key, not by the first thing in it.
    pub(crate) fn fill(&mut self, id: NodeId, kind: Kind) {
        let children: Vec<(NodeId, Option<usize>)> = match &kind {
            Kind::Seq(items) => items.iter().map(|v| (*v, None)).collect(),
            Kind::Map(entries) => entries.iter().map(|(k, v)| (*v, Some(k.offset))).collect(),
            _ => Vec::new(),
        };
        let mut below = 0;
        for (child, key) in children {
            if let Some(node) = self.nodes.get_mut(child.0 as usize) {
                node.parent = Some(id);
                below = below.max(node.height);
                let collection = matches!(node.kind, Kind::Seq(_) | Kind::Map(_));
                node.offset = key.filter(|_| collection).unwrap_or(node.offset);
            }
        }
        if let Some(node) = self.nodes.get_mut(id.0 as usize) {
            node.height = usize::from(matches!(kind, Kind::Seq(_) | Kind::Map(_))) + below;
            node.kind = kind;
        }
    }

    pub(crate) fn height(&self, id: NodeId) -> usize {
        self.nodes.get(id.0 as usize).map_or(0, |node| node.height)
    }

    pub(crate) fn kind(&self, id: NodeId) -> Option<&Kind> {
        self.nodes.get(id.0 as usize).map(|node| &node.kind)
    }

    /// A copy of a subtree, so that an alias has nodes of its own. Depth is bounded by the original.
    pub(crate) fn copy(&mut self, id: NodeId, offset: usize) -> Result<NodeId, Box<Flaw>> {
        let new = self.add(offset, Kind::Null)?;
        let kind = match self.kind(id) {
            None | Some(Kind::Null) => Kind::Null,
            Some(Kind::Bool(b)) => Kind::Bool(*b),
            Some(Kind::Number(n)) => Kind::Number(n.clone()),
            Some(Kind::Text(t)) => Kind::Text(t.clone()),
            Some(Kind::Seq(items)) => {
                let items = items.clone();
                Kind::Seq(items.iter().map(|v| self.copy(*v, offset)).collect::<Result<_, _>>()?)
            }
            Some(Kind::Map(entries)) => {
                let entries: Vec<_> = entries.iter().map(|(k, v)| (k.name.clone(), *v)).collect();
                let copied: Result<_, Box<Flaw>> = entries
                    .into_iter()
                    .map(|(name, v)| Ok((Key { name, offset }, self.copy(v, offset)?)))
                    .collect();
                Kind::Map(copied?)
            }
        };
        self.fill(new, kind);
        Ok(new)
    }
}

/// Two equal keys in one map: which value counts is a guess, so it is an error at the second.
pub(crate) fn duplicate(name: &str, offset: usize, path: Vec<String>) -> Flaw {
    let text = format!("the key `{}` stands twice in one map", crate::text::clip(name));
    let mut flaw = Flaw::new("key.duplicate", offset, text, "keep one of the two");
    flaw.path = path;
    flaw
}

pub(crate) fn too_deep(offset: usize) -> Box<Flaw> {
    let text = format!("the file is nested more than {MAX_DEPTH} levels deep");
    Box::new(Flaw::new("file.too_deep", offset, text, "a configuration needs fewer than ten"))
}

#[cfg(test)]
mod tests;

//! A configuration file as a tree whose every node knows its place, whatever syntax it was written in.

mod at;
mod json;
mod read;
mod toml;
mod yaml;

pub use at::At;
pub(crate) use at::Wrong;
pub(crate) use read::{Either, Reading, SCALAR, Unknown, describe, read};

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use crate::place::Place;

/// Larger files are refused: a thousand servers fit in a tenth of this.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// Deeper nesting is refused, so that no reader of the tree can run out of stack.
pub(crate) const MAX_DEPTH: usize = 128;
/// More nodes are refused; an alias counts for every node that it stands for.
pub(crate) const MAX_NODES: usize = 500_000;
/// More text is refused; an alias counts for all the text that it stands for.
pub(crate) const MAX_TEXT: usize = 2 * MAX_BYTES;
/// Longer keys are refused: a key is repeated in paths, origins and problems.
pub(crate) const MAX_KEY: usize = 4096;
/// A file with more flaws is refused: nobody reads on.
pub(crate) const MAX_FLAWS: usize = 1000;

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Yaml,
    /// JSON; comments and trailing commas are accepted.
    Json,
    Toml,
}

/// One parsed file: an arena of nodes, the first of which is the root.
pub(crate) struct Doc {
    nodes: Vec<Node>,
    lines: Lines,
}

/// A file's text may hold secrets; only how much there is of it is shown.
impl fmt::Debug for Doc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Doc({} nodes)", self.nodes.len())
    }
}

/// A node's number in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The node of a value that no file holds.
    pub(crate) const NOWHERE: Self = Self(u32::MAX);
}

/// What a node holds. Numbers keep the text that was written: nothing is rounded on the way, and
/// where a text is wanted it is that one.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Seq(Vec<NodeId>),
    Map(Vec<(Key, NodeId)>),
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) offset: usize,
}

impl Key {
    pub(crate) fn new(name: String, offset: usize) -> Result<Self, Box<Flaw>> {
        if name.len() <= MAX_KEY {
            return Ok(Self { name, offset });
        }
        let text = format!("the key has {} bytes; at most {MAX_KEY} are read", name.len());
        let fix = "shorten it; was a quote or a colon forgotten?";
        Err(Box::new(Flaw::new("key.too_long", offset, text, fix)))
    }
}

struct Node {
    offset: usize,
    parent: Option<NodeId>,
    /// Which of its parent's children the node is.
    index: u32,
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
    /// The keys down to the map that is flawed, or the first of them; empty for the whole file.
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

    /// Texts and numbers that begin in a line and are below a key that is meant: how far into the line, and what.
    pub(crate) fn scalars_of<'a>(
        &'a self,
        line: u32,
        is_meant: &'a dyn Fn(&str) -> bool,
    ) -> impl Iterator<Item = (usize, &'a str)> {
        let start = |line: usize| self.lines.starts.get(line).copied().unwrap_or(usize::MAX);
        let (from, to) = (start((line as usize).saturating_sub(1)), start(line as usize));
        let begins = self.nodes.iter().filter(move |node| (from..to).contains(&node.offset));
        begins.filter_map(move |node| match &node.kind {
            Kind::Text(text) | Kind::Number(text) if self.is_below(node, is_meant) => {
                Some((node.offset - from, text.as_str()))
            }
            _ => None,
        })
    }

    fn is_below(&self, node: &Node, is_meant: &dyn Fn(&str) -> bool) -> bool {
        let mut at = Some(node);
        while let Some((node, parent)) = at.and_then(|node| Some((node, node.parent?))) {
            let key = self.entries(parent).get(node.index as usize);
            if key.is_some_and(|(key, _)| is_meant(&key.name)) {
                return true;
            }
            at = self.nodes.get(parent.0 as usize);
        }
        false
    }

    fn step(&self, parent: NodeId, child: NodeId) -> String {
        let index = self.nodes.get(child.0 as usize).map_or(0, |node| node.index);
        match self.kind(parent) {
            Kind::Map(entries) => {
                let key = entries.get(index as usize).map(|(k, _)| k.name.as_str());
                format!(".{}", crate::text::clip(key.unwrap_or("?")))
            }
            Kind::Seq(_) => format!("[{index}]"),
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

/// A number's text in decimal digits: octal and hexadecimal are converted, a `+` is left out.
fn decimal(text: &str) -> Cow<'_, str> {
    let digits = |prefix, radix| u64::from_str_radix(text.strip_prefix(prefix)?, radix).ok();
    match digits("0x", 16).or_else(|| digits("0o", 8)) {
        Some(number) => Cow::Owned(number.to_string()),
        None => Cow::Borrowed(text.strip_prefix('+').unwrap_or(text)),
    }
}

fn number(text: &str) -> Option<serde_json::Number> {
    let text = decimal(text);
    text.parse::<u64>()
        .map(Into::into)
        .or_else(|_| text.parse::<i64>().map(Into::into))
        .ok()
        .or_else(|| text.parse::<f64>().ok().and_then(serde_json::Number::from_f64))
}

/// Where each line begins, so that an offset can be shown as line and column.
#[derive(Clone, Default)]
pub struct Lines {
    text: std::sync::Arc<str>,
    starts: std::sync::Arc<[usize]>,
    /// The characters before every `MARK`th byte: a line may be as long as the file.
    marks: std::sync::Arc<[usize]>,
}

const MARK: usize = 1024;

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({})", self.starts.len())
    }
}

impl Lines {
    fn of(text: &str) -> Self {
        let rest = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        let starts: Vec<usize> = std::iter::once(0).chain(rest).collect();
        let marks = text.as_bytes().chunks(MARK).scan(0, |before, chunk| {
            let mark = *before;
            *before += characters(chunk);
            Some(mark)
        });
        Self { text: text.into(), starts: starts.into(), marks: marks.collect() }
    }

    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.before(offset).saturating_sub(self.before(start));
        Place { line: line as u32, column: column as u32 + 1 }
    }

    /// The characters in front of an offset.
    fn before(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        let mark = self.marks.get(offset / MARK).copied();
        let from = mark.map_or(0, |_| offset / MARK * MARK);
        let rest = self.text.as_bytes().get(from..offset).unwrap_or_default();
        mark.unwrap_or_default() + characters(rest)
    }

    /// The text of one line, counted from 1, without its end.
    pub fn line(&self, line: u32) -> Option<&str> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        Some(self.text.get(start..end)?.trim_end_matches(['\n', '\r']))
    }
}

fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b & 0xc0 != 0x80).count()
}

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
    nodes: Vec<Node>,
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

/// Adds a flaw, or gives up on the file where there are too many.
pub(crate) fn note(flaws: &mut Vec<Flaw>, mut flaw: Flaw) -> Result<(), Box<Flaw>> {
    if flaws.len() < MAX_FLAWS {
        // The first steps tell the server; all of them, a thousand times, would be too much to keep.
        flaw.path.truncate(8);
        flaws.push(flaw);
        return Ok(());
    }
    let text = format!("there are more than {MAX_FLAWS} mistakes in the file's keys");
    let fix = "correct those above first; is this a configuration?";
    Err(Box::new(Flaw::new("file.too_many_flaws", flaw.offset, text, fix)))
}

fn too_much(offset: usize, text: String) -> Box<Flaw> {
    let fix = "use fewer aliases, or split the file with `include`";
    Box::new(Flaw::new("file.too_many_values", offset, text, fix))
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

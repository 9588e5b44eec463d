//! A configuration file as a tree whose every node knows its place, whatever syntax it was written in.

mod at;
mod json;
mod lines;
mod read;
mod toml;
mod tree;
mod yaml;

pub use at::At;
pub(crate) use at::Wrong;
pub use lines::Lines;
pub(crate) use read::{Either, Reading, SCALAR, Unknown, describe, read};
pub(crate) use tree::{Growing, Tree};

use std::borrow::Cow;
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

//! A configuration file as a tree of nodes with locations, independent of the file's syntax.

mod at;
mod deserialize;
mod json;
mod line_index;
mod toml;
mod tree;
mod yaml;

pub use at::At;
pub(crate) use at::ValueError;
pub(crate) use deserialize::{
    Deserialized, Either, SCALAR, UnknownKey, describe_node, deserialize,
};
pub use line_index::LineIndex;
pub(crate) use tree::{MapBuilder, TreeBuilder};

use std::borrow::Cow;
use std::fmt;

use crate::source_location::SourceLocation;

/// Maximum file size. A thousand servers fit in a tenth of it.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// Maximum nesting depth, so that no code that walks the tree runs out of stack.
pub(crate) const MAX_DEPTH: usize = 128;
/// Maximum number of nodes. Every expansion of an alias counts.
pub(crate) const MAX_NODES: usize = 500_000;
/// Maximum number of bytes of text. Every expansion of an alias counts.
pub(crate) const MAX_TEXT: usize = 2 * MAX_BYTES;
/// Maximum length of a key, because keys are repeated in paths, origins and problems.
pub(crate) const MAX_KEY: usize = 4096;
/// Maximum number of defects of one file.
pub(crate) const MAX_DEFECTS: usize = 1000;

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Yaml,
    /// JSON with comments and trailing commas.
    Json,
    Toml,
}

/// A parsed file: an arena of nodes. The first node is the root.
pub(crate) struct Doc {
    nodes: Vec<Node>,
    lines: LineIndex,
}

/// Shows only the number of nodes, because the text may contain secrets.
impl fmt::Debug for Doc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Doc({} nodes)", self.nodes.len())
    }
}

/// The number of a node in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The node of a value that is in no file.
    pub(crate) const NOWHERE: Self = Self(u32::MAX);
}

/// The content of a node. Numbers keep their source text, so that nothing is rounded and a text setting gets the exact
/// text.
#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
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
    pub(crate) fn new(name: String, offset: usize) -> Result<Self, Box<Defect>> {
        if name.len() <= MAX_KEY {
            return Ok(Self { name, offset });
        }
        let text = format!("the key has {} bytes; at most {MAX_KEY} are read", name.len());
        let fix = "shorten it; was a quote or a colon forgotten?";
        Err(Box::new(Defect::new("key.too_long", offset, text, fix)))
    }
}

struct Node {
    offset: usize,
    parent: Option<NodeId>,
    /// Index among the parent's children.
    index: u32,
    /// Number of collection levels from this node down. An expanded alias adds them to its depth.
    height: usize,
    kind: NodeKind,
}

/// An error in a file's text, at a byte offset.
#[derive(Debug, PartialEq)]
pub(crate) struct Defect {
    pub code: &'static str,
    pub text: String,
    pub fix: String,
    pub offset: usize,
    /// The first keys down to the map with the defect. Empty if the defect is of the whole file.
    pub path: Vec<String>,
    pub severity: crate::Severity,
}

impl Defect {
    pub(crate) fn new(code: &'static str, offset: usize, text: String, fix: &str) -> Self {
        let (path, severity) = (Vec::new(), crate::Severity::Error);
        Self { code, text, fix: fix.to_string(), offset, path, severity }
    }
}

/// Result of parsing: a tree if the syntax allows one, and the defects.
#[derive(Debug)]
pub(crate) struct ParsedDoc {
    pub doc: Option<Doc>,
    pub defects: Vec<Defect>,
    pub lines: LineIndex,
}

/// Parses a file. Never panics; time and memory are bounded by the limits above.
pub(crate) fn parse(syntax: Syntax, bytes: &[u8]) -> ParsedDoc {
    let mut defects = Vec::new();
    let text = match decode(bytes) {
        Ok(text) => text,
        Err((valid, defect)) => {
            defects.push(defect);
            return ParsedDoc { doc: None, defects, lines: LineIndex::new(valid) };
        }
    };
    let lines = LineIndex::new(text);
    let mut tree = TreeBuilder::default();
    let outcome = match syntax {
        Syntax::Yaml => yaml::build(text, &mut tree, &mut defects),
        Syntax::Json => json::build(text, &mut tree, &mut defects),
        Syntax::Toml => toml::build(text, &mut tree),
    };
    match outcome {
        Ok(()) => {
            let doc = Doc { nodes: tree.nodes, lines: lines.clone() };
            ParsedDoc { doc: Some(doc), defects, lines }
        }
        Err(defect) => {
            defects.push(*defect);
            ParsedDoc { doc: None, defects, lines }
        }
    }
}

fn decode(bytes: &[u8]) -> Result<&str, (&str, Defect)> {
    if bytes.len() > MAX_BYTES {
        let text = format!("the file has {} bytes; at most {MAX_BYTES} are read", bytes.len());
        return Err(("", Defect::new("file.too_large", 0, text, "split it with `include`")));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let good = error.valid_up_to();
        let valid = bytes.get(..good).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default();
        let text = "the file is not UTF-8 text".to_string();
        (valid, Defect::new("file.not_utf8", good, text, "save the file as UTF-8"))
    })
}

impl Doc {
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn kind(&self, id: NodeId) -> &NodeKind {
        self.nodes.get(id.0 as usize).map_or(&NodeKind::Null, |node| &node.kind)
    }

    /// Returns the entries of a map, or an empty slice for other nodes.
    pub(crate) fn entries(&self, id: NodeId) -> &[(Key, NodeId)] {
        match self.kind(id) {
            NodeKind::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, id: NodeId, key: &str) -> Option<NodeId> {
        self.entries(id).iter().find(|(k, _)| k.name == key).map(|(_, v)| *v)
    }

    /// Returns the location of a node.
    pub(crate) fn location(&self, id: NodeId) -> SourceLocation {
        self.lines.location(self.nodes.get(id.0 as usize).map_or(0, |node| node.offset))
    }

    pub(crate) fn key_location(&self, key: &Key) -> SourceLocation {
        self.lines.location(key.offset)
    }

    /// Returns the path of a node, such as `servers.git.args[1]`.
    pub(crate) fn path(&self, id: NodeId) -> String {
        let mut steps = Vec::new();
        let mut at = id;
        while let Some(parent) = self.nodes.get(at.0 as usize).and_then(|node| node.parent) {
            steps.push(self.path_step(parent, at));
            at = parent;
        }
        steps.reverse();
        steps.concat().trim_start_matches('.').to_string()
    }

    /// Returns whether a node is `ancestor` or one of its descendants.
    pub(crate) fn is_within(&self, node: NodeId, ancestor: NodeId) -> bool {
        let parent = |id: &NodeId| self.nodes.get(id.0 as usize).and_then(|node| node.parent);
        std::iter::successors(Some(node), parent).any(|id| id == ancestor)
    }

    /// Returns the scalars that start in a line and have a matching key above them, with their byte offset in the line.
    pub(crate) fn scalars_in_line<'a>(
        &'a self,
        line: u32,
        is_meant: &'a dyn Fn(&str) -> bool,
    ) -> impl Iterator<Item = (usize, &'a str)> {
        let start = |line: usize| self.lines.starts.get(line).copied().unwrap_or(usize::MAX);
        let (from, to) = (start((line as usize).saturating_sub(1)), start(line as usize));
        let begins = self.nodes.iter().filter(move |node| (from..to).contains(&node.offset));
        begins.filter_map(move |node| match &node.kind {
            NodeKind::Text(text) | NodeKind::Number(text) if self.is_below(node, is_meant) => {
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

    fn path_step(&self, parent: NodeId, child: NodeId) -> String {
        let index = self.nodes.get(child.0 as usize).map_or(0, |node| node.index);
        match self.kind(parent) {
            NodeKind::Map(entries) => {
                let key = entries.get(index as usize).map(|(k, _)| k.name.as_str());
                format!(".{}", crate::text::clip(key.unwrap_or("?")))
            }
            NodeKind::Seq(_) => format!("[{index}]"),
            _ => String::new(),
        }
    }

    /// Returns the subtree as JSON. Numbers keep their digits.
    pub(crate) fn json(&self, id: NodeId) -> serde_json::Value {
        use serde_json::Value;
        match self.kind(id) {
            NodeKind::Null => Value::Null,
            NodeKind::Bool(b) => Value::Bool(*b),
            NodeKind::Number(n) => {
                parse_number(n).map_or_else(|| Value::String(n.clone()), Value::Number)
            }
            NodeKind::Text(t) => Value::String(t.clone()),
            NodeKind::Seq(items) => Value::Array(items.iter().map(|v| self.json(*v)).collect()),
            NodeKind::Map(entries) => Value::Object(
                entries.iter().map(|(k, v)| (k.name.clone(), self.json(*v))).collect(),
            ),
        }
    }
}

/// Converts hexadecimal and octal numbers to decimal digits and removes a leading `+`.
fn to_decimal(text: &str) -> Cow<'_, str> {
    let digits = |prefix, radix| u64::from_str_radix(text.strip_prefix(prefix)?, radix).ok();
    match digits("0x", 16).or_else(|| digits("0o", 8)) {
        Some(number) => Cow::Owned(number.to_string()),
        None => Cow::Borrowed(text.strip_prefix('+').unwrap_or(text)),
    }
}

fn parse_number(text: &str) -> Option<serde_json::Number> {
    let text = to_decimal(text);
    text.parse::<u64>()
        .map(Into::into)
        .or_else(|_| text.parse::<i64>().map(Into::into))
        .ok()
        .or_else(|| text.parse::<f64>().ok().and_then(serde_json::Number::from_f64))
}

/// Adds a defect, or fails if the file has too many.
pub(crate) fn push_defect(
    defects: &mut Vec<Defect>,
    mut defect: Defect,
) -> Result<(), Box<Defect>> {
    if defects.len() < MAX_DEFECTS {
        // The first steps identify the server. The full path, a thousand times, would take too much memory.
        defect.path.truncate(8);
        defects.push(defect);
        return Ok(());
    }
    let text = format!("there are more than {MAX_DEFECTS} mistakes in the file's keys");
    let fix = "correct those above first; is this a configuration?";
    Err(Box::new(Defect::new("file.too_many_flaws", defect.offset, text, fix)))
}

fn too_many_values(offset: usize, text: String) -> Box<Defect> {
    let fix = "use fewer aliases, or split the file with `include`";
    Box::new(Defect::new("file.too_many_values", offset, text, fix))
}

/// Reports a duplicate key at its second occurrence. The intended value is unknown, so it is an error.
pub(crate) fn duplicate_key(name: &str, offset: usize, path: Vec<String>) -> Defect {
    let text = format!("duplicate key `{}` in one map", crate::text::clip(name));
    let mut defect = Defect::new("key.duplicate", offset, text, "keep one of the two");
    defect.path = path;
    defect
}

pub(crate) fn too_deep(offset: usize) -> Box<Defect> {
    let text = format!("the file is nested more than {MAX_DEPTH} levels deep");
    Box::new(Defect::new("file.too_deep", offset, text, "a configuration needs fewer than ten"))
}

#[cfg(test)]
mod tests;

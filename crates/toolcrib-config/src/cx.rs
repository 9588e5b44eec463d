//! What a dialect has at hand while it reads one file: the tree, the world, and a list of problems.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::dialect::Dialect;
use crate::doc::{self, Doc, NodeId, Reading, Unknown};
use crate::lookup::Lookup;
use crate::problem::{Problem, Severity};
use crate::text;

/// One file being read.
pub(crate) struct Cx<'a> {
    pub(crate) label: Arc<str>,
    pub(crate) dialect: Dialect,
    pub(crate) doc: &'a Doc,
    /// The folder that relative paths in the file start from.
    pub(crate) base: PathBuf,
    pub(crate) lookup: &'a dyn Lookup,
    pub(crate) problems: &'a mut Vec<Problem>,
    /// The server whose entry is being read.
    server: Option<String>,
}

/// A map of the file read into a type.
pub(crate) struct Entry<T> {
    pub(crate) value: T,
    /// Whether every value in it could be read.
    pub(crate) sound: bool,
    /// The keys that the type does not have.
    pub(crate) extras: Map<String, Json>,
}

impl<'a> Cx<'a> {
    pub(crate) fn new(
        label: Arc<str>,
        dialect: Dialect,
        doc: &'a Doc,
        base: PathBuf,
        lookup: &'a dyn Lookup,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        Self { label, dialect, doc, base, lookup, problems, server: None }
    }

    /// Problems from here on are of this server.
    pub(crate) fn enter(&mut self, server: &str) {
        self.server = Some(server.to_string());
    }

    pub(crate) fn leave(&mut self) {
        self.server = None;
    }

    pub(crate) fn error(&mut self, node: NodeId, code: &str, text: impl Into<String>, fix: &str) {
        self.report(Severity::Error, node, code, text.into(), fix);
    }

    pub(crate) fn warning(&mut self, node: NodeId, code: &str, text: impl Into<String>, fix: &str) {
        self.report(Severity::Warning, node, code, text.into(), fix);
    }

    pub(crate) fn info(&mut self, node: NodeId, code: &str, text: impl Into<String>, fix: &str) {
        self.report(Severity::Info, node, code, text.into(), fix);
    }

    fn report(&mut self, severity: Severity, node: NodeId, code: &str, text: String, fix: &str) {
        let place = self.doc.place(node);
        let mut problem = Problem::new(severity, code, text)
            .at(&self.label, place, &self.doc.path(node))
            .fix(fix);
        problem.server.clone_from(&self.server);
        self.problems.push(problem);
    }

    /// Reads a map as a type; what is wrong or unknown in it becomes a problem.
    pub(crate) fn entry<T: DeserializeOwned + Default>(&mut self, node: NodeId) -> Entry<T> {
        let Reading { value, wrongs, unknown } = doc::read::<T>(self.doc, node);
        let sound = wrongs.is_empty();
        self.tell_wrongs(wrongs);
        let extras = self.tell_unknown(node, &unknown);
        Entry { value: value.unwrap_or_default(), sound, extras }
    }

    pub(crate) fn tell_wrongs(&mut self, wrongs: Vec<doc::Wrong>) {
        for wrong in wrongs {
            let node = wrong.node.unwrap_or(Doc::ROOT);
            let path = self.doc.path(node);
            let text =
                if path.is_empty() { wrong.text } else { format!("`{path}`: {}", wrong.text) };
            self.error(node, "value.invalid", text, "correct the value");
        }
    }

    /// Warns of keys that nobody reads; they are kept under their path below `node`.
    pub(crate) fn tell_unknown(&mut self, node: NodeId, unknown: &[Unknown]) -> Map<String, Json> {
        let above = self.doc.path(node);
        let mut extras = Map::new();
        for Unknown { map, key, known } in unknown {
            let Some(value) = self.doc.get(*map, key) else {
                continue;
            };
            let path = self.doc.path(*map);
            let below = path.strip_prefix(&above).unwrap_or(&path).trim_start_matches('.');
            let full = if below.is_empty() { key.clone() } else { format!("{below}.{key}") };
            extras.insert(full, self.doc.json(value));
            if !key.starts_with("x-") {
                self.unknown_key(*map, key, known);
            }
        }
        extras
    }

    pub(crate) fn unknown_key(&mut self, map: NodeId, key: &str, known: &[&str]) {
        let text = format!("unknown key `{}`; it has no effect", text::clip(key));
        let fix = match text::nearest(key, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "remove it, or check its spelling".to_string(),
        };
        let Some((written, value)) = self.doc.entries(map).iter().find(|(k, _)| k.name == key)
        else {
            return;
        };
        let place = self.doc.key_place(written);
        let mut problem = Problem::warning("key.unknown", text)
            .at(&self.label, place, &self.doc.path(*value))
            .fix(fix);
        problem.server.clone_from(&self.server);
        self.problems.push(problem);
    }

    /// Whether a server's entry is a map at all; tells where it is not.
    pub(crate) fn is_map(&mut self, node: NodeId, fix: &str) -> bool {
        let is_map = matches!(self.doc.kind(node), doc::Kind::Map(_));
        if !is_map {
            let found = doc::describe(self.doc, node);
            let text = format!("a server is a map, found {found}");
            self.error(node, "server.invalid", text, fix);
        }
        is_map
    }

    /// The entries of a map of servers: name, place and node of each.
    pub(crate) fn children(&self, node: NodeId) -> Vec<(String, NodeId)> {
        self.doc.entries(node).iter().map(|(key, value)| (key.name.clone(), *value)).collect()
    }

    /// A path of the file as an absolute one.
    pub(crate) fn absolute(&self, path: &str) -> PathBuf {
        normal(&self.base.join(path))
    }
}

/// A path without `.` and, where it can be told, without `..`.
pub(crate) fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(out.components().next_back(), Some(Component::Normal(_))) =>
            {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

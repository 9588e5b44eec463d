//! What a dialect has at hand while it reads one file: the tree, the world, and a list of problems.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::dialect::{self, Dialect};
use crate::doc::{self, Doc, NodeId, Reading, Unknown};
use crate::lookup::Lookup;
use crate::problem::{Problem, Severity};
use crate::text;

/// Of one file no more problems are told: nobody reads on, and each holds its path.
const MAX_PROBLEMS: usize = 1000;

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
    /// How many problems may still be told.
    left: usize,
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
        Self { label, dialect, doc, base, lookup, problems, server: None, left: MAX_PROBLEMS }
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
        let path = || self.doc.path(node);
        let problem = Problem::new(severity, code, text);
        self.tell(|cx| problem.at(&cx.label, place, &path()).fix(fix));
    }

    /// Adds a problem while there may be more.
    fn tell(&mut self, problem: impl FnOnce(&Self) -> Problem) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let mut problem = problem(self);
        problem.server.clone_from(&self.server);
        self.problems.push(problem);
        if self.left == 0 {
            let text = format!("there are more than {MAX_PROBLEMS} problems; the rest is not told");
            let problem = Problem::error("file.too_many_problems", text);
            let fix = "correct those above first";
            self.problems.push(problem.of(&self.label).fix(fix));
        }
    }

    /// Reads a map as a type; what is wrong or unknown in it becomes a problem.
    pub(crate) fn entry<T: DeserializeOwned + Default>(&mut self, node: NodeId) -> Entry<T> {
        let Reading { value, wrongs, unknown } = doc::read::<T>(self.doc, node);
        let sound = wrongs.is_empty();
        self.tell_wrongs(wrongs);
        let extras = self.tell_unknown(node, &unknown);
        Entry { value: value.unwrap_or_default(), sound, extras }
    }

    /// The same for a server's entry: mistakes in restricting keys make it unsound.
    pub(crate) fn server_entry<T: DeserializeOwned + Default>(&mut self, node: NodeId) -> Entry<T> {
        let Reading { value, wrongs, unknown } = doc::read::<T>(self.doc, node);
        let mut sound = wrongs.is_empty();
        self.tell_wrongs(wrongs);
        let (unknown, is_restricted) = dialect::reject_restricting(self, node, unknown);
        sound &= is_restricted;
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
        for Unknown { map, entry, key, known } in unknown {
            let Some((_, value)) = self.doc.entries(*map).get(*entry) else {
                continue;
            };
            let path = self.doc.path(*map);
            let below = path.strip_prefix(&above).unwrap_or(&path).trim_start_matches('.');
            let full = if below.is_empty() { key.clone() } else { format!("{below}.{key}") };
            extras.insert(full, self.doc.json(*value));
            if !key.starts_with("x-") {
                self.unknown_entry(*map, *entry, known);
            }
        }
        extras
    }

    /// Warns of one entry of a map that nobody reads.
    pub(crate) fn unknown_entry(&mut self, map: NodeId, entry: usize, known: &[&str]) {
        let Some((key, value)) = self.doc.entries(map).get(entry) else {
            return;
        };
        self.tell(|cx| {
            let name = text::clip(&key.name);
            let (text, fix) = match text::nearest(&key.name, known) {
                // Another key is missing then, which may well have an effect.
                Some(near) => (format!("unknown key `{name}`"), format!("did you mean `{near}`?")),
                None => (
                    format!("unknown key `{name}`; it has no effect"),
                    "remove it, or check its spelling".to_string(),
                ),
            };
            Problem::warning("key.unknown", text)
                .at(&cx.label, cx.doc.key_place(key), &cx.doc.path(*value))
                .fix(fix)
        });
    }

    /// Reports an unknown key that makes `what` invalid; `meant` is the key that was probably meant.
    pub(crate) fn invalid_key(
        &mut self,
        map: NodeId,
        entry: usize,
        what: &str,
        meant: Option<&str>,
    ) {
        let Some((key, value)) = self.doc.entries(map).get(entry) else {
            return;
        };
        self.tell(|cx| {
            let name = text::clip(&key.name);
            let text = format!("unknown key `{name}` may be meant to restrict; {what} is not used");
            let fix = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "remove it, or check its spelling and its place".to_string(),
            };
            Problem::error("key.unknown", text)
                .at(&cx.label, cx.doc.key_place(key), &cx.doc.path(*value))
                .fix(fix)
        });
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

//! Context of one file's compilation: the parsed document, the lookup and the problems.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::dialect::{self, Dialect};
use crate::doc::{self, Deserialized, Doc, NodeId, UnknownKey};
use crate::lookup::Lookup;
use crate::problem::{Problem, Severity};
use crate::text;

/// Maximum number of problems for one file, because each one holds its path.
const MAX_PROBLEMS: usize = 1000;

/// The file being compiled.
pub(crate) struct CompileContext<'a> {
    pub(crate) label: Arc<str>,
    pub(crate) dialect: Dialect,
    pub(crate) doc: &'a Doc,
    /// The folder that relative paths in the file start from.
    pub(crate) base: PathBuf,
    pub(crate) lookup: &'a dyn Lookup,
    pub(crate) problems: &'a mut Vec<Problem>,
    /// The server of the current entry.
    server: Option<String>,
    /// Number of problems that may still be added.
    remaining_problems: usize,
}

/// A map deserialized into a type.
pub(crate) struct Entry<T> {
    pub(crate) value: T,
    /// True if every value could be read.
    pub(crate) is_valid: bool,
    /// Keys that the type does not have.
    pub(crate) extras: Map<String, Json>,
}

impl<'a> CompileContext<'a> {
    pub(crate) fn new(
        label: Arc<str>,
        dialect: Dialect,
        doc: &'a Doc,
        base: PathBuf,
        lookup: &'a dyn Lookup,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        Self {
            label,
            dialect,
            doc,
            base,
            lookup,
            problems,
            server: None,
            remaining_problems: MAX_PROBLEMS,
        }
    }

    /// Assigns the following problems to this server.
    pub(crate) fn enter_server(&mut self, server: &str) {
        self.server = Some(server.to_string());
    }

    pub(crate) fn leave_server(&mut self) {
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
        let place = self.doc.location(node);
        let path = || self.doc.path(node);
        let problem = Problem::new(severity, code, text);
        self.push_problem(|cx| problem.at(&cx.label, place, &path()).fix(fix));
    }

    /// Adds a problem, up to the limit.
    fn push_problem(&mut self, problem: impl FnOnce(&Self) -> Problem) {
        if self.remaining_problems == 0 {
            return;
        }
        self.remaining_problems -= 1;
        let mut problem = problem(self);
        problem.server.clone_from(&self.server);
        self.problems.push(problem);
        if self.remaining_problems == 0 {
            let text = format!("there are more than {MAX_PROBLEMS} problems; the rest is omitted");
            let problem = Problem::error("file.too_many_problems", text);
            let fix = "correct those above first";
            self.problems.push(problem.in_source(&self.label).fix(fix));
        }
    }

    /// Deserializes a map. Errors and unknown keys become problems.
    pub(crate) fn read_entry<T: DeserializeOwned + Default>(&mut self, node: NodeId) -> Entry<T> {
        let Deserialized { value, errors, unknown } = doc::deserialize::<T>(self.doc, node);
        let is_valid = errors.is_empty();
        self.report_value_errors(errors);
        let extras = self.report_unknown_keys(node, &unknown);
        Entry { value: value.unwrap_or_default(), is_valid, extras }
    }

    /// Like [`Self::read_entry`] for a server's entry. Mistakes in restricting keys make the entry invalid.
    pub(crate) fn read_server_entry<T: DeserializeOwned + Default>(
        &mut self,
        node: NodeId,
    ) -> Entry<T> {
        let Deserialized { value, errors, unknown } = doc::deserialize::<T>(self.doc, node);
        let mut is_valid = errors.is_empty();
        self.report_value_errors(errors);
        let (unknown, is_restricted) = dialect::report_restricting_mistakes(self, node, unknown);
        is_valid &= is_restricted;
        let extras = self.report_unknown_keys(node, &unknown);
        Entry { value: value.unwrap_or_default(), is_valid, extras }
    }

    pub(crate) fn report_value_errors(&mut self, errors: Vec<doc::ValueError>) {
        for error in errors {
            let node = error.node.unwrap_or(Doc::ROOT);
            let path = self.doc.path(node);
            let text =
                if path.is_empty() { error.text } else { format!("`{path}`: {}", error.text) };
            self.error(node, "value.invalid", text, "correct the value");
        }
    }

    /// Warns of unknown keys and returns them by their path below `node`.
    pub(crate) fn report_unknown_keys(
        &mut self,
        node: NodeId,
        unknown: &[UnknownKey],
    ) -> Map<String, Json> {
        let above = self.doc.path(node);
        let mut extras = Map::new();
        for UnknownKey { map, entry, key, known } in unknown {
            let Some((_, value)) = self.doc.entries(*map).get(*entry) else {
                continue;
            };
            let path = self.doc.path(*map);
            let below = path.strip_prefix(&above).unwrap_or(&path).trim_start_matches('.');
            let full = if below.is_empty() { key.clone() } else { format!("{below}.{key}") };
            extras.insert(full, self.doc.json(*value));
            if !key.starts_with("x-") {
                self.report_unknown_key(*map, *entry, known);
            }
        }
        extras
    }

    /// Warns of one unknown key.
    pub(crate) fn report_unknown_key(&mut self, map: NodeId, entry: usize, known: &[&str]) {
        let Some((key, value)) = self.doc.entries(map).get(entry) else {
            return;
        };
        self.push_problem(|cx| {
            let name = text::clip(&key.name);
            let (text, fix) = match text::nearest_word(&key.name, known) {
                // The intended key is missing, so the message must not say that there is no effect.
                Some(near) => (format!("unknown key `{name}`"), format!("did you mean `{near}`?")),
                None => (
                    format!("unknown key `{name}`; it has no effect"),
                    "remove it, or check its spelling".to_string(),
                ),
            };
            Problem::warning("key.unknown", text)
                .at(&cx.label, cx.doc.key_location(key), &cx.doc.path(*value))
                .fix(fix)
        });
    }

    /// Reports an unknown key that makes `what` invalid. `meant` is the key that was probably intended.
    pub(crate) fn report_restricting_key(
        &mut self,
        map: NodeId,
        entry: usize,
        what: &str,
        meant: Option<&str>,
    ) {
        let Some((key, value)) = self.doc.entries(map).get(entry) else {
            return;
        };
        self.push_problem(|cx| {
            let name = text::clip(&key.name);
            let text = format!("unknown key `{name}` may be meant to restrict; {what} is not used");
            let fix = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "remove it, or check its spelling and its place".to_string(),
            };
            Problem::error("key.unknown", text)
                .at(&cx.label, cx.doc.key_location(key), &cx.doc.path(*value))
                .fix(fix)
        });
    }

    /// Reports a server's entry that is not a map, and returns whether it is one.
    pub(crate) fn check_is_map(&mut self, node: NodeId, fix: &str) -> bool {
        let is_map = matches!(self.doc.kind(node), doc::NodeKind::Map(_));
        if !is_map {
            let found = doc::describe_node(self.doc, node);
            let text = format!("a server is a map, found {found}");
            self.error(node, "server.invalid", text, fix);
        }
        is_map
    }

    /// Returns the name and the node of each entry of a map.
    pub(crate) fn map_entries(&self, node: NodeId) -> Vec<(String, NodeId)> {
        self.doc.entries(node).iter().map(|(key, value)| (key.name.clone(), *value)).collect()
    }

    /// Makes a path of the file absolute.
    pub(crate) fn absolute_path(&self, path: &str) -> PathBuf {
        normalize_path(&self.base.join(path))
    }
}

/// Removes `.` and, where possible, `..` from a path.
pub(crate) fn normalize_path(path: &Path) -> PathBuf {
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

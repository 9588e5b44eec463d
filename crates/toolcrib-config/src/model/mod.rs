//! The one model that every dialect compiles to.

pub mod auth;
pub mod choice;
mod digest;
pub mod filter;
pub mod free;
pub mod host;
pub mod naming;
pub mod policy;
mod server;
pub mod setting;
pub mod transport;
pub mod units;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

pub use server::{Hash, Origin, Origins, ServerSpec, Standing};
pub(crate) use server::{ProfileOrigins, ancestors, to_json};

use crate::dialect::Dialect;
use crate::doc::{Doc, Lines};
use crate::problem::Problem;
use host::{Gateway, Host, Input};

/// Everything that was configured, and everything that is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub sources: Vec<Source>,
    pub host: Host,
    pub gateway: Gateway,
    /// Values that a person is asked for, by name.
    pub inputs: IndexMap<String, Input>,
    /// In load order: files one after another, servers as they stand in their file.
    pub servers: Vec<ServerSpec>,
    /// Servers in whose place another one stands.
    pub(crate) shadowed: Vec<ServerSpec>,
    /// Servers that stand in a file and are not among the above.
    pub rejected: Vec<Rejected>,
    pub problems: Vec<Problem>,
    /// What the person's own files say, where others were found besides.
    pub(crate) own: Option<Box<Own>>,
    /// Where the values of `host` and `gateway` came from, by native path.
    pub(crate) origins: BTreeMap<String, Origin>,
    /// Every file that was looked for, there or not: all of them are to be watched.
    pub depends: Vec<PathBuf>,
}

/// What is said of the host, and by whom.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) host: Host,
    pub(crate) gateway: Gateway,
    pub(crate) inputs: IndexMap<String, Input>,
    pub(crate) origins: BTreeMap<String, Origin>,
}

/// One file.
#[derive(Clone, Debug)]
pub struct Source {
    /// How the file is called in problems and keys: relative to the root where it is below it.
    pub label: Arc<str>,
    pub path: PathBuf,
    pub dialect: Dialect,
    pub outcome: Outcome,
    /// Whether it was found in a folder: neither is it the person's own, nor did they name it.
    pub found: bool,
    /// The text, for excerpts.
    pub lines: Lines,
    pub(crate) doc: Option<Arc<Doc>>,
}

/// How reading a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Loaded,
    /// Nothing of it counts; what an earlier reading gave goes on.
    Rejected,
    /// Nothing of it counts, and what an earlier reading gave ends.
    Failed,
}

/// A server that its file declares and that cannot be used as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub id: String,
    pub source: Arc<str>,
    /// Whether an instance from an earlier reading goes on.
    pub keep_last_good: bool,
}

impl Config {
    /// A server by its key `<source>#<id>`, or by its id where only one server has it. One that waits for trust is
    /// not in the way of one that does not.
    pub fn server(&self, name: &str) -> Option<&ServerSpec> {
        let by_id = || self.servers.iter().filter(|server| server.id == name);
        only(by_id().filter(|server| !server.is_withheld()))
            .or_else(|| only(by_id()))
            .or_else(|| self.servers.iter().find(|server| server.key() == name))
    }

    /// Whether something in it could not be used as it is written, so that what was good before goes on.
    pub fn keeps_last_good(&self) -> bool {
        let is_rejected = |source: &Source| source.outcome == Outcome::Rejected;
        self.sources.iter().any(is_rejected) || self.rejected.iter().any(|it| it.keep_last_good)
    }

    /// Where a file was rejected, what an earlier reading said of the host goes on: nobody gains or loses a right
    /// by a slip of the pen. Where there was none, what can be read counts: a broken file that was only found must not
    /// undo what the person's own says.
    pub fn keep_host_of(&mut self, old: &Config) {
        let was_read = !old.sources.is_empty();
        if was_read && self.sources.iter().any(|source| source.outcome == Outcome::Rejected) {
            self.say_of_host(old.of_host());
        }
    }

    /// What it says of the host.
    pub(crate) fn of_host(&self) -> Own {
        Own {
            host: self.host.clone(),
            gateway: self.gateway.clone(),
            inputs: self.inputs.clone(),
            origins: self.origins.clone(),
        }
    }

    pub(crate) fn say_of_host(&mut self, said: Own) {
        Own {
            host: self.host,
            gateway: self.gateway,
            inputs: self.inputs,
            origins: self.origins,
        } = said;
    }

    /// What it says of the host does not count.
    pub fn forget_host(&mut self) {
        let Config { host, gateway, inputs, origins, .. } = Config::default();
        self.say_of_host(Own { host, gateway, inputs, origins });
        self.own = None;
    }

    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    pub fn source(&self, label: &str) -> Option<&Source> {
        self.sources.iter().find(|source| &*source.label == label)
    }
}

fn only<'a>(mut all: impl Iterator<Item = &'a ServerSpec>) -> Option<&'a ServerSpec> {
    all.next().filter(|_| all.next().is_none())
}

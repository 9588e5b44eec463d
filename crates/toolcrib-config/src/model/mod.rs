//! The one model that every dialect compiles to.

pub mod auth;
pub mod choice;
mod digest;
pub mod filter;
pub mod free;
pub mod host;
pub mod naming;
pub mod policy;
pub mod security;
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
use security::{Protection, Section, Security};

/// Everything that was configured, and everything that is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub sources: Vec<Source>,
    pub host: Host,
    pub gateway: Gateway,
    /// Which security sections are valid, and who may come in.
    pub security: Security,
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
    pub(crate) security: Security,
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

    /// Replaces invalid security sections by those of an earlier configuration, each section alone. After a native
    /// file that cannot be read, everything that the earlier configuration says of the host stays. Without an earlier
    /// configuration the invalid sections stay closed.
    pub fn keep_host_of(&mut self, old: &Config) {
        if old.sources.is_empty() {
            return;
        }
        let is_unreadable = |source: &Source| {
            source.dialect == Dialect::Native && source.outcome == Outcome::Rejected
        };
        let invalid = std::mem::take(&mut self.security.invalid);
        if self.sources.iter().any(is_unreadable) {
            self.say_of_host(old.of_host());
        } else {
            for section in invalid.keys() {
                self.keep_section(*section, old);
            }
            self.keep_protection_of_missing_file(old);
        }
        self.problems.retain(|problem| problem.code != security::CLOSED);
        let (closed, mut kept) = (&self.security.invalid, invalid);
        kept.retain(|section, _| !closed.contains_key(section));
        self.problems.extend(security::closed(closed));
        self.problems.extend(security::kept(&kept));
    }

    fn keep_section(&mut self, section: Section, old: &Config) {
        match section {
            Section::Gateway => self.keep_gateway(old),
            Section::Spawn | Section::Network | Section::Docker => {
                self.host.permissions = old.host.permissions.clone();
                // A section is kept whole, with the permissions that were invalid before.
                let old = &old.security.invalid;
                for permission in Section::PERMISSIONS {
                    let fault = old.get(&permission).cloned();
                    self.security.invalid.extend(fault.map(|fault| (permission, fault)));
                }
                return;
            }
            Section::Grants => {
                self.host.grants = old.host.grants.clone();
                self.keep_origins(old, "host.grants");
            }
            Section::Pins => self.host.pins = old.host.pins,
            Section::Secrets => self.host.secrets = old.host.secrets.clone(),
        }
        let fault = old.security.invalid.get(&section).cloned();
        self.security.invalid.extend(fault.map(|fault| (section, fault)));
    }

    fn keep_gateway(&mut self, old: &Config) {
        self.gateway = old.gateway.clone();
        self.security.protection = old.security.protection;
        self.keep_origins(old, "gateway");
    }

    fn keep_origins(&mut self, old: &Config, section: &str) {
        let is_of = |path: &str| {
            path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.origins.retain(|path, _| !is_of(path));
        let kept = old.origins.iter().filter(|(path, _)| is_of(path));
        self.origins.extend(kept.map(|(path, origin)| (path.clone(), origin.clone())));
    }

    /// A protected gateway is opened by a file that says so, never by a file that is gone: an editor that replaces a
    /// file removes it for a moment.
    fn keep_protection_of_missing_file(&mut self, old: &Config) {
        use Protection::{Open, Protected};
        if (old.security.protection, self.security.protection) != (Protected, Open) {
            return;
        }
        let protects = |path: &str| path == "gateway.tokens" || path == "gateway.oauth.issuer";
        let missing = old.origins.iter().find_map(|(path, origin)| match origin {
            Origin::File { source, .. } if protects(path) && self.source(source).is_none() => {
                Some(source.clone())
            }
            _ => None,
        });
        let Some(source) = missing else { return };
        self.keep_gateway(old);
        let text =
            format!("`{source}` protected the gateway and is gone; the gateway stays protected");
        let fix = "restore the file, or write one that says otherwise, or restart the host";
        self.problems.push(Problem::warning(security::KEPT, text).of(&source).fix(fix));
    }

    /// What it says of the host.
    pub(crate) fn of_host(&self) -> Own {
        Own {
            host: self.host.clone(),
            gateway: self.gateway.clone(),
            security: self.security.clone(),
            inputs: self.inputs.clone(),
            origins: self.origins.clone(),
        }
    }

    pub(crate) fn say_of_host(&mut self, said: Own) {
        Own {
            host: self.host,
            gateway: self.gateway,
            security: self.security,
            inputs: self.inputs,
            origins: self.origins,
        } = said;
    }

    /// What it says of the host does not count.
    pub fn forget_host(&mut self) {
        let Config { host, gateway, security: state, inputs, origins, .. } = Config::default();
        self.say_of_host(Own { host, gateway, security: state, inputs, origins });
        self.problems.retain(|problem| problem.code != security::CLOSED);
        self.own = None;
    }

    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    /// The file that ends the start: it cannot be used, its format fails as a whole then, and there is no other file
    /// that can be used (C19 of the dialects).
    pub fn failed_load(&self) -> Option<&Source> {
        let is_fatal =
            |source: &Source| source.outcome == Outcome::Failed && source.dialect.fails_load();
        self.sources.first().filter(|_| self.sources.iter().all(is_fatal))
    }

    pub fn source(&self, label: &str) -> Option<&Source> {
        self.sources.iter().find(|source| &*source.label == label)
    }
}

fn only<'a>(mut all: impl Iterator<Item = &'a ServerSpec>) -> Option<&'a ServerSpec> {
    all.next().filter(|_| all.next().is_none())
}

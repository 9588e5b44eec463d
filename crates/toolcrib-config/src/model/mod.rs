//! The model that every dialect compiles to.

pub mod auth;
mod canonical_encoding;
pub mod choice;
pub mod filter;
pub mod freeform;
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

pub use server::{ConfigHash, OriginMap, ServerSpec, ServerTrust, ValueOrigin};
pub(crate) use server::{ProfileOrigins, ancestors, to_json};

use crate::dialect::Dialect;
use crate::doc::{Doc, LineIndex};
use crate::problem::Problem;
use host::{GatewaySettings, HostSettings, InputSpec};
use security::{GatewayProtection, Security, SecuritySection};

/// The compiled configuration and its problems.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The files that were read, in load order.
    pub sources: Vec<ConfigSource>,
    /// Settings of the host.
    pub host: HostSettings,
    /// Settings of the gateway.
    pub gateway: GatewaySettings,
    /// The state of the security sections.
    pub security: Security,
    /// Values that the user is asked for, by name.
    pub inputs: IndexMap<String, InputSpec>,
    /// In load order: by file, then by position in the file.
    pub servers: Vec<ServerSpec>,
    /// Servers that another server shadows.
    pub(crate) shadowed: Vec<ServerSpec>,
    /// Servers of a file that are invalid and not in `servers`.
    pub rejected: Vec<RejectedServer>,
    /// All problems of the configuration.
    pub problems: Vec<Problem>,
    /// The global settings of the user's own files, if other files were discovered as well.
    pub(crate) user_settings: Option<Box<GlobalSettings>>,
    /// Origins of the values of `host` and `gateway`, by native path.
    pub(crate) origins: BTreeMap<String, ValueOrigin>,
    /// Every file that was looked for, existing or not. All of them are to be watched.
    pub depends: Vec<PathBuf>,
}

/// The settings that belong to no single server.
#[derive(Clone, Debug)]
pub(crate) struct GlobalSettings {
    pub(crate) host: HostSettings,
    pub(crate) gateway: GatewaySettings,
    pub(crate) security: Security,
    pub(crate) inputs: IndexMap<String, InputSpec>,
    pub(crate) origins: BTreeMap<String, ValueOrigin>,
}

/// One file that was read.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// The file's name in problems and keys: relative to the root if it is below the root.
    pub label: Arc<str>,
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The dialect of the file.
    pub dialect: Dialect,
    /// The result of reading the file.
    pub outcome: SourceOutcome,
    /// True if the file was discovered: neither the user's own nor named by the user.
    pub is_discovered: bool,
    /// The text, for excerpts.
    pub line_index: LineIndex,
    pub(crate) doc: Option<Arc<Doc>>,
}

/// Result of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceOutcome {
    /// The file was read. Some of its servers may be invalid.
    Loaded,
    /// The file is ignored, and its earlier servers continue.
    Rejected,
    /// The file is ignored, and its earlier servers stop.
    Failed,
}

/// A server that its file declares and that is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedServer {
    /// The id of the server.
    pub id: String,
    /// The label of its file.
    pub source: Arc<str>,
    /// True if a running instance continues.
    pub keep_last_good: bool,
}

impl Config {
    /// Finds a server by its key `<source>#<id>`, or by its id if only one server has it. Withheld servers do not make
    /// an id ambiguous.
    pub fn server(&self, name: &str) -> Option<&ServerSpec> {
        let by_id = || self.servers.iter().filter(|server| server.id == name);
        exactly_one(by_id().filter(|server| !server.is_withheld()))
            .or_else(|| exactly_one(by_id()))
            .or_else(|| self.servers.iter().find(|server| server.key() == name))
    }

    /// Returns whether something is invalid, so that its last good version continues.
    pub fn keeps_last_good(&self) -> bool {
        let is_rejected = |source: &ConfigSource| source.outcome == SourceOutcome::Rejected;
        self.sources.iter().any(is_rejected) || self.rejected.iter().any(|it| it.keep_last_good)
    }

    /// Replaces each invalid security section by that of an earlier configuration. If a native file is unreadable, all
    /// global settings of the earlier configuration stay. Without an earlier configuration the invalid sections stay
    /// closed.
    pub fn keep_global_settings(&mut self, old: &Config) {
        if old.sources.is_empty() {
            return;
        }
        let is_unreadable = |source: &ConfigSource| {
            source.dialect == Dialect::Native && source.outcome == SourceOutcome::Rejected
        };
        let invalid = std::mem::take(&mut self.security.invalid);
        if self.sources.iter().any(is_unreadable) {
            self.set_global_settings(old.global_settings());
        } else {
            for section in invalid.keys() {
                self.keep_section(*section, old);
            }
            self.keep_protection_of_missing_file(old);
        }
        self.problems.retain(|problem| problem.code != security::CLOSED);
        let (closed, mut kept) = (&self.security.invalid, invalid);
        kept.retain(|section, _| !closed.contains_key(section));
        self.problems.extend(security::closed_problems(closed));
        self.problems.extend(security::kept_problems(&kept));
    }

    fn keep_section(&mut self, section: SecuritySection, old: &Config) {
        match section {
            SecuritySection::Gateway => self.keep_gateway(old),
            SecuritySection::Spawn | SecuritySection::Network | SecuritySection::Docker => {
                self.host.permissions = old.host.permissions.clone();
                // The permissions are kept as one section, including those that were invalid before.
                let old = &old.security.invalid;
                for permission in SecuritySection::PERMISSIONS {
                    let fault = old.get(&permission).cloned();
                    self.security.invalid.extend(fault.map(|fault| (permission, fault)));
                }
                return;
            }
            SecuritySection::Grants => {
                self.host.grants = old.host.grants.clone();
                self.keep_origins(old, "host.grants");
            }
            SecuritySection::Pins => self.host.pins = old.host.pins,
            SecuritySection::Secrets => self.host.secrets = old.host.secrets.clone(),
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

    /// Keeps a gateway protected if the protecting file is gone. Only an existing file removes the protection, because
    /// an editor that replaces a file removes it briefly.
    fn keep_protection_of_missing_file(&mut self, old: &Config) {
        use GatewayProtection::{Open, Protected};
        if (old.security.protection, self.security.protection) != (Protected, Open) {
            return;
        }
        let protects = |path: &str| path == "gateway.tokens" || path == "gateway.oauth.issuer";
        let missing = old.origins.iter().find_map(|(path, origin)| match origin {
            ValueOrigin::File { source, .. } if protects(path) && self.source(source).is_none() => {
                Some(source.clone())
            }
            _ => None,
        });
        let Some(source) = missing else { return };
        self.keep_gateway(old);
        let text =
            format!("`{source}` protected the gateway and is gone; the gateway stays protected");
        let fix = "restore the file, or write one without protection, or restart the host";
        self.problems.push(Problem::warning(security::KEPT, text).in_source(&source).fix(fix));
    }

    /// Returns the global settings.
    pub(crate) fn global_settings(&self) -> GlobalSettings {
        GlobalSettings {
            host: self.host.clone(),
            gateway: self.gateway.clone(),
            security: self.security.clone(),
            inputs: self.inputs.clone(),
            origins: self.origins.clone(),
        }
    }

    pub(crate) fn set_global_settings(&mut self, settings: GlobalSettings) {
        GlobalSettings {
            host: self.host,
            gateway: self.gateway,
            security: self.security,
            inputs: self.inputs,
            origins: self.origins,
        } = settings;
    }

    /// Resets the global settings to their defaults.
    pub fn reset_global_settings(&mut self) {
        let Config { host, gateway, security: state, inputs, origins, .. } = Config::default();
        self.set_global_settings(GlobalSettings {
            host,
            gateway,
            security: state,
            inputs,
            origins,
        });
        self.problems.retain(|problem| problem.code != security::CLOSED);
        self.user_settings = None;
    }

    /// Returns whether a problem is an error.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    /// Returns the file that makes the start fail: the file is invalid, its format fails as a whole, and no other file
    /// is usable (C19 of the dialects).
    pub fn failed_load(&self) -> Option<&ConfigSource> {
        let is_fatal = |source: &ConfigSource| {
            source.outcome == SourceOutcome::Failed && source.dialect.fails_whole_file()
        };
        self.sources.first().filter(|_| self.sources.iter().all(is_fatal))
    }

    /// Finds a file by its label.
    pub fn source(&self, label: &str) -> Option<&ConfigSource> {
        self.sources.iter().find(|source| &*source.label == label)
    }
}

fn exactly_one<'a>(mut all: impl Iterator<Item = &'a ServerSpec>) -> Option<&'a ServerSpec> {
    all.next().filter(|_| all.next().is_none())
}

//! A server as the registry knows it.

use std::fmt;
use std::sync::Arc;

use toolcrib_config::ServerSpec;

use super::claims::Holder;
use super::input::{Presence, Scope};

/// One server of a snapshot.
#[derive(Debug, Clone)]
pub struct Server {
    pub spec: Arc<ServerSpec>,
    /// Unique over all files.
    pub key: Arc<str>,
    pub scope: Scope,
    pub presence: Presence,
    /// Why nothing of it is offered, if it was refused.
    pub refusal: Option<Refusal>,
    /// Whether it has listed what it offers, now or earlier.
    pub is_discovered: bool,
    /// The lists are of an earlier run.
    pub from_cache: bool,
}

/// Why nothing of a server is offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("failed to register toolset {name}: {holder}")]
    Toolset { name: String, holder: Holder },
    #[error("failed to register tool {name}: {holder}")]
    Tool {
        /// The server's own name for the tool.
        tool: String,
        name: String,
        holder: Holder,
    },
    #[error("no tools found on server: {server}")]
    NoTools { server: String },
}

/// How a declared server is doing, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Loaded,
    TemporarilyUnavailable,
    ConfigInvalid,
    Disabled,
}

impl Server {
    pub fn id(&self) -> &str {
        &self.spec.id
    }

    /// Whether this is the server that somebody means by an id or a key.
    pub fn is_called(&self, name: &str) -> bool {
        self.spec.id == name || &*self.key == name
    }

    pub fn status(&self) -> Status {
        match (self.presence, &self.refusal) {
            (Presence::Disabled, _) => Status::Disabled,
            (_, Some(_)) => Status::ConfigInvalid,
            (Presence::Up, None) if self.is_discovered => Status::Loaded,
            (Presence::Up | Presence::Away, None) => Status::TemporarilyUnavailable,
        }
    }
}

impl Refusal {
    /// The native key of the rule that decided.
    pub fn rule(&self) -> &'static str {
        match self {
            Refusal::Toolset { .. } => "toolset",
            Refusal::Tool { .. } => "naming.on_collision",
            Refusal::NoTools { .. } => "discovery.require_tools",
        }
    }
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Loaded => "loaded",
            Status::TemporarilyUnavailable => "temporarily_unavailable",
            Status::ConfigInvalid => "config_invalid",
            Status::Disabled => "disabled",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

//! A server in the registry.

use std::fmt;
use std::sync::Arc;

use toolcrib_config::ServerSpec;

use super::name_claims::NameHolder;
use super::plan_input::{Presence, Scope};

/// One server of a snapshot.
#[derive(Debug, Clone)]
pub struct RegisteredServer {
    /// The server's configuration.
    pub spec: Arc<ServerSpec>,
    /// Unique across all files.
    pub key: Arc<str>,
    /// The dialogs that see the server.
    pub scope: Scope,
    /// The server's presence.
    pub presence: Presence,
    /// The reason for refusing the whole server, if it was refused.
    pub refusal: Option<ServerRefusal>,
    /// True if the server's lists are known, from now or an earlier run.
    pub is_discovered: bool,
    /// True if the lists are from an earlier run.
    pub from_cache: bool,
}

/// The reason for offering nothing of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerRefusal {
    /// The name of the toolset is taken.
    #[error("failed to register toolset {name}: the name is {holder}")]
    Toolset {
        /// The name that is taken.
        name: String,
        /// The holder of the name.
        holder: NameHolder,
    },
    /// The name of a tool is taken, and the policy refuses the whole server.
    #[error("failed to register tool {name}: the name is {holder}")]
    Tool {
        /// The server's own name for the tool.
        tool: String,
        /// The name that is taken.
        name: String,
        /// The holder of the name.
        holder: NameHolder,
    },
    /// The server has no tools, but the policy requires some.
    #[error("no tools found on server: {server}")]
    NoTools {
        /// The server's id.
        server: String,
    },
}

/// The state of a configured server in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationStatus {
    /// The server is connected and its lists are known.
    Loaded,
    /// The server is unavailable, or its lists are not known yet.
    TemporarilyUnavailable,
    /// The server was refused.
    ConfigInvalid,
    /// The server is disabled.
    Disabled,
}

impl RegisteredServer {
    /// The server's id.
    pub fn id(&self) -> &str {
        &self.spec.id
    }

    /// Returns whether an id or key refers to this server.
    pub fn matches_name(&self, name: &str) -> bool {
        self.spec.id == name || &*self.key == name
    }

    /// Returns the state of the server.
    pub fn status(&self) -> RegistrationStatus {
        match (self.presence, &self.refusal) {
            (Presence::Disabled, _) => RegistrationStatus::Disabled,
            (_, Some(_)) => RegistrationStatus::ConfigInvalid,
            (Presence::Up, None) if self.is_discovered => RegistrationStatus::Loaded,
            (Presence::Up | Presence::Away, None) => RegistrationStatus::TemporarilyUnavailable,
        }
    }
}

impl ServerRefusal {
    /// Returns the native key of the rule that decided.
    pub fn rule(&self) -> &'static str {
        match self {
            ServerRefusal::Toolset { .. } => "toolset",
            ServerRefusal::Tool { .. } => "naming.on_collision",
            ServerRefusal::NoTools { .. } => "discovery.require_tools",
        }
    }
}

impl RegistrationStatus {
    /// Returns the name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            RegistrationStatus::Loaded => "loaded",
            RegistrationStatus::TemporarilyUnavailable => "temporarily_unavailable",
            RegistrationStatus::ConfigInvalid => "config_invalid",
            RegistrationStatus::Disabled => "disabled",
        }
    }
}

impl fmt::Display for RegistrationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

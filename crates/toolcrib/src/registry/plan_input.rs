//! The inputs of a plan.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::OnUnavailable;
use toolcrib_upstream::schema::InvalidSchema;
use toolcrib_wire::view::{PromptView, ResourceTemplateView, ResourceView, ToolView};

use super::native::NativeToolset;
use super::tool::Availability;

/// The inputs of a plan.
#[derive(Debug, Clone, Default)]
pub struct PlanInput<'a> {
    /// The number of the new snapshot.
    pub version: u64,
    /// The native toolsets of the embedding program. They come first, and nothing displaces them.
    pub native: &'a [NativeToolset],
    /// Tool names from `host.reserved_tools`, which no server may use.
    pub reserved_tools: &'a [String],
    /// Toolset names from `host.reserved_toolsets`, which no server may use.
    pub reserved_toolsets: &'a [String],
    /// Servers in load order of their files, then in file order.
    pub servers: Vec<ServerInput<'a>>,
}

/// One server and its current state.
#[derive(Debug, Clone)]
pub struct ServerInput<'a> {
    /// The server's configuration.
    pub spec: Arc<ServerSpec>,
    /// The dialogs that see the server.
    pub scope: Scope,
    /// The server's presence.
    pub presence: Presence,
    /// The server's lists. `None` if they are not known yet.
    pub lists: Option<ServerLists<'a>>,
}

/// The lists of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerLists<'a> {
    /// The listed tools.
    pub tools: &'a [ToolView],
    /// The listed prompts.
    pub prompts: &'a [PromptView],
    /// The listed resources.
    pub resources: &'a [ResourceView],
    /// The listed resource templates.
    pub templates: &'a [ResourceTemplateView],
    /// Tools whose definitions differ from the accepted ones. They are withheld until they are accepted.
    pub unaccepted: Option<&'a HashSet<String>>,
    /// Tools with an invalid JSON Schema.
    pub invalid: &'a [InvalidSchema],
    /// Tools that are withheld because `limits.pins` leaves no room to store their definitions.
    pub unpinned: Option<&'a HashSet<String>>,
    /// True if the lists are from an earlier run of the server.
    pub from_cache: bool,
}

/// Presence of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The server is connected, or a call starts it.
    Up,
    /// The server is unavailable, and its grace time is over.
    Away,
    /// The server is disabled.
    Disabled,
}

/// The dialogs that see a server. A dialog sees global servers and those of its own working directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All dialogs.
    Global,
    /// Dialogs with this working directory.
    Cwd(PathBuf),
}

impl ServerInput<'_> {
    pub(super) fn is_enabled(&self) -> bool {
        self.presence != Presence::Disabled
    }

    /// Returns the availability of the server's items. `None` if they are not registered.
    pub(super) fn availability(&self) -> Option<Availability> {
        match (self.presence, self.spec.policy.availability.on_unavailable) {
            (Presence::Up, _) => Some(Availability::Ready),
            (Presence::Away, OnUnavailable::Keep) => Some(Availability::Away),
            (Presence::Away, OnUnavailable::Hide) => Some(Availability::Hidden),
            (Presence::Away, OnUnavailable::Unregister) | (Presence::Disabled, _) => None,
        }
    }
}

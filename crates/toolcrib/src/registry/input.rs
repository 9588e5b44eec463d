//! Everything that a plan depends on.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::OnUnavailable;
use toolcrib_upstream::schema::InvalidSchema;
use toolcrib_wire::view::{Prompt, Resource, ResourceTemplate, Tool};

use super::native::NativeToolset;
use super::tool::Standing;

#[derive(Debug, Clone, Default)]
pub struct Input<'a> {
    /// The number of the snapshot to be made.
    pub version: u64,
    /// What the embedding program registered. It comes first, and nothing displaces it.
    pub native: &'a [NativeToolset],
    /// Names that no server may take: `host.reserved_tools` and `host.reserved_toolsets`.
    pub reserved_tools: &'a [String],
    pub reserved_toolsets: &'a [String],
    /// Files in load order, servers as they stand in their file.
    pub servers: Vec<Upstream<'a>>,
}

/// One server and what is known of it now.
#[derive(Debug, Clone)]
pub struct Upstream<'a> {
    pub spec: Arc<ServerSpec>,
    pub scope: Scope,
    pub presence: Presence,
    /// What it listed; nothing while that is not known.
    pub offer: Option<Offer<'a>>,
}

/// The lists of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offer<'a> {
    pub tools: &'a [Tool],
    pub prompts: &'a [Prompt],
    pub resources: &'a [Resource],
    pub templates: &'a [ResourceTemplate],
    /// Tools whose definition is not the one that was accepted, and that nobody gets until it is.
    pub unaccepted: Option<&'a HashSet<String>>,
    /// Tools whose schema is no JSON Schema.
    pub invalid: &'a [InvalidSchema],
    /// Tools that are withheld because `limits.pins` leaves no room to remember their definitions.
    pub unpinned: Option<&'a HashSet<String>>,
    /// The lists are of an earlier run of the server.
    pub from_cache: bool,
}

/// Whether a server can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is there, or a call brings it up.
    Up,
    /// It is gone, and its time of grace is over.
    Away,
    /// Somebody switched it off.
    Disabled,
}

/// Which conversations see a server. One sees what is global and what is of its own working directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Global,
    Cwd(PathBuf),
}

impl Upstream<'_> {
    pub(super) fn is_enabled(&self) -> bool {
        self.presence != Presence::Disabled
    }

    /// What its items are; none where they are not registered at all.
    pub(super) fn standing(&self) -> Option<Standing> {
        match (self.presence, self.spec.policy.availability.on_unavailable) {
            (Presence::Up, _) => Some(Standing::Ready),
            (Presence::Away, OnUnavailable::Keep) => Some(Standing::Away),
            (Presence::Away, OnUnavailable::Hide) => Some(Standing::Hidden),
            (Presence::Away, OnUnavailable::Unregister) | (Presence::Disabled, _) => None,
        }
    }
}

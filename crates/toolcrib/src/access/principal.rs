//! The identity of a caller. Authentication has happened before the value is made.

use std::sync::Arc;

/// The agent of all callers without an identity of their own. It needs no grants unless the configuration names it.
pub const DEFAULT_AGENT: &str = "default";

/// The identity of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The agent of the caller.
    pub agent: Arc<str>,
    /// True if the caller owns this host. Permissions for tools depend only on the agent.
    pub owner: bool,
    /// The dialog of the caller.
    pub dialog: Option<Arc<str>>,
}

impl Principal {
    /// Returns the principal of a caller without credentials.
    pub fn unidentified() -> Self {
        Self { agent: DEFAULT_AGENT.into(), owner: false, dialog: None }
    }

    /// Returns whether the caller may see a dialog of this agent. Other dialogs do not exist for the caller.
    pub fn can_see_dialogs_of(&self, agent: &str) -> bool {
        self.owner || *self.agent == *agent
    }
}

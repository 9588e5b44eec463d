//! Who asks, as a plain value: whether it is true was decided before it was made.

use std::sync::Arc;

/// Everybody who was not told apart from others. It needs no grants unless the configuration names it.
pub const DEFAULT_AGENT: &str = "default";

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    pub agent: Arc<str>,
    /// The person whose host this is. It says nothing about tools: those go by the agent.
    pub owner: bool,
    pub dialog: Option<Arc<str>>,
}

impl Principal {
    /// Somebody who named nobody.
    pub fn anybody() -> Self {
        Self { agent: DEFAULT_AGENT.into(), owner: false, dialog: None }
    }

    /// Whether a dialog of that agent is any of theirs. To others it does not exist.
    pub fn sees_dialogs_of(&self, agent: &str) -> bool {
        self.owner || *self.agent == *agent
    }
}

//! What one agent may use of one toolset, worked out once, so that long lists need only look things up.

use std::collections::HashSet;

use super::asked::Toolset;
use super::grants::{Attached, Grants, Ground};

/// The grant gate for one agent and one toolset. It stays true as long as the configuration and the agent's
/// attachments do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    granted: Granted,
    /// Tools for which the agent lacks a capability that they need besides.
    withheld: HashSet<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Granted {
    All,
    Tools(HashSet<Box<str>>),
    Nothing,
}

impl Pass {
    pub fn of(grants: &Grants, agent: &str, attached: &Attached, to: Toolset<'_>) -> Self {
        let ground = grants.ground(agent, attached, to);
        let withheld = match (&ground, to) {
            (Ground::Default, _) | (_, Toolset::Native { .. }) => HashSet::new(),
            (_, Toolset::Server(spec)) => {
                let requires = spec.policy.expose.tools.requires.iter();
                requires
                    .filter(|(_, needs)| grants.lacks(agent, needs).is_some())
                    .map(|(tool, _)| tool.as_str().into())
                    .collect()
            }
        };
        Self { granted: Granted::from(ground), withheld }
    }

    /// Whether the agent may use a tool, by the server's own name for it. Nothing is allocated.
    pub fn permits(&self, tool: &str) -> bool {
        let granted = match &self.granted {
            Granted::All => true,
            Granted::Tools(tools) => tools.contains(tool),
            Granted::Nothing => false,
        };
        granted && !self.withheld.contains(tool)
    }
}

impl Pass {
    /// Whether the agent may use nothing of the server.
    pub fn is_empty(&self) -> bool {
        self.granted == Granted::Nothing
    }

    /// Whether the agent may use all that the server has, and not only some of its tools.
    pub fn is_whole(&self) -> bool {
        self.granted == Granted::All
    }
}

impl From<Ground<'_>> for Granted {
    fn from(ground: Ground<'_>) -> Self {
        match ground {
            Ground::NotGranted | Ground::NoMember => Self::Nothing,
            Ground::Tools(tools) => Self::Tools(tools.into_keys().map(Into::into).collect()),
            Ground::Default
            | Ground::Open
            | Ground::Toolset
            | Ground::Attached
            | Ground::Capability(_) => Self::All,
        }
    }
}

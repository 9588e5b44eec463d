//! One agent's permissions for one toolset, computed once so long lists only need lookups.

use std::collections::HashSet;

use super::grants::{Attachments, GrantBasis, Grants};
use super::tool_query::ToolsetRef;

/// The grant gate for one agent and one toolset. The value is valid until the configuration or the agent's
/// attachments change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetPermissions {
    granted: GrantedTools,
    /// Tools that require an additional capability, which the agent lacks.
    withheld: HashSet<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum GrantedTools {
    All,
    Tools(HashSet<Box<str>>),
    Nothing,
}

impl ToolsetPermissions {
    /// Computes the permissions of an agent for a toolset.
    pub fn new(grants: &Grants, agent: &str, attached: &Attachments, to: ToolsetRef<'_>) -> Self {
        let basis = grants.grant_basis(agent, attached, to);
        let withheld = match (&basis, to) {
            (GrantBasis::Default, _) | (_, ToolsetRef::Native { .. }) => HashSet::new(),
            (_, ToolsetRef::Server(spec)) => {
                let requires = spec.policy.expose.tools.requires.iter();
                requires
                    .filter(|(_, needs)| grants.missing_capability(agent, needs).is_some())
                    .map(|(tool, _)| tool.as_str().into())
                    .collect()
            }
        };
        Self { granted: GrantedTools::from(basis), withheld }
    }

    /// Returns whether the agent may use a tool, by the server's own name for it. Does not allocate.
    pub fn permits(&self, tool: &str) -> bool {
        let granted = match &self.granted {
            GrantedTools::All => true,
            GrantedTools::Tools(tools) => tools.contains(tool),
            GrantedTools::Nothing => false,
        };
        granted && !self.withheld.contains(tool)
    }
}

impl ToolsetPermissions {
    /// Returns whether the agent may use no tool of the server.
    pub fn is_empty(&self) -> bool {
        self.granted == GrantedTools::Nothing
    }

    /// Returns whether the agent may use everything that the server has, not only some of its tools.
    pub fn allows_every_tool(&self) -> bool {
        self.granted == GrantedTools::All
    }
}

impl From<GrantBasis<'_>> for GrantedTools {
    fn from(basis: GrantBasis<'_>) -> Self {
        match basis {
            GrantBasis::NotGranted | GrantBasis::NotAMember => Self::Nothing,
            GrantBasis::Tools(tools) => Self::Tools(tools.into_keys().map(Into::into).collect()),
            GrantBasis::Default
            | GrantBasis::Open
            | GrantBasis::Toolset
            | GrantBasis::Attached
            | GrantBasis::Capability(_) => Self::All,
        }
    }
}

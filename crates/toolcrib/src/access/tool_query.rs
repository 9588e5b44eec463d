//! Decides whether an agent may use a tool.

use toolcrib_config::ServerSpec;
use toolcrib_config::model::filter::FilterVerdict as Filtered;
use toolcrib_config::model::policy::{Grant, OnUnavailable};

use super::gates::{Gate, GateVerdict};
use super::grants::{Attachments, GrantBasis, Grants};
use super::switches::Switches;

/// All inputs of the decision.
#[derive(Debug, Clone, Copy)]
pub struct ToolQuery<'a> {
    /// The configured grants.
    pub grants: &'a Grants,
    /// The attachments at run time.
    pub attached: &'a Attachments,
    /// The calling agent.
    pub agent: &'a str,
    /// The tool's toolset.
    pub toolset: ToolsetRef<'a>,
    /// The server's own name for the tool.
    pub tool: &'a str,
    /// The dialog's switches.
    pub switches: &'a Switches,
    /// The availability of the tool's server.
    pub presence: ServerAvailability<'a>,
}

/// The source of a tool.
#[derive(Debug, Clone, Copy)]
pub enum ToolsetRef<'a> {
    /// The tools of a server.
    Server(&'a ServerSpec),
    /// Tools of the host or of the embedding program.
    Native {
        /// The name of the toolset.
        name: &'a str,
        /// The agents that have the toolset.
        reach: NativeReach,
    },
}

/// The agents that have a native toolset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeReach {
    /// All agents.
    Everyone,
    /// Members that list it, and the agent `default` if the configuration does not name `default`.
    Members,
    /// Only members that list it.
    ByName,
}

/// Availability of a server, with its state as shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerAvailability<'a> {
    /// A call reaches the server or starts it, or the server has been down only briefly.
    Available(&'a str),
    /// The server cannot be called.
    Unavailable(&'a str),
    /// Disabled by its file, or by the named person at run time.
    Disabled {
        /// The person who disabled the server at run time.
        by: Option<&'a str>,
    },
}

/// Result of the last two gates for all tools of a server, in one dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolVisibility {
    /// The tools are listed and can be called.
    Offered,
    /// The tools are listed, and a call fails because the server is not connected.
    Listed,
    /// The tools are not listed.
    Hidden,
}

/// The decision about a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    /// The agent may use the tool.
    Permitted,
    /// The agent may know the tool but cannot use it now.
    Unavailable(GateVerdict),
    /// The tool does not exist for the agent.
    Denied(GateVerdict),
}

/// Checks the gates in order and stops at the first that fails.
pub(crate) fn decide(query: &ToolQuery<'_>) -> Decision {
    let failed = Gate::ALL.into_iter().find(|gate| !query.passes(*gate));
    let Some(gate) = failed else { return Decision::Permitted };
    match (gate, query.visibility()) {
        (Gate::Availability, ToolVisibility::Listed) => Decision::Unavailable(query.verdict(gate)),
        _ => Decision::Denied(query.verdict(gate)),
    }
}

impl ToolVisibility {
    /// Applies the last two gates to a server.
    pub fn new(spec: &ServerSpec, switches: &Switches, presence: ServerAvailability<'_>) -> Self {
        let keeps = spec.policy.availability.on_unavailable == OnUnavailable::Keep;
        match presence {
            _ if !is_on(switches, spec) => Self::Hidden,
            ServerAvailability::Available(_) => Self::Offered,
            ServerAvailability::Unavailable(_) if keeps => Self::Listed,
            ServerAvailability::Unavailable(_) | ServerAvailability::Disabled { .. } => {
                Self::Hidden
            }
        }
    }
}

impl<'a> ToolQuery<'a> {
    pub(super) fn passes(&self, gate: Gate) -> bool {
        match gate {
            Gate::Exposure => self.filter_verdict() == Filtered::Offered,
            Gate::Grant => {
                let basis = self.grant_basis();
                basis.covers(self.tool) && self.missing_capability(&basis).is_none()
            }
            Gate::Switch => self.is_switched_on(),
            Gate::Availability => matches!(self.presence, ServerAvailability::Available(_)),
        }
    }

    pub(super) fn filter_verdict(&self) -> Filtered<'a> {
        match self.toolset {
            ToolsetRef::Server(spec) => spec.policy.expose.tools.verdict(self.tool),
            ToolsetRef::Native { .. } => Filtered::Offered,
        }
    }

    pub(super) fn grant_basis(&self) -> GrantBasis<'a> {
        self.grants.grant_basis(self.agent, self.attached, self.toolset)
    }

    /// Returns a required additional capability that the agent does not have.
    pub(super) fn missing_capability(&self, basis: &GrantBasis<'_>) -> Option<&'a str> {
        match self.toolset {
            ToolsetRef::Server(spec) if *basis != GrantBasis::Default => {
                let needs = spec.policy.expose.tools.requires.get(self.tool)?;
                self.grants.missing_capability(self.agent, needs)
            }
            _ => None,
        }
    }

    fn is_switched_on(&self) -> bool {
        match self.toolset {
            ToolsetRef::Server(spec) => is_on(self.switches, spec),
            ToolsetRef::Native { .. } => true,
        }
    }

    fn visibility(&self) -> ToolVisibility {
        match self.toolset {
            ToolsetRef::Server(spec) => ToolVisibility::new(spec, self.switches, self.presence),
            ToolsetRef::Native { .. } => ToolVisibility::Offered,
        }
    }
}

/// Computes the server's key only if the dialog has switches.
fn is_on(switches: &Switches, spec: &ServerSpec) -> bool {
    switches.is_empty() || switches.is_on(&spec.key())
}

impl<'a> ToolsetRef<'a> {
    /// The name of the toolset.
    pub fn name(self) -> &'a str {
        match self {
            Self::Server(spec) => spec.toolset(),
            Self::Native { name, .. } => name,
        }
    }

    pub(super) fn grant(self) -> Grant {
        match self {
            Self::Server(spec) => spec.policy.access.grant,
            Self::Native { reach: NativeReach::Everyone, .. } => Grant::Open,
            Self::Native { .. } => Grant::Toolsets,
        }
    }

    pub(super) fn is_listed_only(self) -> bool {
        matches!(self, Self::Native { reach: NativeReach::ByName, .. })
    }
}

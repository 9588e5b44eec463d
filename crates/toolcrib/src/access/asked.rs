//! The question whether an agent may use a tool, and its answer.

use toolcrib_config::ServerSpec;
use toolcrib_config::model::filter::Verdict as Filtered;
use toolcrib_config::model::policy::{Grant, OnUnavailable};

use super::gates::{Gate, Verdict};
use super::grants::{Attached, Grants, Ground};
use super::switches::Switches;

/// Everything that the answer depends on.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub grants: &'a Grants,
    pub attached: &'a Attached,
    pub agent: &'a str,
    pub toolset: Toolset<'a>,
    /// The server's own name for the tool.
    pub tool: &'a str,
    pub switches: &'a Switches,
    pub presence: Presence<'a>,
}

/// Where a tool comes from.
#[derive(Debug, Clone, Copy)]
pub enum Toolset<'a> {
    Server(&'a ServerSpec),
    /// Tools of the host itself or of the program around it.
    Native {
        name: &'a str,
        to: Reach,
    },
}

/// Who has a native toolset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Everybody,
    /// Members that list it, and the agent `default` where the configuration says nothing of it.
    Members,
    /// Members that list it, and nobody else.
    ByName,
}

/// Whether a server is there, with its state in the words that people see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence<'a> {
    /// A call reaches it or brings it up, or it has only just gone.
    Here(&'a str),
    Away(&'a str),
    /// By its file, or by whoever switched it off while the host runs.
    Disabled {
        by: Option<&'a str>,
    },
}

/// What the last two gates make of all tools of a server, for one dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Offered,
    /// They are listed, and a call answers that the server is not connected.
    Listed,
    Hidden,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Permitted,
    /// The agent knows the tool, and cannot use it now.
    Away(Verdict),
    /// To the agent there is no such tool.
    Denied(Verdict),
}

/// Asks one gate after the other, and stops at the first that fails.
pub fn decide(asked: &Asked<'_>) -> Decision {
    let failed = Gate::ALL.into_iter().find(|gate| !asked.passes(*gate));
    let Some(gate) = failed else { return Decision::Permitted };
    match (gate, asked.standing()) {
        (Gate::Availability, Standing::Listed) => Decision::Away(asked.verdict(gate)),
        _ => Decision::Denied(asked.verdict(gate)),
    }
}

impl Standing {
    pub fn of(spec: &ServerSpec, switches: &Switches, presence: Presence<'_>) -> Self {
        let keeps = spec.policy.availability.on_unavailable == OnUnavailable::Keep;
        match presence {
            _ if !is_on(switches, spec) => Self::Hidden,
            Presence::Here(_) => Self::Offered,
            Presence::Away(_) if keeps => Self::Listed,
            Presence::Away(_) | Presence::Disabled { .. } => Self::Hidden,
        }
    }
}

impl<'a> Asked<'a> {
    pub(super) fn passes(&self, gate: Gate) -> bool {
        match gate {
            Gate::Exposure => self.filtered() == Filtered::Offered,
            Gate::Grant => {
                let ground = self.ground();
                ground.covers(self.tool) && self.lacks(&ground).is_none()
            }
            Gate::Switch => self.is_switched_on(),
            Gate::Availability => matches!(self.presence, Presence::Here(_)),
        }
    }

    pub(super) fn filtered(&self) -> Filtered<'a> {
        match self.toolset {
            Toolset::Server(spec) => spec.policy.expose.tools.verdict(self.tool),
            Toolset::Native { .. } => Filtered::Offered,
        }
    }

    pub(super) fn ground(&self) -> Ground<'a> {
        self.grants.ground(self.agent, self.attached, self.toolset)
    }

    /// A capability that the tool needs besides and that the agent does not have.
    pub(super) fn lacks(&self, ground: &Ground<'_>) -> Option<&'a str> {
        match self.toolset {
            Toolset::Server(spec) if *ground != Ground::Default => {
                let needs = spec.policy.expose.tools.requires.get(self.tool)?;
                self.grants.lacks(self.agent, needs)
            }
            _ => None,
        }
    }

    fn is_switched_on(&self) -> bool {
        match self.toolset {
            Toolset::Server(spec) => is_on(self.switches, spec),
            Toolset::Native { .. } => true,
        }
    }

    fn standing(&self) -> Standing {
        match self.toolset {
            Toolset::Server(spec) => Standing::of(spec, self.switches, self.presence),
            Toolset::Native { .. } => Standing::Offered,
        }
    }
}

/// A key is made up only for whoever has switched something.
fn is_on(switches: &Switches, spec: &ServerSpec) -> bool {
    switches.is_untouched() || switches.is_on(&spec.key())
}

impl<'a> Toolset<'a> {
    pub fn name(self) -> &'a str {
        match self {
            Self::Server(spec) => spec.toolset(),
            Self::Native { name, .. } => name,
        }
    }

    pub(super) fn grant(self) -> Grant {
        match self {
            Self::Server(spec) => spec.policy.access.grant,
            Self::Native { to: Reach::Everybody, .. } => Grant::Open,
            Self::Native { .. } => Grant::Toolsets,
        }
    }

    pub(super) fn is_by_name(self) -> bool {
        matches!(self, Self::Native { to: Reach::ByName, .. })
    }
}

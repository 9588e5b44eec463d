//! Explains the four access gates: the rule that decided, and the rule's location.

use std::fmt;

use toolcrib_config::model::filter::{FilterVerdict as Filtered, matches_pattern};
use toolcrib_config::model::host::capability_layers;
use toolcrib_config::model::policy::Grant;
use toolcrib_config::{ServerSpec, ValueOrigin};

use super::grants::GrantBasis;
use super::tool_query::{ServerAvailability, ToolQuery, ToolsetRef};

/// The gates of a tool, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The server's filter.
    Exposure,
    /// The agent's grants.
    Grant,
    /// The dialog's switches.
    Switch,
    /// The server's availability.
    Availability,
}

/// The result of one gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateVerdict {
    /// The gate.
    pub gate: Gate,
    /// True if the tool passes the gate.
    pub passed: bool,
    /// The rule in words, for people.
    pub rule: String,
    /// The location of the rule. `None` if the rule is not from a file or profile.
    pub origin: Option<ValueOrigin>,
}

/// The results of all gates for one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct GateReport(pub [GateVerdict; 4]);

impl GateReport {
    /// Checks all gates.
    pub fn new(query: &ToolQuery<'_>) -> Self {
        Self(Gate::ALL.map(|gate| query.verdict(gate)))
    }

    /// Returns whether the tool passes this gate.
    pub fn passes(&self, gate: Gate) -> bool {
        self.0.iter().any(|verdict| verdict.gate == gate && verdict.passed)
    }
}

impl Gate {
    /// All gates, in their order.
    pub const ALL: [Self; 4] = [Self::Exposure, Self::Grant, Self::Switch, Self::Availability];

    /// Returns the name of the gate.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exposure => "exposure",
            Self::Grant => "grant",
            Self::Switch => "switch",
            Self::Availability => "availability",
        }
    }
}

impl ToolQuery<'_> {
    pub(super) fn verdict(&self, gate: Gate) -> GateVerdict {
        let (rule, origin) = match (gate, self.toolset) {
            (Gate::Grant, _) => self.grant_rule(),
            (_, ToolsetRef::Native { .. }) => ("the tool is native".to_owned(), None),
            (Gate::Exposure, ToolsetRef::Server(spec)) => self.exposure_rule(spec),
            (Gate::Switch, ToolsetRef::Server(spec)) => (self.switch_rule(spec), None),
            (Gate::Availability, ToolsetRef::Server(spec)) => self.availability_rule(spec),
        };
        GateVerdict { gate, passed: self.passes(gate), rule, origin }
    }

    fn exposure_rule(&self, spec: &ServerSpec) -> Rule {
        let filter = &spec.policy.expose.tools;
        let allowed =
            filter.allow.iter().flatten().find(|pattern| matches_pattern(pattern, self.tool));
        let (rule, key) = match (self.filter_verdict(), allowed) {
            (Filtered::Denied(pattern), _) => {
                (format!("`deny` has the pattern `{pattern}`"), "deny")
            }
            (Filtered::NotAllowed, _) => ("no pattern of `allow` matches".to_owned(), "allow"),
            (Filtered::Offered, Some(pattern)) => {
                (format!("`allow` has the pattern `{pattern}`"), "allow")
            }
            (Filtered::Offered, None) if filter.deny.is_empty() => {
                ("every tool of the server is offered".to_owned(), "allow")
            }
            (Filtered::Offered, None) => ("no pattern of `deny` matches".to_owned(), "deny"),
        };
        (rule, Some(spec.origins.origin(&format!("expose.tools.{key}"))))
    }

    fn switch_rule(&self, spec: &ServerSpec) -> String {
        let state = if self.passes(Gate::Switch) { "on" } else { "off" };
        format!("`{}` is switched {state} in this dialog", spec.id)
    }

    fn availability_rule(&self, spec: &ServerSpec) -> Rule {
        let origin = |key| Some(spec.origins.origin(key));
        match self.presence {
            ServerAvailability::Available(state) => (format!("`{}` is {state}", spec.id), None),
            ServerAvailability::Unavailable(state) => (
                format!(
                    "`{}` is {state}, and `availability.on_unavailable` is `{}`",
                    spec.id, spec.policy.availability.on_unavailable
                ),
                origin("availability.on_unavailable"),
            ),
            ServerAvailability::Disabled { by: Some(by) } => {
                (format!("`{}` was disabled by {by}", spec.id), None)
            }
            ServerAvailability::Disabled { by: None } => {
                (format!("`{}` is disabled", spec.id), origin("enabled"))
            }
        }
    }

    fn grant_rule(&self) -> Rule {
        let (agent, toolset) = (self.agent, self.toolset.name());
        let basis = self.grant_basis();
        if let (true, Some(name)) = (basis.covers(self.tool), self.missing_capability(&basis)) {
            return (
                format!(
                    "`{}` also requires the capability `{name}`, which `{agent}` lacks",
                    self.tool
                ),
                self.origin("expose.tools.requires"),
            );
        }
        match basis {
            GrantBasis::Default => (format!("the agent `{agent}` needs no grant"), None),
            GrantBasis::Open => ("open to every agent".to_owned(), self.origin(GRANT)),
            GrantBasis::Attached => (format!("attached to `{agent}`"), self.origin(GRANT)),
            GrantBasis::Toolset => (
                format!("member `{agent}` has the toolset `{toolset}`"),
                self.grants.toolsets_origin(agent),
            ),
            GrantBasis::Capability(name) => self.capability(name),
            GrantBasis::Tools(tools) => match tools.get(self.tool) {
                Some(name) => self.capability(name),
                None => self.not_granted(),
            },
            GrantBasis::NotGranted => self.not_granted(),
            GrantBasis::NotAMember => {
                (format!("`{agent}` is not a member and has no grants"), self.origin(GRANT))
            }
        }
    }

    fn capability(&self, name: &str) -> Rule {
        let agent = self.agent;
        let rule = format!("member `{agent}` has the capability `{name}`");
        (rule, self.grants.capabilities_origin(agent))
    }

    fn not_granted(&self) -> Rule {
        let agent = self.agent;
        let needed = match (self.toolset.grant(), self.toolset) {
            (Grant::Capabilities, ToolsetRef::Server(spec)) => self.capabilities_of(spec),
            (Grant::Members, ToolsetRef::Server(spec)) => {
                format!("the toolset `{}` or {}", spec.toolset(), self.capabilities_of(spec))
            }
            _ => format!("the toolset `{}`", self.toolset.name()),
        };
        let origin = self.grants.member_origin(agent).or_else(|| self.origin(GRANT));
        (format!("member `{agent}` lacks {needed}"), origin)
    }

    fn capabilities_of(&self, spec: &ServerSpec) -> String {
        let [all, server, tool] = capability_layers(&spec.id, self.tool);
        format!("one of the capabilities `{all}`, `{server}`, `{tool}`")
    }

    fn origin(&self, key: &str) -> Option<ValueOrigin> {
        match self.toolset {
            ToolsetRef::Server(spec) => Some(spec.origins.origin(key)),
            ToolsetRef::Native { .. } => None,
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule in words, and its location.
type Rule = (String, Option<ValueOrigin>);

const GRANT: &str = "access.grant";

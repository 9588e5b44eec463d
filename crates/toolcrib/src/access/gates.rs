//! The four gates in words: which rule let a tool through or held it back, and where the rule stands.

use std::fmt;

use toolcrib_config::model::filter::{Verdict as Filtered, matches};
use toolcrib_config::model::host::capability_layers;
use toolcrib_config::model::policy::Grant;
use toolcrib_config::{Origin, ServerSpec};

use super::asked::{Asked, Presence, Toolset};
use super::grants::Ground;

/// What a tool has to pass, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    Exposure,
    Grant,
    Switch,
    Availability,
}

/// What one gate says.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub gate: Gate,
    pub passed: bool,
    /// For people.
    pub rule: String,
    /// Where the rule stands; nowhere, if it is not a rule of some file or profile.
    pub origin: Option<Origin>,
}

/// What all gates say of one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Gates(pub [Verdict; 4]);

impl Gates {
    pub fn of(asked: &Asked<'_>) -> Self {
        Self(Gate::ALL.map(|gate| asked.verdict(gate)))
    }

    /// Whether the tool passes one of the gates.
    pub fn pass(&self, gate: Gate) -> bool {
        self.0.iter().any(|verdict| verdict.gate == gate && verdict.passed)
    }
}

impl Gate {
    pub const ALL: [Self; 4] = [Self::Exposure, Self::Grant, Self::Switch, Self::Availability];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exposure => "exposure",
            Self::Grant => "grant",
            Self::Switch => "switch",
            Self::Availability => "availability",
        }
    }
}

impl Asked<'_> {
    pub(super) fn verdict(&self, gate: Gate) -> Verdict {
        let (rule, origin) = match (gate, self.toolset) {
            (Gate::Grant, _) => self.grant_rule(),
            (_, Toolset::Native { .. }) => ("the tool is the host's own".to_owned(), None),
            (Gate::Exposure, Toolset::Server(spec)) => self.exposure_rule(spec),
            (Gate::Switch, Toolset::Server(spec)) => (self.switch_rule(spec), None),
            (Gate::Availability, Toolset::Server(spec)) => self.availability_rule(spec),
        };
        Verdict { gate, passed: self.passes(gate), rule, origin }
    }

    fn exposure_rule(&self, spec: &ServerSpec) -> Rule {
        let filter = &spec.policy.expose.tools;
        let allowed = filter.allow.iter().flatten().find(|pattern| matches(pattern, self.tool));
        let (rule, key) = match (self.filtered(), allowed) {
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
        (rule, Some(spec.origins.of(&format!("expose.tools.{key}"))))
    }

    fn switch_rule(&self, spec: &ServerSpec) -> String {
        let state = if self.passes(Gate::Switch) { "on" } else { "off" };
        format!("`{}` is switched {state} in this dialog", spec.id)
    }

    fn availability_rule(&self, spec: &ServerSpec) -> Rule {
        let origin = |key| Some(spec.origins.of(key));
        match self.presence {
            Presence::Here(state) => (format!("`{}` is {state}", spec.id), None),
            Presence::Away(state) => (
                format!(
                    "`{}` is {state}; what becomes of its tools is `{}`",
                    spec.id, spec.policy.availability.on_unavailable
                ),
                origin("availability.on_unavailable"),
            ),
            Presence::Disabled { by: Some(who) } => {
                (format!("`{}` was disabled by {who}", spec.id), None)
            }
            Presence::Disabled { by: None } => {
                (format!("`{}` is disabled", spec.id), origin("enabled"))
            }
        }
    }

    fn grant_rule(&self) -> Rule {
        let (agent, toolset) = (self.agent, self.toolset.name());
        let ground = self.ground();
        if let (true, Some(name)) = (ground.covers(self.tool), self.lacks(&ground)) {
            return (
                format!(
                    "`{}` needs the capability `{name}` besides, which `{agent}` lacks",
                    self.tool
                ),
                self.origin("expose.tools.requires"),
            );
        }
        match ground {
            Ground::Default => (format!("the agent `{agent}` needs no grant"), None),
            Ground::Open => ("open to every agent".to_owned(), self.origin(GRANT)),
            Ground::Attached => (format!("attached to `{agent}`"), self.origin(GRANT)),
            Ground::Toolset => (
                format!("member `{agent}` has the toolset `{toolset}`"),
                self.grants.toolsets_origin(agent),
            ),
            Ground::Capability(name) => self.capability(name),
            Ground::Tools(tools) => match tools.get(self.tool) {
                Some(name) => self.capability(name),
                None => self.not_granted(),
            },
            Ground::NotGranted => self.not_granted(),
            Ground::NoMember => {
                (format!("`{agent}` is no member and has no grants"), self.origin(GRANT))
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
            (Grant::Capabilities, Toolset::Server(spec)) => self.capabilities_of(spec),
            (Grant::Members, Toolset::Server(spec)) => {
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

    fn origin(&self, key: &str) -> Option<Origin> {
        match self.toolset {
            Toolset::Server(spec) => Some(spec.origins.of(key)),
            Toolset::Native { .. } => None,
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule in words, and where it stands.
type Rule = (String, Option<Origin>);

const GRANT: &str = "access.grant";

//! The grants of each agent, and the basis on which it may use a toolset.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;

use toolcrib_config::model::host::capability_layers;
use toolcrib_config::model::policy::Grant;
use toolcrib_config::model::security::SecuritySection;
use toolcrib_config::{Config, Problem, ValueOrigin};

use super::tool_query::ToolsetRef;

/// The agent of all callers without an identity of their own. It needs no grants unless the configuration names it.
pub const DEFAULT_AGENT: &str = "default";

/// The grants of one configuration, indexed for lookups.
#[derive(Debug, Default)]
pub struct Grants {
    members: HashMap<String, Member>,
    /// True if `host.grants` is invalid. Then no agent has a grant, including `default`.
    is_invalid: bool,
}

#[derive(Debug)]
struct Member {
    /// In the order of the file.
    toolsets: Vec<String>,
    /// Sorted, so the capabilities for the tools of one server are adjacent.
    capabilities: BTreeSet<String>,
    toolsets_origin: ValueOrigin,
    capabilities_origin: ValueOrigin,
}

/// Servers that were attached to agents at run time. The configuration itself grants by toolset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attachments(HashMap<String, HashSet<String>>);

/// The grant that lets an agent use a toolset or some of its tools, or the missing grant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GrantBasis<'a> {
    /// The agent `default`, which the configuration does not name.
    Default,
    Open,
    Toolset,
    Attached,
    /// A capability that covers the whole server.
    Capability(&'a str),
    /// Capabilities for single tools, by the tool's name.
    Tools(HashMap<&'a str, &'a str>),
    NotGranted,
    NotAMember,
}

impl Grants {
    /// Reads the grants of a configuration.
    pub fn from_config(config: &Config) -> Self {
        let members = config.host.grants.members.iter().map(|(name, member)| {
            let origin = |key| config.origin(&format!("host.grants.members.{name}.{key}"));
            let member = Member {
                toolsets: member.toolsets.clone(),
                capabilities: member.capabilities.iter().cloned().collect(),
                toolsets_origin: origin("toolsets"),
                capabilities_origin: origin("capabilities"),
            };
            (name.clone(), member)
        });
        match config.security.is_invalid(SecuritySection::Grants) {
            true => Self { members: HashMap::new(), is_invalid: true },
            false => Self { members: members.collect(), is_invalid: false },
        }
    }

    /// Returns one warning for each toolset that a member lists and that does not exist. The member only lacks the
    /// toolset's tools.
    pub fn problems(&self, exists: impl Fn(&str) -> bool) -> Vec<Problem> {
        let mut problems: Vec<_> = self
            .members
            .iter()
            .flat_map(|(agent, member)| {
                member.toolsets.iter().map(move |name| (agent, member, name))
            })
            .filter(|(_, _, toolset)| !exists(toolset))
            .map(|(agent, member, toolset)| {
                missing_toolset_problem(agent, toolset, &member.toolsets_origin)
            })
            .collect();
        problems.sort_by(|a, b| a.id.cmp(&b.id));
        problems
    }

    /// Returns whether an agent needs no grant for any server. This is true for `default` if the configuration does
    /// not name it.
    pub fn is_unrestricted(&self, agent: &str) -> bool {
        agent == DEFAULT_AGENT && !self.members.contains_key(agent) && !self.is_invalid
    }

    pub(super) fn grant_basis(
        &self,
        agent: &str,
        attached: &Attachments,
        to: ToolsetRef<'_>,
    ) -> GrantBasis<'_> {
        let (grant, member) = (to.grant(), self.members.get(agent));
        if self.is_unrestricted(agent) && !to.is_listed_only() {
            return GrantBasis::Default;
        }
        if grant == Grant::Open {
            return GrantBasis::Open;
        }
        if attached.holds(grant, agent, to) {
            return GrantBasis::Attached;
        }
        let Some(member) = member else {
            return GrantBasis::NotAMember;
        };
        if grant != Grant::Capabilities && member.toolsets.iter().any(|name| name == to.name()) {
            return GrantBasis::Toolset;
        }
        match (grant, to) {
            (Grant::Members | Grant::Capabilities, ToolsetRef::Server(spec)) => {
                member.capability(&spec.id)
            }
            _ => GrantBasis::NotGranted,
        }
    }

    /// Returns the first of these capabilities that the agent does not have.
    pub(super) fn missing_capability<'c>(
        &self,
        agent: &str,
        capabilities: &'c [String],
    ) -> Option<&'c str> {
        let member = self.members.get(agent);
        let held = |name: &&String| member.is_some_and(|m| m.capabilities.contains(*name));
        capabilities.iter().find(|name| !held(name)).map(String::as_str)
    }

    pub(super) fn toolsets_origin(&self, agent: &str) -> Option<ValueOrigin> {
        self.members.get(agent).map(|member| member.toolsets_origin.clone())
    }

    pub(super) fn capabilities_origin(&self, agent: &str) -> Option<ValueOrigin> {
        self.members.get(agent).map(|member| member.capabilities_origin.clone())
    }

    /// Returns the location of a member's grants, for problems of missing grants. `None` if its file has none.
    pub(super) fn member_origin(&self, agent: &str) -> Option<ValueOrigin> {
        let in_file = |origin: &ValueOrigin| matches!(origin, ValueOrigin::File { .. });
        let toolsets = self.toolsets_origin(agent).filter(in_file);
        toolsets.or_else(|| self.capabilities_origin(agent).filter(in_file))
    }
}

impl GrantBasis<'_> {
    pub(super) fn covers(&self, tool: &str) -> bool {
        match self {
            Self::Tools(tools) => tools.contains_key(tool),
            Self::NotGranted | Self::NotAMember => false,
            _ => true,
        }
    }
}

impl Member {
    /// Requests the tool layer with an empty name. The rest of each capability is then compared with complete tool
    /// names.
    fn capability<'a>(&'a self, server: &str) -> GrantBasis<'a> {
        let [all, server, of_tools] = capability_layers(server, "");
        if let Some(name) = self.capabilities.get(&all).or_else(|| self.capabilities.get(&server)) {
            return GrantBasis::Capability(name);
        }
        let from = (Bound::Included(of_tools.as_str()), Bound::Unbounded);
        let of_tool = |name: &'a String| Some((name.strip_prefix(&of_tools)?, name.as_str()));
        let tools: HashMap<_, _> =
            self.capabilities.range::<str, _>(from).map_while(of_tool).collect();
        if tools.is_empty() { GrantBasis::NotGranted } else { GrantBasis::Tools(tools) }
    }
}

impl Attachments {
    /// Attaches a server to an agent. Returns false if it was attached already.
    pub fn attach(&mut self, agent: &str, server: &str) -> bool {
        self.0.entry(agent.to_owned()).or_default().insert(server.to_owned())
    }

    /// Detaches a server from an agent. Returns false if it was not attached.
    pub fn detach(&mut self, agent: &str, server: &str) -> bool {
        let Some(servers) = self.0.get_mut(agent) else {
            return false;
        };
        let removed = servers.remove(server);
        if servers.is_empty() {
            self.0.remove(agent);
        }
        removed
    }

    fn holds(&self, grant: Grant, agent: &str, to: ToolsetRef<'_>) -> bool {
        let (Grant::Attach, ToolsetRef::Server(spec)) = (grant, to) else {
            return false;
        };
        self.0.get(agent).is_some_and(|servers| servers.contains(&spec.key()))
    }
}

fn missing_toolset_problem(agent: &str, toolset: &str, origin: &ValueOrigin) -> Problem {
    let text = format!("Toolset not found: member `{agent}` lists `{toolset}`");
    let problem = Problem::warning("toolset.not_found", text);
    let problem = match origin {
        ValueOrigin::File { source, location, key } => {
            problem.at(source, *location, &format!("{key}.{toolset}"))
        }
        ValueOrigin::Profile(name) | ValueOrigin::Override(name) => {
            problem.in_source(&format!("{name}:{agent}.{toolset}"))
        }
    };
    problem.agent(agent).fix("correct the name, configure a server of that name, or remove it here")
}

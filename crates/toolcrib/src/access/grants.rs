//! What each agent was granted, and on which ground it may use a toolset.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;

use toolcrib_config::model::host::capability_layers;
use toolcrib_config::model::policy::Grant;
use toolcrib_config::model::security::Section;
use toolcrib_config::{Config, Origin, Problem};

use super::asked::Toolset;
use super::principal::DEFAULT_AGENT;

/// The grants of one configuration, ready to be asked.
#[derive(Debug, Default)]
pub struct Grants {
    members: HashMap<String, Member>,
    /// Whether `host.grants` is invalid: then nobody has a grant, `default` included.
    is_invalid: bool,
}

#[derive(Debug)]
struct Member {
    /// As the file lists them.
    toolsets: Vec<String>,
    /// In order: those for the tools of one server stand together.
    capabilities: BTreeSet<String>,
    toolsets_origin: Origin,
    capabilities_origin: Origin,
}

/// The servers that were attached to agents while the host runs; the configuration attaches by toolset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attached(HashMap<String, HashSet<String>>);

/// Why an agent may use a toolset, or some tools of it, or none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ground<'a> {
    /// The agent `default`, of which the configuration says nothing.
    Default,
    Open,
    Toolset,
    Attached,
    /// A capability that covers the whole server.
    Capability(&'a str),
    /// Capabilities for single tools, by the tool's name.
    Tools(HashMap<&'a str, &'a str>),
    NotGranted,
    NoMember,
}

impl Grants {
    pub fn of(config: &Config) -> Self {
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
        match config.security.is_invalid(Section::Grants) {
            true => Self { members: HashMap::new(), is_invalid: true },
            false => Self { members: members.collect(), is_invalid: false },
        }
    }

    /// One warning for each toolset that a member lists and that nobody offers. The member just lacks its tools.
    pub fn problems(&self, exists: impl Fn(&str) -> bool) -> Vec<Problem> {
        let mut problems: Vec<_> = self
            .members
            .iter()
            .flat_map(|(agent, member)| {
                member.toolsets.iter().map(move |name| (agent, member, name))
            })
            .filter(|(_, _, toolset)| !exists(toolset))
            .map(|(agent, member, toolset)| missing(agent, toolset, &member.toolsets_origin))
            .collect();
        problems.sort_by(|a, b| a.id.cmp(&b.id));
        problems
    }

    /// Whether an agent needs no grant for any server: `default`, where the configuration does not name it.
    pub fn is_unrestricted(&self, agent: &str) -> bool {
        agent == DEFAULT_AGENT && !self.members.contains_key(agent) && !self.is_invalid
    }

    pub(super) fn ground(&self, agent: &str, attached: &Attached, to: Toolset<'_>) -> Ground<'_> {
        let (grant, member) = (to.grant(), self.members.get(agent));
        if self.is_unrestricted(agent) && !to.is_by_name() {
            return Ground::Default;
        }
        if grant == Grant::Open {
            return Ground::Open;
        }
        if attached.holds(grant, agent, to) {
            return Ground::Attached;
        }
        let Some(member) = member else {
            return Ground::NoMember;
        };
        if grant != Grant::Capabilities && member.toolsets.iter().any(|name| name == to.name()) {
            return Ground::Toolset;
        }
        match (grant, to) {
            (Grant::Members | Grant::Capabilities, Toolset::Server(spec)) => {
                member.capability(&spec.id)
            }
            _ => Ground::NotGranted,
        }
    }

    /// The first of these capabilities that the agent does not have.
    pub(super) fn lacks<'c>(&self, agent: &str, capabilities: &'c [String]) -> Option<&'c str> {
        let member = self.members.get(agent);
        let held = |name: &&String| member.is_some_and(|m| m.capabilities.contains(*name));
        capabilities.iter().find(|name| !held(name)).map(String::as_str)
    }

    pub(super) fn toolsets_origin(&self, agent: &str) -> Option<Origin> {
        self.members.get(agent).map(|member| member.toolsets_origin.clone())
    }

    pub(super) fn capabilities_origin(&self, agent: &str) -> Option<Origin> {
        self.members.get(agent).map(|member| member.capabilities_origin.clone())
    }

    /// Where a member that lacks something stands in its file, as far as its file says anything of it.
    pub(super) fn member_origin(&self, agent: &str) -> Option<Origin> {
        let in_file = |origin: &Origin| matches!(origin, Origin::File { .. });
        let toolsets = self.toolsets_origin(agent).filter(in_file);
        toolsets.or_else(|| self.capabilities_origin(agent).filter(in_file))
    }
}

impl Ground<'_> {
    pub(super) fn covers(&self, tool: &str) -> bool {
        match self {
            Self::Tools(tools) => tools.contains_key(tool),
            Self::NotGranted | Self::NoMember => false,
            _ => true,
        }
    }
}

impl Member {
    /// The layer for a tool is asked for with an empty name: what follows it is compared with tools, whole.
    fn capability<'a>(&'a self, server: &str) -> Ground<'a> {
        let [all, server, of_tools] = capability_layers(server, "");
        if let Some(name) = self.capabilities.get(&all).or_else(|| self.capabilities.get(&server)) {
            return Ground::Capability(name);
        }
        let from = (Bound::Included(of_tools.as_str()), Bound::Unbounded);
        let of_tool = |name: &'a String| Some((name.strip_prefix(&of_tools)?, name.as_str()));
        let tools: HashMap<_, _> =
            self.capabilities.range::<str, _>(from).map_while(of_tool).collect();
        if tools.is_empty() { Ground::NotGranted } else { Ground::Tools(tools) }
    }
}

impl Attached {
    /// False where it is attached already; then nothing changes.
    pub fn attach(&mut self, agent: &str, server: &str) -> bool {
        self.0.entry(agent.to_owned()).or_default().insert(server.to_owned())
    }

    /// False where it was not attached.
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

    fn holds(&self, grant: Grant, agent: &str, to: Toolset<'_>) -> bool {
        let (Grant::Attach, Toolset::Server(spec)) = (grant, to) else {
            return false;
        };
        self.0.get(agent).is_some_and(|servers| servers.contains(&spec.key()))
    }
}

fn missing(agent: &str, toolset: &str, origin: &Origin) -> Problem {
    let text = format!("Toolset not found: member `{agent}` lists `{toolset}`");
    let problem = Problem::warning("toolset.not_found", text);
    let problem = match origin {
        Origin::File { source, place, key } => {
            problem.at(source, *place, &format!("{key}.{toolset}"))
        }
        Origin::Profile(name) | Origin::Override(name) => {
            problem.of(&format!("{name}:{agent}.{toolset}"))
        }
    };
    problem.agent(agent).fix("correct the name, configure a server of that name, or remove it here")
}

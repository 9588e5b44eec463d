//! Minion's manager, servers and agents: a JSON or YAML file with the names of its Go fields, or
//! the same names in snake case.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::go::{GoDuration, period};
use super::minion_auth::{AuthConfig, auth};
use super::{Dialect, Draft, Loaded, given, nonempty, peek, verbatim};
use crate::cx::Cx;
use crate::doc::{At, Doc, NodeId};
use crate::model::host::{GrantsKeys, HostKeys, MemberKeys};
use crate::model::policy::{
    ExposeKeys, InitKeys, LifecycleKeys, ReconnectKeys, RetryKeys, TimeoutsKeys, ToolFilterKeys,
};
use crate::model::security::Section;
use crate::model::transport::{EnvKeys, Plain, TransportKeys, TransportKind};
use crate::model::units::Period;
use crate::text;
use crate::value::Verbatim;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Root {
    #[serde(alias = "manager")]
    manager: Option<At<Manager>>,
    #[serde(alias = "servers")]
    servers: Option<At<Vec<At<IgnoredAny>>>>,
    #[serde(alias = "agents")]
    agents: Option<At<Vec<At<Agent>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Manager {
    #[serde(alias = "max_servers")]
    max_servers: Option<At<u32>>,
    #[serde(alias = "default_timeout")]
    default_timeout: Option<At<GoDuration>>,
    #[serde(alias = "enable_auto_reconnect")]
    enable_auto_reconnect: Option<At<bool>>,
    #[serde(alias = "max_reconnect_retries")]
    max_reconnect_retries: Option<At<u32>>,
    #[serde(alias = "reconnect_backoff")]
    reconnect_backoff: Option<At<GoDuration>>,
    #[serde(alias = "retry_policy")]
    retry_policy: Option<At<RetryPolicy>>,
    /// A Go value that a file cannot hold; whatever stands here is no mistake.
    #[serde(alias = "logger")]
    logger: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct RetryPolicy {
    #[serde(alias = "max_retries")]
    max_retries: Option<At<u32>>,
    #[serde(alias = "initial_backoff")]
    initial_backoff: Option<At<GoDuration>>,
    #[serde(alias = "max_backoff")]
    max_backoff: Option<At<GoDuration>>,
    #[serde(alias = "backoff_multiplier")]
    backoff_multiplier: Option<At<f64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Server {
    #[serde(alias = "server_name")]
    server_name: Option<At<String>>,
    #[serde(alias = "description")]
    description: Option<At<String>>,
    #[serde(alias = "transport")]
    transport: Option<At<String>>,
    #[serde(alias = "command")]
    command: Option<At<String>>,
    #[serde(alias = "args")]
    args: Option<At<Vec<String>>>,
    #[serde(alias = "env")]
    env: Option<At<IndexMap<String, At<Verbatim>>>>,
    #[serde(alias = "working_dir")]
    working_dir: Option<At<String>>,
    /// Minion's design writes both names.
    #[serde(rename = "URL", alias = "url", alias = "HTTPUrl", alias = "http_url")]
    url: Option<At<String>>,
    #[serde(alias = "auth_type")]
    auth_type: Option<At<String>>,
    #[serde(alias = "auth_config")]
    auth_config: Option<At<AuthConfig>>,
    #[serde(alias = "capabilities")]
    capabilities: Option<At<Vec<String>>>,
    /// What an agent must hold besides, by the server's own name of the tool.
    #[serde(alias = "required_capabilities")]
    required_capabilities: Option<At<BTreeMap<String, Vec<String>>>>,
    #[serde(alias = "connect_timeout")]
    connect_timeout: Option<At<GoDuration>>,
    #[serde(alias = "request_timeout")]
    request_timeout: Option<At<GoDuration>>,
    #[serde(alias = "retry_policy")]
    retry_policy: Option<At<RetryPolicy>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Agent {
    #[serde(alias = "name")]
    name: Option<At<String>>,
    #[serde(alias = "capabilities")]
    capabilities: Option<At<Vec<String>>>,
}

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let misspelt = misspelt_agents(cx);
    let entry = cx.server_entry::<Root>(Doc::ROOT);
    let agents_node = entry.value.agents.as_ref().map(|at| at.node).or(misspelt);
    let manager = given(entry.value.manager);
    let mut loaded = Loaded::new();
    for At { node, .. } in given(entry.value.servers) {
        loaded.servers.push(server(cx, node, &manager));
    }
    loaded.tell_duplicates(cx);
    let agents = entry.value.agents.filter(|_| entry.sound);
    let is_sound = entry.sound && misspelt.is_none();
    let Some(grants) = grants(cx, agents).filter(|_| is_sound) else {
        // The agents may be those that restrict the servers of other files.
        let invalid = agents_node.map(|node| (Section::Grants, node)).into_iter().collect();
        return Loaded { invalid, ..loaded.failed() };
    };
    let host = HostKeys {
        max_servers: manager.max_servers,
        grants: Some(At::new(Doc::ROOT, grants)),
        ..HostKeys::default()
    };
    loaded.host = Some(At::new(Doc::ROOT, host));
    loaded
}

/// Finds and reports a misspelt `Agents`, or one that stands in `Manager`.
fn misspelt_agents(cx: &mut Cx<'_>) -> Option<NodeId> {
    let is_misspelt =
        |key: &str| !matches!(key, "Agents" | "agents") && text::slip(key, &["Agents"]).is_some();
    let position = |map: NodeId, is_meant: &dyn Fn(&str) -> bool| {
        let place = cx.doc.entries(map).iter().position(|(key, _)| is_meant(&key.name))?;
        Some((map, place))
    };
    let manager = ["Manager", "manager"].into_iter().find_map(|key| cx.doc.get(Doc::ROOT, key));
    let (map, place) = position(Doc::ROOT, &is_misspelt)
        .or_else(|| position(manager?, &|key| text::is_same_key(key, "Agents")))?;
    cx.invalid_key(map, place, "the file", Some("Agents"));
    cx.doc.entries(map).get(place).map(|(_, value)| *value)
}

/// The agents' capabilities; nothing where one of them has no name of its own.
fn grants(cx: &mut Cx<'_>, agents: Option<At<Vec<At<Agent>>>>) -> Option<GrantsKeys> {
    let node = agents.as_ref().map_or(Doc::ROOT, |at| at.node);
    let mut members = IndexMap::new();
    let mut sound = true;
    for At { node, value } in given(agents) {
        let agent = value.unwrap_or_default();
        let name = nonempty(agent.name).and_then(|at| at.value);
        let problem = match name {
            Some(name) if !members.contains_key(&name) => {
                let member =
                    MemberKeys { capabilities: agent.capabilities, ..MemberKeys::default() };
                members.insert(name, At::new(node, member));
                continue;
            }
            Some(name) => format!("the agent `{}` is listed twice", text::clip(&name)),
            None => "an agent needs a `Name`".to_string(),
        };
        cx.error(node, "agent.name", problem, "give each agent a name of its own");
        sound = false;
    }
    let members = Some(At::new(node, members));
    sound.then_some(GrantsKeys { members })
}

fn server(cx: &mut Cx<'_>, node: NodeId, manager: &Manager) -> Draft {
    let name = peek(cx, node, &["ServerName", "server_name"]);
    // Without a name, its place in the list is what people can find it by.
    let id = name.clone().unwrap_or_else(|| cx.doc.path(node));
    cx.enter(&id);
    let mut entry = cx.server_entry::<Server>(node);
    let mut draft = Draft::new(&id, node, Dialect::Minion);
    draft.sound = entry.sound;
    draft.extras = entry.extras;
    // What could not be read has been told; what is missing because of it need not be.
    if entry.sound {
        draft.sound = is_complete(cx, node, &entry.value, name.is_some());
        let (kind, config) = (entry.value.auth_type.take(), entry.value.auth_config.take());
        draft.sound &= auth(cx, &mut draft.policy, nonempty(kind), given(config));
    }
    policy(&mut draft, &mut entry.value, manager);
    draft.transport = transport(cx, node, entry.value);
    cx.leave();
    draft
}

/// Whether an entry says what every server must; the refusal of a transport has Minion's own words.
fn is_complete(cx: &mut Cx<'_>, node: NodeId, server: &Server, named: bool) -> bool {
    if !named {
        let problem = "the server has no `ServerName`";
        cx.error(node, "name.missing", problem, "add `ServerName: NAME`");
    }
    let word = server.transport.as_ref();
    let problem = match word.and_then(|at| at.value.as_deref()) {
        Some(word) if kind(word).is_some() => return named,
        Some(word) => format!("unsupported transport: {}", text::clip(word)),
        None => "the server has no `Transport`".to_string(),
    };
    let node = word.map_or(node, |at| at.node);
    cx.error(node, "transport.unsupported", problem, "use `stdio` or `http`");
    false
}

fn policy(draft: &mut Draft, server: &mut Server, manager: &Manager) {
    let node = draft.node;
    let policy = &mut draft.policy;
    policy.description = nonempty(server.description.take());
    policy.init = server.capabilities.take().map(|at| {
        let keys = InitKeys { require_server: Some(at), ..InitKeys::default() };
        At::new(node, keys)
    });
    policy.expose = server.required_capabilities.take().map(|at| At::new(node, requires(at)));
    let default = || period(manager.default_timeout.clone());
    let timeouts = timeouts(
        period(server.connect_timeout.take()).or_else(default),
        period(server.request_timeout.take()).or_else(default),
    );
    policy.timeouts = Some(At::new(node, timeouts));
    let lifecycle = lifecycle(node, server.retry_policy.take(), manager);
    policy.lifecycle = Some(At::new(node, lifecycle));
}

fn transport(cx: &Cx<'_>, node: NodeId, server: Server) -> TransportKeys {
    TransportKeys {
        kind: server.transport.and_then(|at| Some(At::new(at.node, kind(at.value.as_deref()?)?))),
        command: nonempty(server.command).map(|at| at.map(Plain::literal)),
        args: server
            .args
            .filter(|at| at.value.as_ref().is_none_or(|args| !args.is_empty()))
            .map(|at| at.map(|args| args.into_iter().map(Plain::literal).collect())),
        cwd: nonempty(server.working_dir)
            .map(|at| at.map(|path| Plain::literal(cx.absolute(&path).display().to_string()))),
        env: server.env.map(|at| {
            let keys = EnvKeys { set: Some(at.map(verbatim)), ..EnvKeys::default() };
            At::new(node, keys)
        }),
        url: nonempty(server.url).map(|at| at.map(Plain::literal)),
        ..TransportKeys::default()
    }
}

fn kind(word: &str) -> Option<TransportKind> {
    match word {
        "stdio" => Some(TransportKind::Stdio),
        "http" => Some(TransportKind::StreamableHttp),
        _ => None,
    }
}

/// Finding the tools is part of connecting, so that one limit covers both; and a limit on a call
/// is one in all, since Go's deadline does not move while there is progress.
fn timeouts(connect: Option<At<Period>>, request: Option<At<Period>>) -> TimeoutsKeys {
    TimeoutsKeys {
        startup: connect.clone(),
        connect,
        request_max: request.clone(),
        request,
        ..TimeoutsKeys::default()
    }
}

fn lifecycle(node: NodeId, own: Option<At<RetryPolicy>>, manager: &Manager) -> LifecycleKeys {
    let common = retry(given(manager.retry_policy.clone()));
    let reconnect = ReconnectKeys {
        auto: manager.enable_auto_reconnect.clone(),
        // MIN-63: without auto-reconnect no attempt is made, not even for a call.
        on_demand: manager.enable_auto_reconnect.clone(),
        max: manager.max_reconnect_retries.clone(),
        initial: period(manager.reconnect_backoff.clone()),
        ..ReconnectKeys::default()
    };
    LifecycleKeys {
        retry: Some(At::new(node, retry(given(own)).or(common))),
        reconnect: Some(At::new(node, reconnect)),
        ..LifecycleKeys::default()
    }
}

fn retry(policy: RetryPolicy) -> RetryKeys {
    RetryKeys {
        max: policy.max_retries,
        initial: period(policy.initial_backoff),
        max_delay: period(policy.max_backoff),
        factor: policy.backoff_multiplier,
        jitter: None,
    }
}

fn requires(at: At<BTreeMap<String, Vec<String>>>) -> ExposeKeys {
    let node = at.node;
    let tools = ToolFilterKeys { requires: Some(at), ..ToolFilterKeys::default() };
    ExposeKeys { tools: Some(At::new(node, tools)), ..ExposeKeys::default() }
}

#[cfg(test)]
#[path = "minion_tests.rs"]
mod tests;

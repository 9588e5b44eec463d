//! Reads Minion's manager, servers and agents: JSON or YAML with the names of its Go fields, or the same
//! names in snake case.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::go_duration::{GoDuration, non_zero_period};
use super::minion_auth::{AuthConfig, set_auth};
use super::{Dialect, DialectFile, ServerDraft, non_empty, peek_text, to_values, value_or_default};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, NodeId};
use crate::model::host::{GrantsKeys, HostKeys, MemberKeys};
use crate::model::policy::{
    ExposeKeys, InitKeys, LifecycleKeys, ReconnectKeys, RetryKeys, TimeoutsKeys, ToolFilterKeys,
};
use crate::model::security::SecuritySection;
use crate::model::transport::{DisplayValue, EnvKeys, TransportKeys, TransportKind};
use crate::model::units::Period;
use crate::text;
use crate::value::Verbatim;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct MinionFile {
    #[serde(alias = "manager")]
    manager: Option<At<ManagerSettings>>,
    #[serde(alias = "servers")]
    servers: Option<At<Vec<At<IgnoredAny>>>>,
    #[serde(alias = "agents")]
    agents: Option<At<Vec<At<AgentEntry>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ManagerSettings {
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
    /// A Go value that a file cannot contain. Any value is accepted and ignored.
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
struct MinionServer {
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
    /// Minion's design uses both names.
    #[serde(rename = "URL", alias = "url", alias = "HTTPUrl", alias = "http_url")]
    url: Option<At<String>>,
    #[serde(alias = "auth_type")]
    auth_type: Option<At<String>>,
    #[serde(alias = "auth_config")]
    auth_config: Option<At<AuthConfig>>,
    #[serde(alias = "capabilities")]
    capabilities: Option<At<Vec<String>>>,
    /// Additional capabilities that an agent needs, by the original name of the tool.
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
struct AgentEntry {
    #[serde(alias = "name")]
    name: Option<At<String>>,
    #[serde(alias = "capabilities")]
    capabilities: Option<At<Vec<String>>>,
}

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let misspelt = report_misspelt_agents(cx);
    let entry = cx.read_server_entry::<MinionFile>(Doc::ROOT);
    let agents_node = entry.value.agents.as_ref().map(|at| at.node).or(misspelt);
    let manager = value_or_default(entry.value.manager);
    let mut file = DialectFile::new();
    for At { node, .. } in value_or_default(entry.value.servers) {
        file.servers.push(read_server(cx, node, &manager));
    }
    file.reject_duplicate_names(cx);
    let agents = entry.value.agents.filter(|_| entry.is_valid);
    let is_valid = entry.is_valid && misspelt.is_none();
    let Some(grants) = read_grants(cx, agents).filter(|_| is_valid) else {
        // The agents may restrict the servers of other files.
        let invalid = agents_node.map(|node| (SecuritySection::Grants, node)).into_iter().collect();
        return DialectFile { invalid_sections: invalid, ..file.into_failed() };
    };
    let host = HostKeys {
        max_servers: manager.max_servers,
        grants: Some(At::new(Doc::ROOT, grants)),
        ..HostKeys::default()
    };
    file.host = Some(At::new(Doc::ROOT, host));
    file
}

/// Finds and reports a misspelt `Agents`, or one inside `Manager`. Returns its node.
fn report_misspelt_agents(cx: &mut CompileContext<'_>) -> Option<NodeId> {
    let is_misspelt = |key: &str| {
        !matches!(key, "Agents" | "agents") && text::find_misspelling(key, &["Agents"]).is_some()
    };
    let position = |map: NodeId, is_meant: &dyn Fn(&str) -> bool| {
        let index = cx.doc.entries(map).iter().position(|(key, _)| is_meant(&key.name))?;
        Some((map, index))
    };
    let manager = ["Manager", "manager"].into_iter().find_map(|key| cx.doc.get(Doc::ROOT, key));
    let (map, index) = position(Doc::ROOT, &is_misspelt)
        .or_else(|| position(manager?, &|key| text::is_same_key(key, "Agents")))?;
    cx.report_restricting_key(map, index, "the file", Some("Agents"));
    cx.doc.entries(map).get(index).map(|(_, value)| *value)
}

/// Returns the agents' capabilities, or `None` if an agent's name is missing or not unique.
fn read_grants(
    cx: &mut CompileContext<'_>,
    agents: Option<At<Vec<At<AgentEntry>>>>,
) -> Option<GrantsKeys> {
    let node = agents.as_ref().map_or(Doc::ROOT, |at| at.node);
    let mut members = IndexMap::new();
    let mut is_valid = true;
    for At { node, value } in value_or_default(agents) {
        let agent = value.unwrap_or_default();
        let name = non_empty(agent.name).and_then(|at| at.value);
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
        cx.error(node, "agent.name", problem, "give each agent a unique name");
        is_valid = false;
    }
    let members = Some(At::new(node, members));
    is_valid.then_some(GrantsKeys { members })
}

fn read_server(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    manager: &ManagerSettings,
) -> ServerDraft {
    let name = peek_text(cx, node, &["ServerName", "server_name"]);
    // Without a name, the path in the list identifies the entry.
    let id = name.clone().unwrap_or_else(|| cx.doc.path(node));
    cx.enter_server(&id);
    let mut entry = cx.read_server_entry::<MinionServer>(node);
    let mut draft = ServerDraft::new(&id, node, Dialect::Minion);
    draft.is_valid = entry.is_valid;
    draft.extras = entry.extras;
    // Unreadable values have already been reported, so missing keys that result from them are not reported.
    if entry.is_valid {
        draft.is_valid = check_required_keys(cx, node, &entry.value, name.is_some());
        let (kind, config) = (entry.value.auth_type.take(), entry.value.auth_config.take());
        draft.is_valid &=
            set_auth(cx, &mut draft.policy, non_empty(kind), value_or_default(config));
    }
    set_policy(&mut draft, &mut entry.value, manager);
    draft.transport = transport_keys(cx, node, entry.value);
    cx.leave_server();
    draft
}

/// Checks the keys that every server needs. The message for an unsupported transport is Minion's own.
fn check_required_keys(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    server: &MinionServer,
    named: bool,
) -> bool {
    if !named {
        let problem = "the server has no `ServerName`";
        cx.error(node, "name.missing", problem, "add `ServerName: NAME`");
    }
    let word = server.transport.as_ref();
    let problem = match word.and_then(|at| at.value.as_deref()) {
        Some(word) if transport_kind(word).is_some() => return named,
        Some(word) => format!("unsupported transport: {}", text::clip(word)),
        None => "the server has no `Transport`".to_string(),
    };
    let node = word.map_or(node, |at| at.node);
    cx.error(node, "transport.unsupported", problem, "use `stdio` or `http`");
    false
}

fn set_policy(draft: &mut ServerDraft, server: &mut MinionServer, manager: &ManagerSettings) {
    let node = draft.node;
    let policy = &mut draft.policy;
    policy.description = non_empty(server.description.take());
    policy.init = server.capabilities.take().map(|at| {
        let keys = InitKeys { require_server: Some(at), ..InitKeys::default() };
        At::new(node, keys)
    });
    policy.expose =
        server.required_capabilities.take().map(|at| At::new(node, expose_requirements(at)));
    let default = || non_zero_period(manager.default_timeout.clone());
    let timeouts = timeout_keys(
        non_zero_period(server.connect_timeout.take()).or_else(default),
        non_zero_period(server.request_timeout.take()).or_else(default),
    );
    policy.timeouts = Some(At::new(node, timeouts));
    let lifecycle = lifecycle_keys(node, server.retry_policy.take(), manager);
    policy.lifecycle = Some(At::new(node, lifecycle));
}

fn transport_keys(cx: &CompileContext<'_>, node: NodeId, server: MinionServer) -> TransportKeys {
    TransportKeys {
        kind: server
            .transport
            .and_then(|at| Some(At::new(at.node, transport_kind(at.value.as_deref()?)?))),
        command: non_empty(server.command).map(|at| at.map(DisplayValue::literal)),
        args: server
            .args
            .filter(|at| at.value.as_ref().is_none_or(|args| !args.is_empty()))
            .map(|at| at.map(|args| args.into_iter().map(DisplayValue::literal).collect())),
        cwd: non_empty(server.working_dir).map(|at| {
            at.map(|path| DisplayValue::literal(cx.absolute_path(&path).display().to_string()))
        }),
        env: server.env.map(|at| {
            let keys = EnvKeys { set: Some(at.map(to_values)), ..EnvKeys::default() };
            At::new(node, keys)
        }),
        url: non_empty(server.url).map(|at| at.map(DisplayValue::literal)),
        ..TransportKeys::default()
    }
}

fn transport_kind(word: &str) -> Option<TransportKind> {
    match word {
        "stdio" => Some(TransportKind::Stdio),
        "http" => Some(TransportKind::StreamableHttp),
        _ => None,
    }
}

/// Tool discovery is part of connecting, so one timeout covers both. A call timeout is a total limit, because
/// progress does not move Go's deadline.
fn timeout_keys(connect: Option<At<Period>>, request: Option<At<Period>>) -> TimeoutsKeys {
    TimeoutsKeys {
        startup: connect.clone(),
        connect,
        request_max: request.clone(),
        request,
        ..TimeoutsKeys::default()
    }
}

fn lifecycle_keys(
    node: NodeId,
    own: Option<At<RetryPolicy>>,
    manager: &ManagerSettings,
) -> LifecycleKeys {
    let common = retry_keys(value_or_default(manager.retry_policy.clone()));
    let reconnect = ReconnectKeys {
        auto: manager.enable_auto_reconnect.clone(),
        // MIN-63: without auto-reconnect no attempt is made, not even for a call.
        on_demand: manager.enable_auto_reconnect.clone(),
        max: manager.max_reconnect_retries.clone(),
        initial: non_zero_period(manager.reconnect_backoff.clone()),
        ..ReconnectKeys::default()
    };
    LifecycleKeys {
        retry: Some(At::new(node, retry_keys(value_or_default(own)).or(common))),
        reconnect: Some(At::new(node, reconnect)),
        ..LifecycleKeys::default()
    }
}

fn retry_keys(policy: RetryPolicy) -> RetryKeys {
    RetryKeys {
        max: policy.max_retries,
        initial: non_zero_period(policy.initial_backoff),
        max_delay: non_zero_period(policy.max_backoff),
        factor: policy.backoff_multiplier,
        jitter: None,
    }
}

fn expose_requirements(at: At<BTreeMap<String, Vec<String>>>) -> ExposeKeys {
    let node = at.node;
    let tools = ToolFilterKeys { requires: Some(at), ..ToolFilterKeys::default() };
    ExposeKeys { tools: Some(At::new(node, tools)), ..ExposeKeys::default() }
}

#[cfg(test)]
#[path = "minion_tests.rs"]
mod tests;

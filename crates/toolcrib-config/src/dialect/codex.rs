//! Codex's `config.toml`: the tables `[mcp_servers.<name>]`.

use indexmap::IndexMap;
use serde::Deserialize;

use super::clients::{self, Foreign};
use super::expand::{Expander, Headers, Reached, Variables};
use super::{Draft, Loaded};
use crate::cx::Cx;
use crate::doc::{At, Doc, Either};
use crate::model::auth::Auth;
use crate::model::choice::Inherit;
use crate::model::transport::{EnvKeys, TransportKeys};
use crate::model::units::Period;
use crate::value::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    enabled: Option<At<bool>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    cwd: Option<At<String>>,
    env: Option<At<Variables>>,
    env_vars: Option<At<Vec<Either<String, Variable>>>>,
    url: Option<At<String>>,
    bearer_token: Option<At<serde::de::IgnoredAny>>,
    bearer_token_env_var: Option<At<String>>,
    http_headers: Option<At<Headers>>,
    env_http_headers: Option<At<Headers>>,
    oauth: Option<At<Client>>,
    scopes: Option<At<Vec<String>>>,
    startup_timeout_sec: Option<At<f64>>,
    startup_timeout_ms: Option<At<u64>>,
    tool_timeout_sec: Option<At<f64>>,
    enabled_tools: Option<At<Vec<String>>>,
    disabled_tools: Option<At<Vec<String>>>,
}

/// A variable to inherit, and from which machine; this is the only one here.
#[derive(Clone, Debug, Deserialize)]
struct Variable {
    name: String,
    #[serde(default, rename = "source")]
    _source: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Client {
    client_id: Option<At<String>>,
}

const FOREIGN: Foreign = Foreign {
    passed: &["name", "required", "supports_parallel_tool_calls", "omit_tools_from"],
    unsupported: &[
        "auth",
        "environment_id",
        "http_headers_helper",
        "oauth_resource",
        "default_tools_approval_mode",
        "tools",
    ],
};

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let mut loaded = Loaded::new();
    let list = cx.doc.get(Doc::ROOT, "mcp_servers");
    loaded.servers = clients::servers(cx, list, &FOREIGN, server);
    loaded
}

fn server(cx: &mut Cx<'_>, draft: &mut Draft, mut server: Server) {
    if let Some(At { node, .. }) = server.bearer_token {
        let text = "a token stands in the file; Codex refuses that";
        let fix = "set a variable to it and name that in `bearer_token_env_var`";
        cx.error(node, "auth.inline_token", text, fix);
        draft.sound = false;
    }
    draft.policy.enabled = server.enabled.take();
    let (allow, deny) = (server.enabled_tools.take(), server.disabled_tools.take());
    clients::filter(&mut draft.policy, allow, deny);
    let in_ms = server.startup_timeout_ms.take();
    let startup = seconds(cx, draft, server.startup_timeout_sec.take());
    let call = seconds(cx, draft, server.tool_timeout_sec.take());
    let startup = startup.or(in_ms.map(|at| at.map(Period::millis)));
    clients::timeouts(&mut draft.policy, startup, call);
    // Codex expands nothing: what comes from a variable has a key of its own.
    let literal = |text: &str| Ok(Value::literal(text));
    let mut expander = Expander::new(cx, draft, &literal);
    expander.transport(Reached {
        command: server.command,
        args: server.args,
        cwd: server.cwd,
        env: server.env,
        url: server.url,
        headers: server.http_headers,
        ..Reached::default()
    });
    let scopes = server.scopes.and_then(|at| at.value).unwrap_or_default();
    if let Some(At { node, value }) = server.oauth {
        let id = value.and_then(|client| client.client_id);
        expander.oauth(node, id, None, scopes);
    }
    if let Some(At { node, value: Some(name) }) = server.bearer_token_env_var {
        let token = Value::from_env(name);
        draft.policy.auth = Some(At::new(node, Auth::Bearer { token }));
    }
    headers_of_variables(&mut draft.transport, server.env_http_headers);
    inherit(&mut draft.transport, server.env_vars);
}

fn seconds(cx: &mut Cx<'_>, draft: &mut Draft, given: Option<At<f64>>) -> Option<At<Period>> {
    let At { node, value } = given?;
    let period = value.and_then(Period::from_secs_f64);
    if value.is_some() && period.is_none() {
        let text = "this is no length of time";
        cx.error(node, "value.invalid", text, "give a number of seconds");
        draft.sound = false;
    }
    period.map(|period| At::new(node, period))
}

fn headers_of_variables(transport: &mut TransportKeys, given: Option<At<Headers>>) {
    let Some(At { node, value: Some(given) }) = given else {
        return;
    };
    let headers = transport.headers.get_or_insert_with(|| At::new(node, IndexMap::new()));
    let named = given.into_iter().map(|(header, at)| (header, at.map(Value::from_env)));
    headers.value.get_or_insert_default().extend(named);
}

/// The listed variables reach the server besides those that every server has.
fn inherit(transport: &mut TransportKeys, given: Option<At<Vec<Either<String, Variable>>>>) {
    let Some(At { node, value: Some(given) }) = given else {
        return;
    };
    let listed = given.into_iter().map(|variable| match variable {
        Either::Scalar(name) | Either::Nested(Variable { name, .. }) => name,
    });
    let names = Inherit::MINIMAL.iter().map(ToString::to_string).chain(listed);
    let env = transport.env.get_or_insert_with(|| At::new(node, EnvKeys::default()));
    env.value.get_or_insert_default().inherit =
        Some(At::new(node, Inherit::These(names.collect())));
}

#[cfg(test)]
#[path = "codex_tests.rs"]
mod tests;

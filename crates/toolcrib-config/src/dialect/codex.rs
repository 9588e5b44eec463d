//! Reads the tables `[mcp_servers.<name>]` of Codex's `config.toml`.

use indexmap::IndexMap;
use serde::Deserialize;

use super::client_servers::{self, ExtraClientKeys};
use super::expand::{Expander, Headers, TransportTexts, Variables};
use super::{DialectFile, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, Either};
use crate::model::auth::Auth;
use crate::model::choice::InheritedEnv;
use crate::model::transport::{EnvKeys, TransportKeys};
use crate::model::units::Period;
use crate::value::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexServer {
    enabled: Option<At<bool>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    cwd: Option<At<String>>,
    env: Option<At<Variables>>,
    env_vars: Option<At<Vec<Either<String, InheritedVariable>>>>,
    url: Option<At<String>>,
    bearer_token: Option<At<serde::de::IgnoredAny>>,
    bearer_token_env_var: Option<At<String>>,
    http_headers: Option<At<Headers>>,
    env_http_headers: Option<At<Headers>>,
    oauth: Option<At<OAuthClient>>,
    scopes: Option<At<Vec<String>>>,
    startup_timeout_sec: Option<At<f64>>,
    startup_timeout_ms: Option<At<u64>>,
    tool_timeout_sec: Option<At<f64>>,
    enabled_tools: Option<At<Vec<String>>>,
    disabled_tools: Option<At<Vec<String>>>,
}

/// A variable to inherit. `source` names the machine that provides it; toolcrib always uses its own machine.
#[derive(Clone, Debug, Deserialize)]
struct InheritedVariable {
    name: String,
    #[serde(default, rename = "source")]
    _source: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OAuthClient {
    client_id: Option<At<String>>,
}

const CLIENT_KEYS: ExtraClientKeys = ExtraClientKeys {
    ignored: &["name", "required", "supports_parallel_tool_calls", "omit_tools_from"],
    unsupported: &[
        "auth",
        "environment_id",
        "http_headers_helper",
        "oauth_resource",
        "default_tools_approval_mode",
        "tools",
    ],
};

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let mut file = DialectFile::new();
    let list = cx.doc.get(Doc::ROOT, "mcp_servers");
    file.servers = client_servers::read_servers(cx, list, &CLIENT_KEYS, lower_server);
    file
}

fn lower_server(cx: &mut CompileContext<'_>, draft: &mut ServerDraft, mut server: CodexServer) {
    if let Some(At { node, .. }) = server.bearer_token {
        let text = "the file contains a bearer token; Codex rejects inline tokens";
        let fix = "put the token into a variable and name the variable in `bearer_token_env_var`";
        cx.error(node, "auth.inline_token", text, fix);
        draft.is_valid = false;
    }
    draft.policy.enabled = server.enabled.take();
    let (allow, deny) = (server.enabled_tools.take(), server.disabled_tools.take());
    client_servers::set_tool_filter(&mut draft.policy, allow, deny);
    let in_ms = server.startup_timeout_ms.take();
    let startup = period_from_seconds(cx, draft, server.startup_timeout_sec.take());
    let call = period_from_seconds(cx, draft, server.tool_timeout_sec.take());
    let startup = startup.or(in_ms.map(|at| at.map(Period::millis)));
    client_servers::set_timeouts(&mut draft.policy, startup, call);
    // Codex expands no text: values from variables have keys of their own.
    let literal = |text: &str| Ok(Value::literal(text));
    let mut expander = Expander::new(cx, draft, &literal);
    expander.set_transport(TransportTexts {
        command: server.command,
        args: server.args,
        cwd: server.cwd,
        env: server.env,
        url: server.url,
        headers: server.http_headers,
        ..TransportTexts::default()
    });
    let scopes = server.scopes.and_then(|at| at.value).unwrap_or_default();
    if let Some(At { node, value }) = server.oauth {
        let id = value.and_then(|client| client.client_id);
        expander.set_oauth(node, id, None, scopes);
    }
    if let Some(At { node, value: Some(name) }) = server.bearer_token_env_var {
        let token = Value::from_env(name);
        draft.policy.auth = Some(At::new(node, Auth::Bearer { token }));
    }
    set_headers_from_env(&mut draft.transport, server.env_http_headers);
    set_inherited_variables(&mut draft.transport, server.env_vars);
}

fn period_from_seconds(
    cx: &mut CompileContext<'_>,
    draft: &mut ServerDraft,
    given: Option<At<f64>>,
) -> Option<At<Period>> {
    let At { node, value } = given?;
    let period = value.and_then(Period::from_secs_f64);
    if value.is_some() && period.is_none() {
        let text = "invalid duration: expected a number of seconds";
        cx.error(node, "value.invalid", text, "give a number of seconds");
        draft.is_valid = false;
    }
    period.map(|period| At::new(node, period))
}

fn set_headers_from_env(transport: &mut TransportKeys, given: Option<At<Headers>>) {
    let Some(At { node, value: Some(given) }) = given else {
        return;
    };
    let headers = transport.headers.get_or_insert_with(|| At::new(node, IndexMap::new()));
    let named = given.into_iter().map(|(header, at)| (header, at.map(Value::from_env)));
    headers.value.get_or_insert_default().extend(named);
}

/// Adds the listed variables to the minimal set that every server inherits.
fn set_inherited_variables(
    transport: &mut TransportKeys,
    given: Option<At<Vec<Either<String, InheritedVariable>>>>,
) {
    let Some(At { node, value: Some(given) }) = given else {
        return;
    };
    let listed = given.into_iter().map(|variable| match variable {
        Either::Scalar(name) | Either::Nested(InheritedVariable { name, .. }) => name,
    });
    let names = InheritedEnv::MINIMAL.iter().map(ToString::to_string).chain(listed);
    let env = transport.env.get_or_insert_with(|| At::new(node, EnvKeys::default()));
    env.value.get_or_insert_default().inherit =
        Some(At::new(node, InheritedEnv::These(names.collect())));
}

#[cfg(test)]
#[path = "codex_tests.rs"]
mod tests;

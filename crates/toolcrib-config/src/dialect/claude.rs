//! Reads Claude's files: `.mcp.json` and `.claude.json` of Claude Code, `claude_desktop_config.json`.

use std::path::Path;

use serde::Deserialize;

use super::client_servers::{self, ExtraClientKeys};
use super::expand::{self, Expander, Headers, TransportTexts, Variables};
use super::{DialectFile, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc};
use crate::model::transport::TransportKind;
use crate::model::units::Period;
use crate::value::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaudeServer {
    r#type: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    env: Option<At<Variables>>,
    url: Option<At<String>>,
    headers: Option<At<Headers>>,
    /// Timeout of one call in milliseconds.
    timeout: Option<At<u64>>,
    oauth: Option<At<OAuthClient>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OAuthClient {
    #[serde(rename = "clientId")]
    id: Option<At<String>>,
    /// Scopes, separated by spaces.
    scopes: Option<At<String>>,
}

const CLIENT_KEYS: ExtraClientKeys =
    ExtraClientKeys { ignored: &["alwaysLoad"], unsupported: &["headersHelper"] };

const TYPES: &[(&str, TransportKind)] = &[
    ("stdio", TransportKind::Stdio),
    ("http", TransportKind::StreamableHttp),
    ("streamable-http", TransportKind::StreamableHttp),
    ("sse", TransportKind::Sse),
    ("ws", TransportKind::WebSocket),
];

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let root = cx.base.display().to_string();
    let project_servers = cx
        .doc
        .get(Doc::ROOT, "projects")
        .and_then(|projects| cx.doc.get(projects, &root))
        .and_then(|project| cx.doc.get(project, "mcpServers"));
    let mut file = DialectFile::new();
    file.servers = client_servers::read_servers(cx, project_servers, &CLIENT_KEYS, lower_server);
    let user_servers = cx.doc.get(Doc::ROOT, "mcpServers");
    for draft in client_servers::read_servers(cx, user_servers, &CLIENT_KEYS, lower_server) {
        if file.servers.iter().any(|other| other.id == draft.id) {
            let text = format!(
                "`{}` is also declared for this folder; the declaration for the folder is used",
                draft.id
            );
            cx.enter_server(&draft.id);
            cx.info(draft.node, "server.shadowed", text, "remove one of the two");
            cx.leave_server();
        } else {
            file.servers.push(draft);
        }
    }
    file
}

fn lower_server(cx: &mut CompileContext<'_>, draft: &mut ServerDraft, server: ClaudeServer) {
    let desktop =
        Path::new(&*cx.label).file_name().is_some_and(|name| name == "claude_desktop_config.json");
    let expand: &expand::ExpandFn<'_> = if desktop { &literal_value } else { &expand_variables };
    let call = server.timeout.map(|at| at.map(Period::millis));
    client_servers::set_timeouts(&mut draft.policy, None, call);
    let kind = client_servers::transport_kind(cx, draft, server.r#type, TYPES);
    let mut expander = Expander::new(cx, draft, expand);
    expander.set_transport(TransportTexts {
        kind,
        command: server.command,
        args: server.args,
        env: server.env,
        url: server.url,
        headers: server.headers,
        ..TransportTexts::default()
    });
    if let Some(At { node, value: Some(client) }) = server.oauth {
        let scopes = client.scopes.and_then(|at| at.value).unwrap_or_default();
        let scopes = scopes.split_whitespace().map(str::to_string).collect();
        expander.set_oauth(node, client.id, None, scopes);
    }
}

/// Expands `${VAR}` and `${VAR:-default}`.
fn expand_variables(text: &str) -> Result<Value, String> {
    expand::expand_template(text, &|inside| Ok(expand::parse_variable(inside)))
}

fn literal_value(text: &str) -> Result<Value, String> {
    Ok(Value::literal(text))
}

#[cfg(test)]
#[path = "claude_tests.rs"]
mod tests;

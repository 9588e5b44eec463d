//! Claude's files: `.mcp.json` and `.claude.json` of Claude Code, `claude_desktop_config.json`.

use std::path::Path;

use serde::Deserialize;

use super::clients::{self, Foreign};
use super::expand::{self, Expander, Headers, Reached, Variables};
use super::{Draft, Loaded};
use crate::cx::Cx;
use crate::doc::{At, Doc};
use crate::model::transport::TransportKind;
use crate::model::units::Period;
use crate::value::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    r#type: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    env: Option<At<Variables>>,
    url: Option<At<String>>,
    headers: Option<At<Headers>>,
    /// Milliseconds for one call.
    timeout: Option<At<u64>>,
    oauth: Option<At<Client>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Client {
    #[serde(rename = "clientId")]
    id: Option<At<String>>,
    /// Separated by spaces.
    scopes: Option<At<String>>,
}

const FOREIGN: Foreign = Foreign { passed: &["alwaysLoad"], unsupported: &["headersHelper"] };

const TYPES: &[(&str, TransportKind)] = &[
    ("stdio", TransportKind::Stdio),
    ("http", TransportKind::StreamableHttp),
    ("streamable-http", TransportKind::StreamableHttp),
    ("sse", TransportKind::Sse),
    ("ws", TransportKind::WebSocket),
];

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let root = cx.base.display().to_string();
    let of_root = cx
        .doc
        .get(Doc::ROOT, "projects")
        .and_then(|projects| cx.doc.get(projects, &root))
        .and_then(|project| cx.doc.get(project, "mcpServers"));
    let mut loaded = Loaded::new();
    loaded.servers = clients::servers(cx, of_root, &FOREIGN, server);
    let own = cx.doc.get(Doc::ROOT, "mcpServers");
    for draft in clients::servers(cx, own, &FOREIGN, server) {
        if loaded.servers.iter().any(|other| other.id == draft.id) {
            let text = format!("`{}` is also declared for this folder; that one is used", draft.id);
            cx.enter(&draft.id);
            cx.info(draft.node, "server.shadowed", text, "remove one of the two");
            cx.leave();
        } else {
            loaded.servers.push(draft);
        }
    }
    loaded
}

fn server(cx: &mut Cx<'_>, draft: &mut Draft, server: Server) {
    let desktop =
        Path::new(&*cx.label).file_name().is_some_and(|name| name == "claude_desktop_config.json");
    let expand: &expand::Expand<'_> = if desktop { &literal } else { &expand };
    let call = server.timeout.map(|at| at.map(Period::millis));
    clients::timeouts(&mut draft.policy, None, call);
    let kind = clients::kind(cx, draft, server.r#type, TYPES);
    let mut expander = Expander::new(cx, draft, expand);
    expander.transport(Reached {
        kind,
        command: server.command,
        args: server.args,
        env: server.env,
        url: server.url,
        headers: server.headers,
        ..Reached::default()
    });
    if let Some(At { node, value: Some(client) }) = server.oauth {
        let scopes = client.scopes.and_then(|at| at.value).unwrap_or_default();
        let scopes = scopes.split_whitespace().map(str::to_string).collect();
        expander.oauth(node, client.id, None, scopes);
    }
}

/// `${VAR}` and `${VAR:-default}`.
fn expand(text: &str) -> Result<Value, String> {
    expand::template(text, &|inside| Ok(expand::variable(inside)))
}

fn literal(text: &str) -> Result<Value, String> {
    Ok(Value::literal(text))
}

#[cfg(test)]
#[path = "claude_tests.rs"]
mod tests;

//! Cursor's `mcp.json`: of a project in `.cursor/`, or the person's own in the home folder.

use serde::Deserialize;

use super::clients::{self, Foreign};
use super::editor::Editor;
use super::expand::{self, Expander, Headers, Reached, Variables};
use super::{Draft, Loaded};
use crate::cx::Cx;
use crate::doc::{At, Doc};
use crate::model::transport::TransportKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    r#type: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    env: Option<At<Variables>>,
    #[serde(rename = "envFile")]
    env_file: Option<At<String>>,
    url: Option<At<String>>,
    headers: Option<At<Headers>>,
    auth: Option<At<Client>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Client {
    #[serde(rename = "CLIENT_ID")]
    id: Option<At<String>>,
    #[serde(rename = "CLIENT_SECRET")]
    secret: Option<At<String>>,
    scopes: Option<At<Vec<String>>>,
}

const FOREIGN: Foreign = Foreign { passed: &[], unsupported: &[] };

const TYPES: &[(&str, TransportKind)] = &[
    ("stdio", TransportKind::Stdio),
    ("http", TransportKind::StreamableHttp),
    ("streamable-http", TransportKind::StreamableHttp),
    ("streamableHttp", TransportKind::StreamableHttp),
    ("sse", TransportKind::Sse),
];

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let mut loaded = Loaded::new();
    let list = cx.doc.get(Doc::ROOT, "mcpServers");
    loaded.servers = clients::servers(cx, list, &FOREIGN, server);
    loaded
}

fn server(cx: &mut Cx<'_>, draft: &mut Draft, server: Server) {
    let editor = Editor::new(cx, None);
    let expand = |text: &str| expand::template(text, &|inside| Ok(editor.part(inside)));
    let kind = clients::kind(cx, draft, server.r#type, TYPES);
    let mut expander = Expander::new(cx, draft, &expand);
    expander.transport(Reached {
        kind,
        command: server.command,
        args: server.args,
        env: server.env,
        env_file: server.env_file,
        url: server.url,
        headers: server.headers,
        ..Reached::default()
    });
    if let Some(At { node, value: Some(client) }) = server.auth {
        let scopes = client.scopes.and_then(|at| at.value).unwrap_or_default();
        expander.oauth(node, client.id, client.secret, scopes);
    }
}

#[cfg(test)]
#[path = "cursor_tests.rs"]
mod tests;

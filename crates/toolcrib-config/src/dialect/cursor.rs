//! Reads Cursor's `mcp.json`: of a project in `.cursor/`, or of the user in the home folder.

use serde::Deserialize;

use super::client_servers::{self, ExtraClientKeys};
use super::editor_variables::EditorVariables;
use super::expand::{self, Expander, Headers, TransportTexts, Variables};
use super::{DialectFile, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc};
use crate::model::transport::TransportKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CursorServer {
    r#type: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    env: Option<At<Variables>>,
    #[serde(rename = "envFile")]
    env_file: Option<At<String>>,
    url: Option<At<String>>,
    headers: Option<At<Headers>>,
    auth: Option<At<OAuthClient>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OAuthClient {
    #[serde(rename = "CLIENT_ID")]
    id: Option<At<String>>,
    #[serde(rename = "CLIENT_SECRET")]
    secret: Option<At<String>>,
    scopes: Option<At<Vec<String>>>,
}

const CLIENT_KEYS: ExtraClientKeys = ExtraClientKeys { ignored: &[], unsupported: &[] };

const TYPES: &[(&str, TransportKind)] = &[
    ("stdio", TransportKind::Stdio),
    ("http", TransportKind::StreamableHttp),
    ("streamable-http", TransportKind::StreamableHttp),
    ("streamableHttp", TransportKind::StreamableHttp),
    ("sse", TransportKind::Sse),
];

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let mut file = DialectFile::new();
    let list = cx.doc.get(Doc::ROOT, "mcpServers");
    file.servers = client_servers::read_servers(cx, list, &CLIENT_KEYS, lower_server);
    file
}

fn lower_server(cx: &mut CompileContext<'_>, draft: &mut ServerDraft, server: CursorServer) {
    let editor = EditorVariables::new(cx, None);
    let expand = |text: &str| expand::expand_template(text, &|inside| Ok(editor.resolve(inside)));
    let kind = client_servers::transport_kind(cx, draft, server.r#type, TYPES);
    let mut expander = Expander::new(cx, draft, &expand);
    expander.set_transport(TransportTexts {
        kind,
        command: server.command,
        args: server.args,
        env: server.env,
        env_file: server.env_file,
        url: server.url,
        headers: server.headers,
        ..TransportTexts::default()
    });
    if let Some(At { node, value: Some(client) }) = server.auth {
        let scopes = client.scopes.and_then(|at| at.value).unwrap_or_default();
        expander.set_oauth(node, client.id, client.secret, scopes);
    }
}

#[cfg(test)]
#[path = "cursor_tests.rs"]
mod tests;

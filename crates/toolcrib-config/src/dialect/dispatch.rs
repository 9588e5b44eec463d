//! Reads Dispatch's `.dispatch/mcp.json`: a map of servers with literal texts.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::conversions::{TextMap, env_keys, lower_text_map, lower_texts};
use super::restricting_keys::reject_servers_beside_misplaced_keys;
use super::{Dialect, DialectFile, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, NodeId};
use crate::model::SourceOutcome;
use crate::model::transport::{DisplayValue, TransportKeys, TransportKind};
use crate::text;
use crate::value::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DispatchFile {
    #[serde(rename = "$schema")]
    _schema: IgnoredAny,
    servers: Option<At<IndexMap<String, At<IgnoredAny>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DispatchServer {
    transport: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    env: Option<At<TextMap>>,
    url: Option<At<String>>,
    headers: Option<At<TextMap>>,
    disabled: Option<At<bool>>,
}

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let root = cx.read_entry::<DispatchFile>(Doc::ROOT);
    if !root.is_valid {
        return DialectFile::discarded(SourceOutcome::Failed);
    }
    let servers = root.value.servers.and_then(|at| at.value);
    let mut file = DialectFile::new();
    for (id, At { node, .. }) in servers.unwrap_or_default() {
        cx.enter_server(&id);
        file.servers.push(read_server(cx, &id, node));
        cx.leave_server();
    }
    reject_servers_beside_misplaced_keys(cx, &mut file.servers);
    file
}

fn read_server(cx: &mut CompileContext<'_>, id: &str, node: NodeId) -> ServerDraft {
    let mut draft = ServerDraft::new(id, node, Dialect::Dispatch);
    if !cx.check_is_map(node, "give it a `command` or a `url`") {
        draft.is_valid = false;
        return draft;
    }
    let entry = cx.read_server_entry::<DispatchServer>(node);
    let server = entry.value;
    draft.extras = entry.extras;
    draft.policy.enabled = server.disabled.map(|at| at.map(|disabled| !disabled));
    let address = server.url.as_ref().filter(|_| server.command.is_none());
    let kind = kind(cx, server.transport.as_ref(), address.map(|url| url.node));
    draft.is_valid = entry.is_valid && kind.is_ok();
    draft.transport = TransportKeys {
        kind: kind.unwrap_or_default(),
        command: server.command.map(|at| at.map(DisplayValue::literal)),
        args: server.args.map(|at| at.map(|args| lower_texts(args, &Value::literal))),
        env: server.env.map(|at| env_keys(at.map(|texts| lower_text_map(texts, &Value::literal)))),
        url: server.url.map(|at| at.map(DisplayValue::literal)),
        headers: server.headers.map(|at| at.map(|texts| lower_text_map(texts, &Value::literal))),
        ..TransportKeys::default()
    };
    draft
}

/// Marks an unsupported transport. The problem has already been reported.
pub(super) struct Unsupported;

/// Returns the kind that `transport` names. A URL alone means Streamable HTTP for any scheme. Without
/// either, the kind is derived later from the other keys.
pub(super) fn kind(
    cx: &mut CompileContext<'_>,
    given: Option<&At<String>>,
    address: Option<NodeId>,
) -> Result<Option<At<TransportKind>>, Unsupported> {
    let Some(At { node, value }) = given else {
        return Ok(address.map(|node| At::new(node, TransportKind::StreamableHttp)));
    };
    match value.as_deref() {
        Some("http") => Ok(Some(At::new(*node, TransportKind::StreamableHttp))),
        Some("stdio") => Ok(Some(At::new(*node, TransportKind::Stdio))),
        Some(other) => {
            let text = format!("unsupported transport `{}`", text::clip(other));
            cx.error(*node, "transport.unsupported", text, "use `stdio` or `http`");
            Err(Unsupported)
        }
        // A value of the wrong type has already been reported.
        None => Err(Unsupported),
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;

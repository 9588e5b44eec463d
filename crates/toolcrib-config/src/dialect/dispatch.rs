//! Dispatch's `.dispatch/mcp.json`: a map of servers, each a command or an address, all texts literal.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::lower::{Texts, env, plains, values};
use super::restricting::reject_neighbours_of_misplaced_keys;
use super::{Dialect, Draft, Loaded};
use crate::cx::Cx;
use crate::doc::{At, Doc, NodeId};
use crate::model::Outcome;
use crate::model::transport::{Plain, TransportKeys, TransportKind};
use crate::text;
use crate::value::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Root {
    #[serde(rename = "$schema")]
    _schema: IgnoredAny,
    servers: Option<At<IndexMap<String, At<IgnoredAny>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    transport: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    env: Option<At<Texts>>,
    url: Option<At<String>>,
    headers: Option<At<Texts>>,
    disabled: Option<At<bool>>,
}

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let root = cx.entry::<Root>(Doc::ROOT);
    if !root.sound {
        return Loaded::refused(Outcome::Failed);
    }
    let servers = root.value.servers.and_then(|at| at.value);
    let mut loaded = Loaded::new();
    for (id, At { node, .. }) in servers.unwrap_or_default() {
        cx.enter(&id);
        loaded.servers.push(server(cx, &id, node));
        cx.leave();
    }
    reject_neighbours_of_misplaced_keys(cx, &mut loaded.servers);
    loaded
}

fn server(cx: &mut Cx<'_>, id: &str, node: NodeId) -> Draft {
    let mut draft = Draft::new(id, node, Dialect::Dispatch);
    if !cx.is_map(node, "give it a `command` or a `url`") {
        draft.sound = false;
        return draft;
    }
    let entry = cx.server_entry::<Server>(node);
    let server = entry.value;
    draft.extras = entry.extras;
    draft.policy.enabled = server.disabled.map(|at| at.map(|disabled| !disabled));
    let address = server.url.as_ref().filter(|_| server.command.is_none());
    let kind = kind(cx, server.transport.as_ref(), address.map(|url| url.node));
    draft.sound = entry.sound && kind.is_ok();
    draft.transport = TransportKeys {
        kind: kind.unwrap_or_default(),
        command: server.command.map(|at| at.map(Plain::literal)),
        args: server.args.map(|at| at.map(|args| plains(args, &Value::literal))),
        env: server.env.map(|at| env(at.map(|texts| values(texts, &Value::literal)))),
        url: server.url.map(|at| at.map(Plain::literal)),
        headers: server.headers.map(|at| at.map(|texts| values(texts, &Value::literal))),
        ..TransportKeys::default()
    };
    draft
}

/// A transport that has no meaning here; it has been told.
pub(super) struct Unsupported;

/// The kind that `transport` names. An address alone is Streamable HTTP whatever its scheme;
/// where nothing tells, what the entry holds decides later.
pub(super) fn kind(
    cx: &mut Cx<'_>,
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
        // A value of the wrong type has been told already.
        None => Err(Unsupported),
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;

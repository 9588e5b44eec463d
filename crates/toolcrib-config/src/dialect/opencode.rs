//! opencode's `opencode.json`: servers under `mcp`, in opencode's own shape or in Dispatch's.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::dispatch;
use super::lower::{Texts, env, plains, values};
use super::restricting::reject_neighbours_of_misplaced_keys;
use super::{Dialect, Draft, Loaded};
use crate::cx::Cx;
use crate::doc::{At, Doc, Either, NodeId};
use crate::model::Outcome;
use crate::model::transport::{Plain, TransportKeys, TransportKind};
use crate::text;
use crate::value::{Hidden, Part, Value, is_variable};

/// An entry of either shape. opencode's has `type`, a list as `command`, `environment` and
/// `enabled`; Dispatch's `transport`, `args`, `env` and `disabled`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    r#type: Option<At<String>>,
    transport: Option<At<String>>,
    command: Option<At<Either<String, Vec<String>>>>,
    args: Option<At<Vec<String>>>,
    environment: Option<At<Texts>>,
    env: Option<At<Texts>>,
    url: Option<At<String>>,
    headers: Option<At<Texts>>,
    enabled: Option<At<bool>>,
    disabled: Option<At<bool>>,
}

/// The servers of the file. Everything else in it belongs to another program.
pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let Some(mcp) = cx.doc.get(Doc::ROOT, "mcp") else {
        return Loaded::new();
    };
    let servers = cx.entry::<IndexMap<String, At<IgnoredAny>>>(mcp);
    if !servers.sound {
        return Loaded::refused(Outcome::Failed);
    }
    let mut loaded = Loaded::new();
    for (id, At { node, .. }) in servers.value {
        cx.enter(&id);
        if !only_switches(cx, node) {
            loaded.servers.push(server(cx, &id, node));
        }
        cx.leave();
    }
    reject_neighbours_of_misplaced_keys(cx, &mut loaded.servers);
    loaded
}

/// An entry of nothing but `enabled` switches a server that an organisation's configuration brings.
fn only_switches(cx: &mut Cx<'_>, node: NodeId) -> bool {
    let only = matches!(cx.doc.entries(node), [(key, _)] if key.name == "enabled");
    if only {
        let text =
            "the entry only switches a server that is configured elsewhere; it has no effect";
        cx.info(node, "server.switch", text, "give it a `command` or a `url`");
    }
    only
}

fn server(cx: &mut Cx<'_>, id: &str, node: NodeId) -> Draft {
    let mut draft = Draft::new(id, node, Dialect::Opencode);
    if !cx.is_map(node, "give it a `command` or a `url`") {
        draft.sound = false;
        return draft;
    }
    let entry = cx.server_entry::<Server>(node);
    let server = entry.value;
    draft.extras = entry.extras;
    draft.policy.enabled = server
        .disabled
        .as_ref()
        .map(|at| At::new(at.node, at.value != Some(true)))
        // Whichever of the two words switches it off.
        .filter(|at| at.value == Some(false) || server.enabled.is_none())
        .or(server.enabled.clone());
    let kind = kind(cx, &server);
    draft.sound = entry.sound && kind.is_ok();
    let value: &dyn Fn(String) -> Value = match server.r#type {
        Some(_) => &expanded,
        None => &Value::literal,
    };
    let (command, args) = command(server.command, server.args, value);
    draft.transport = TransportKeys {
        kind: kind.unwrap_or_default(),
        command,
        args,
        env: both(server.environment, server.env)
            .map(|at| env(at.map(|texts| values(texts, value)))),
        url: server.url.map(|at| at.map(|url| Plain(value(url)))),
        headers: server.headers.map(|at| at.map(|texts| values(texts, value))),
        ..TransportKeys::default()
    };
    draft
}

/// `local` or `remote`; without it the entry is read as Dispatch reads one.
fn kind(
    cx: &mut Cx<'_>,
    server: &Server,
) -> Result<Option<At<TransportKind>>, dispatch::Unsupported> {
    let Some(At { node, value }) = &server.r#type else {
        let address = server.url.as_ref().filter(|_| server.command.is_none());
        return dispatch::kind(cx, server.transport.as_ref(), address.map(|url| url.node));
    };
    match value.as_deref() {
        Some("local") => Ok(Some(At::new(*node, TransportKind::Stdio))),
        Some("remote") => Ok(Some(At::new(*node, TransportKind::StreamableHttp))),
        Some(other) => {
            let text = format!("unsupported type `{}`", text::clip(other));
            cx.error(*node, "transport.unsupported", text, "use `local` or `remote`");
            Err(dispatch::Unsupported)
        }
        None => Err(dispatch::Unsupported),
    }
}

type Command = (Option<At<Plain>>, Option<At<Vec<Plain>>>);

/// A list is the program with its arguments; `args` follow them.
fn command(
    given: Option<At<Either<String, Vec<String>>>>,
    args: Option<At<Vec<String>>>,
    value: &dyn Fn(String) -> Value,
) -> Command {
    let node = given.as_ref().map(|at| at.node);
    let mut words = match given.and_then(|at| at.value) {
        Some(Either::Scalar(command)) => vec![command],
        Some(Either::Nested(words)) => words,
        None => Vec::new(),
    }
    .into_iter();
    let command = node.zip(words.next()).map(|(node, word)| At::new(node, Plain(value(word))));
    let node = args.as_ref().map(|at| at.node).or(node);
    let rest: Vec<String> = words.chain(args.and_then(|at| at.value).unwrap_or_default()).collect();
    let args = node.filter(|_| !rest.is_empty()).map(|node| At::new(node, plains(rest, value)));
    (command, args)
}

/// The variables of both words; `environment` is opencode's own and wins.
fn both(environment: Option<At<Texts>>, env: Option<At<Texts>>) -> Option<At<Texts>> {
    match (environment, env) {
        (Some(own), Some(other)) => {
            let mut texts = other.value.unwrap_or_default();
            texts.extend(own.value.unwrap_or_default());
            Some(At::new(own.node, texts))
        }
        (own, other) => own.or(other),
    }
}

/// opencode replaces `{env:NAME}`, by nothing where the variable is not set.
#[expect(clippy::needless_pass_by_value, reason = "used beside `Value::literal`")]
fn expanded(text: String) -> Value {
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("{env:") {
        let Some((name, tail)) = after.split_once('}').filter(|(name, _)| is_variable(name)) else {
            parts.push(Part::Text(Hidden::new(format!("{before}{{env:"))));
            rest = after;
            continue;
        };
        parts.push(Part::Text(Hidden::new(before)));
        parts.push(Part::Env { name: name.to_string(), default: Some(Hidden::default()) });
        rest = tail;
    }
    parts.push(Part::Text(Hidden::new(rest)));
    Value::of_parts(parts)
}

#[cfg(test)]
#[path = "opencode_tests.rs"]
mod tests;

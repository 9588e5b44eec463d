//! Reads opencode's `opencode.json`: servers under `mcp`, with opencode's keys or Dispatch's.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::conversions::{TextMap, env_keys, lower_text_map, lower_texts};
use super::dispatch;
use super::restricting_keys::reject_servers_beside_misplaced_keys;
use super::{Dialect, DialectFile, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, Either, NodeId};
use crate::model::SourceOutcome;
use crate::model::transport::{DisplayValue, TransportKeys, TransportKind};
use crate::text;
use crate::value::{SecretString, TemplatePart, Value, is_variable_name};

/// An entry with the keys of both formats. opencode has `type`, a list as `command`, `environment` and
/// `enabled`; Dispatch has `transport`, `args`, `env` and `disabled`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpencodeServer {
    r#type: Option<At<String>>,
    transport: Option<At<String>>,
    command: Option<At<Either<String, Vec<String>>>>,
    args: Option<At<Vec<String>>>,
    environment: Option<At<TextMap>>,
    env: Option<At<TextMap>>,
    url: Option<At<String>>,
    headers: Option<At<TextMap>>,
    enabled: Option<At<bool>>,
    disabled: Option<At<bool>>,
}

/// Reads the servers of the file. Other keys of the file belong to opencode.
pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let Some(mcp) = cx.doc.get(Doc::ROOT, "mcp") else {
        return DialectFile::new();
    };
    let servers = cx.read_entry::<IndexMap<String, At<IgnoredAny>>>(mcp);
    if !servers.is_valid {
        return DialectFile::discarded(SourceOutcome::Failed);
    }
    let mut file = DialectFile::new();
    for (id, At { node, .. }) in servers.value {
        cx.enter_server(&id);
        if !is_switch_only(cx, node) {
            file.servers.push(read_server(cx, &id, node));
        }
        cx.leave_server();
    }
    reject_servers_beside_misplaced_keys(cx, &mut file.servers);
    file
}

/// Returns true for an entry with only `enabled`. It switches a server that an organisation's configuration
/// defines.
fn is_switch_only(cx: &mut CompileContext<'_>, node: NodeId) -> bool {
    let only = matches!(cx.doc.entries(node), [(key, _)] if key.name == "enabled");
    if only {
        let text = "the entry only enables or disables a server that is configured elsewhere; it has no effect";
        cx.info(node, "server.switch", text, "give it a `command` or a `url`");
    }
    only
}

fn read_server(cx: &mut CompileContext<'_>, id: &str, node: NodeId) -> ServerDraft {
    let mut draft = ServerDraft::new(id, node, Dialect::Opencode);
    if !cx.check_is_map(node, "give it a `command` or a `url`") {
        draft.is_valid = false;
        return draft;
    }
    let entry = cx.read_server_entry::<OpencodeServer>(node);
    let server = entry.value;
    draft.extras = entry.extras;
    draft.policy.enabled = server
        .disabled
        .as_ref()
        .map(|at| At::new(at.node, at.value != Some(true)))
        // Either key can disable the server.
        .filter(|at| at.value == Some(false) || server.enabled.is_none())
        .or(server.enabled.clone());
    let kind = transport_kind(cx, &server);
    draft.is_valid = entry.is_valid && kind.is_ok();
    let value: &dyn Fn(String) -> Value = match server.r#type {
        Some(_) => &expand_variables,
        None => &Value::literal,
    };
    let (command, args) = split_command(server.command, server.args, value);
    draft.transport = TransportKeys {
        kind: kind.unwrap_or_default(),
        command,
        args,
        env: merge_variables(server.environment, server.env)
            .map(|at| env_keys(at.map(|texts| lower_text_map(texts, value)))),
        url: server.url.map(|at| at.map(|url| DisplayValue(value(url)))),
        headers: server.headers.map(|at| at.map(|texts| lower_text_map(texts, value))),
        ..TransportKeys::default()
    };
    draft
}

/// Returns the kind that `type` names. Without `type` the entry is read like Dispatch's.
fn transport_kind(
    cx: &mut CompileContext<'_>,
    server: &OpencodeServer,
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

type CommandAndArgs = (Option<At<DisplayValue>>, Option<At<Vec<DisplayValue>>>);

/// Splits the command. A list is the program with its arguments, and `args` follow them.
fn split_command(
    given: Option<At<Either<String, Vec<String>>>>,
    args: Option<At<Vec<String>>>,
    value: &dyn Fn(String) -> Value,
) -> CommandAndArgs {
    let node = given.as_ref().map(|at| at.node);
    let mut words = match given.and_then(|at| at.value) {
        Some(Either::Scalar(command)) => vec![command],
        Some(Either::Nested(words)) => words,
        None => Vec::new(),
    }
    .into_iter();
    let command =
        node.zip(words.next()).map(|(node, word)| At::new(node, DisplayValue(value(word))));
    let node = args.as_ref().map(|at| at.node).or(node);
    let rest: Vec<String> = words.chain(args.and_then(|at| at.value).unwrap_or_default()).collect();
    let args =
        node.filter(|_| !rest.is_empty()).map(|node| At::new(node, lower_texts(rest, value)));
    (command, args)
}

/// Merges the variables of both keys; opencode's own `environment` wins.
fn merge_variables(
    environment: Option<At<TextMap>>,
    env: Option<At<TextMap>>,
) -> Option<At<TextMap>> {
    match (environment, env) {
        (Some(own), Some(other)) => {
            let mut texts = other.value.unwrap_or_default();
            texts.extend(own.value.unwrap_or_default());
            Some(At::new(own.node, texts))
        }
        (own, other) => own.or(other),
    }
}

/// Expands `{env:NAME}`; opencode replaces an unset variable by an empty text.
#[expect(clippy::needless_pass_by_value, reason = "same signature as `Value::literal`")]
fn expand_variables(text: String) -> Value {
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("{env:") {
        let Some((name, tail)) = after.split_once('}').filter(|(name, _)| is_variable_name(name))
        else {
            parts.push(TemplatePart::Text(SecretString::new(format!("{before}{{env:"))));
            rest = after;
            continue;
        };
        parts.push(TemplatePart::Text(SecretString::new(before)));
        parts.push(TemplatePart::Env {
            name: name.to_string(),
            default: Some(SecretString::default()),
        });
        rest = tail;
    }
    parts.push(TemplatePart::Text(SecretString::new(rest)));
    Value::from_parts(parts)
}

#[cfg(test)]
#[path = "opencode_tests.rs"]
mod tests;

//! Reads the transport of a HoloDeck tool: four transports, each with its own group of keys and its own
//! messages.

use super::HolodeckTool;
use super::text_variables::AgentFolder;
use crate::assemble::{check_url, is_known_encoding};
use crate::compile_context::CompileContext;
use crate::dialect::conversions::{lower_text_map, lower_texts};
use crate::doc::{At, NodeId, NodeKind};
use crate::model::transport::{DisplayValue, EnvKeys, TransportKeys, TransportKind, UrlPolicy};
use crate::text;
use crate::value::{Reference, Value};

const TRANSPORTS: &[(&str, TransportKind)] = &[
    ("stdio", TransportKind::Stdio),
    ("sse", TransportKind::Sse),
    ("websocket", TransportKind::WebSocket),
    ("http", TransportKind::StreamableHttp),
];
const COMMANDS: &[&str] = &["npx", "uvx", "docker"];
const STDIO_KEYS: &[&str] = &["command", "args", "env", "envFile", "env_file", "encoding"];
const URL_KEYS: &[&str] = &["url", "headers", "timeout", "sse_read_timeout", "terminate_on_close"];

/// Returns true for the legacy form, which has no transport, command or URL. Its `server` must be a package.
pub(super) fn is_legacy(tool: &HolodeckTool) -> bool {
    tool.transport.is_none() && tool.command.is_none() && tool.url.is_none()
}

/// Returns the transport in native keys, or `None` after reporting a mistake.
pub(super) fn lower_transport(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    tool: &mut HolodeckTool,
    folder: &AgentFolder,
) -> Option<TransportKeys> {
    let (word, kind) = find_transport(cx, node, tool)?;
    let is_stdio = kind == TransportKind::Stdio;
    let alone = check_no_other_group(cx, node, word, if is_stdio { URL_KEYS } else { STDIO_KEYS });
    let keys = if is_stdio {
        lower_stdio(cx, node, tool, folder)
    } else {
        lower_remote(cx, node, tool, (word, kind), folder)
    }?;
    let written = tool.transport.as_ref().map_or(node, |at| at.node);
    alone.then_some(TransportKeys { kind: Some(At::new(written, kind)), ..keys })
}

fn find_transport(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    tool: &HolodeckTool,
) -> Option<(&'static str, TransportKind)> {
    let Some(At { node: at, value }) = &tool.transport else {
        if tool.command.is_none() && tool.url.is_some() {
            let text = "MCPConfigError: 'transport' is required with 'url'";
            cx.error(
                node,
                "transport.missing",
                text,
                "add `transport: http`, `sse` or `websocket`",
            );
            return None;
        }
        return TRANSPORTS.first().copied();
    };
    let word = value.as_deref()?;
    let found = TRANSPORTS.iter().find(|(known, _)| *known == word);
    if found.is_none() {
        let known: Vec<&str> = TRANSPORTS.iter().map(|(known, _)| *known).collect();
        let text = format!(
            "MCPConfigError: Invalid transport '{}'. Supported transports: {}",
            text::clip(word),
            known.join(", ")
        );
        cx.error(*at, "transport.unsupported", text, "use one of these");
    }
    found.copied()
}

fn check_no_other_group(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    word: &str,
    others: &[&str],
) -> bool {
    let mut alone = true;
    for key in others {
        let Some(at) =
            cx.doc.get(node, key).filter(|at| !matches!(cx.doc.kind(*at), NodeKind::Null))
        else {
            continue;
        };
        let text = format!("MCPConfigError: '{key}' is not allowed for {word} transport");
        cx.error(at, "transport.wrong_key", text, "remove it, or use another `transport`");
        alone = false;
    }
    alone
}

fn lower_stdio(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    tool: &mut HolodeckTool,
    folder: &AgentFolder,
) -> Option<TransportKeys> {
    let (command, args) = if is_legacy(tool) {
        legacy_command(cx, node, tool)?
    } else {
        (check_command(cx, node, tool)?, tool.args.take())
    };
    let args = args.map(|at| at.map(|args| lower_texts(args, &|text| folder.argument(cx, &text))));
    let set = tool
        .env
        .take()
        .map(|at| at.map(|texts| lower_text_map(texts, &|text| folder.value(&text))));
    let file = env_file(cx, tool);
    let env = set.as_ref().map(|at| at.node).or(file.as_ref().map(|at| at.node));
    let env = env.map(|node| {
        let keys = EnvKeys { set, file, ..EnvKeys::default() };
        At::new(node, keys)
    });
    Some(TransportKeys {
        command: Some(command.map(DisplayValue::literal)),
        args,
        env,
        encoding: tool.encoding.take().map(|at| at.map(|name| known_encoding(&name))),
        ..TransportKeys::default()
    })
}

/// Returns the command, which must be exactly one of the three allowed names.
fn check_command(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    tool: &mut HolodeckTool,
) -> Option<At<String>> {
    let Some(command) = tool.command.take() else {
        report_missing_command(cx, node);
        return None;
    };
    let name = command.value.as_deref()?;
    if !COMMANDS.contains(&name) {
        let text = format!(
            "MCPConfigError: Invalid command '{}'. Supported commands: {}",
            text::clip(name),
            COMMANDS.join(", ")
        );
        let fix = "use one of these; other commands can be run from `toolcrib.yaml`";
        cx.error(command.node, "command.not_allowed", text, fix);
        return None;
    }
    Some(command)
}

fn report_missing_command(cx: &mut CompileContext<'_>, node: NodeId) {
    let text = "MCPConfigError: 'command' is required for stdio transport";
    cx.error(node, "command.missing", text, "add `command: npx`, `uvx` or `docker`");
}

type CommandAndArgs = (At<String>, Option<At<Vec<String>>>);

/// Returns the legacy command line: `npx -y PACKAGE` followed by the entry's own arguments.
fn legacy_command(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    tool: &mut HolodeckTool,
) -> Option<CommandAndArgs> {
    let Some(server) = &tool.server else {
        report_missing_command(cx, node);
        return None;
    };
    // A blank name has already been reported.
    let package = server.value.clone().filter(|name| !name.trim().is_empty())?;
    if !is_npm_package(&package) {
        report_missing_command(cx, server.node);
        return None;
    }
    let text = format!(
        "a tool without 'command' is deprecated; it is run as `npx -y {}`",
        text::clip(&package)
    );
    let fix = format!("add `command: npx` and `args: [\"-y\", \"{}\"]`", text::clip(&package));
    cx.warning(node, "holodeck.legacy", text, &fix);
    let at = server.node;
    let own = tool.args.take();
    let args_at = own.as_ref().map_or(at, |args| args.node);
    let own = own.and_then(|args| args.value).unwrap_or_default();
    let args =
        if own.contains(&package) { own } else { [vec!["-y".to_string(), package], own].concat() };
    Some((At::new(at, "npx".to_string()), Some(At::new(args_at, args))))
}

/// Returns true for `name` or `@scope/name` with an optional version, by npm's rules. Paths, file names and
/// URLs are rejected.
fn is_npm_package(text: &str) -> bool {
    const FILES: &[&str] = &[".py", ".js", ".mjs", ".cjs", ".ts", ".sh"];
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c))
    };
    let version = |text: &str| !text.is_empty() && !text.contains(['/', ':', ' ', '@']);
    let (scope, rest) = match text.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, rest)) => (Some(scope), rest),
            None => return false,
        },
        None => (None, text),
    };
    let (name, tag) = match rest.split_once('@') {
        Some((name, tag)) => (name, Some(tag)),
        None => (rest, None),
    };
    scope.is_none_or(part)
        && part(name)
        && tag.is_none_or(version)
        && !FILES.iter().any(|end| name.ends_with(end))
}

fn env_file(cx: &mut CompileContext<'_>, tool: &mut HolodeckTool) -> Option<At<String>> {
    let (own, other) = (tool.env_file.take(), tool.env_file_too.take());
    if let (Some(_), Some(other)) = (&own, &other) {
        let text = "`env_file` and `envFile` are the same key; `envFile` is used";
        cx.warning(other.node, "key.duplicate", text, "keep one of the two");
    }
    own.or(other).map(|at| at.map(|path| cx.absolute_path(&path).display().to_string()))
}

/// Returns the spelling that the stream decoder knows. Python accepts more spellings of an encoding name.
fn known_encoding(name: &str) -> String {
    let dashed = name.to_ascii_lowercase().replace('_', "-");
    let bare = dashed.replace('-', "");
    [name.to_string(), dashed, bare]
        .into_iter()
        .find(|name| is_known_encoding(name))
        .unwrap_or_else(|| name.to_string())
}

fn lower_remote(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    tool: &mut HolodeckTool,
    (word, kind): (&str, TransportKind),
    folder: &AgentFolder,
) -> Option<TransportKeys> {
    let Some(url) = tool.url.take() else {
        let text = format!("MCPConfigError: 'url' is required for {word} transport");
        cx.error(node, "url.missing", text, "add `url`");
        return None;
    };
    let url = url.map(|text| folder.value(&text));
    check_address(cx, &url, kind)?;
    if let (Some(headers), TransportKind::WebSocket) = (&tool.headers, kind) {
        let text = "HoloDeck knows 'headers' for sse and http only; they are sent when the websocket is opened";
        cx.warning(
            headers.node,
            "transport.stray_key",
            text,
            "remove it if the server does not need it",
        );
    }
    Some(TransportKeys {
        url: Some(url.map(DisplayValue)),
        headers: tool
            .headers
            .take()
            .map(|at| at.map(|texts| lower_text_map(texts, &|text| folder.value(&text)))),
        terminate_on_close: tool.terminate_on_close.take(),
        ..TransportKeys::default()
    })
}

/// Checks the URL after its variables are resolved. Unset variables are reported together with all others
/// later.
fn check_address(cx: &mut CompileContext<'_>, url: &At<Value>, kind: TransportKind) -> Option<()> {
    let find = |reference: &Reference| match reference {
        Reference::Env(name) => cx.lookup.env(name),
        _ => None,
    };
    let Ok(address) = url.value.as_ref()?.resolve(&find) else {
        return Some(());
    };
    let (schemes, text): (&[&str], _) = match kind {
        TransportKind::WebSocket => {
            (&["ws", "wss"], "MCPConfigError: 'url' must use wss:// (or ws://)")
        }
        _ => (
            &["http", "https"],
            "MCPConfigError: 'url' must use https:// (or http:// for localhost)",
        ),
    };
    let checked = check_url(address.reveal(), schemes, UrlPolicy::HttpsOrLoopback);
    if let Err((code, _)) = checked {
        cx.error(url.node, code, text, "correct the address");
    }
    checked.ok()
}

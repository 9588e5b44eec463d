//! Reads Gemini CLI's `settings.json`: the servers in `mcpServers` and their selection in `mcp`.

use serde::Deserialize;

use super::client_servers::{self, ExtraClientKeys};
use super::expand::{self, Expander, Headers, TransportTexts, Variables};
use super::{DialectFile, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, NodeId, NodeKind};
use crate::lookup::Lookup;
use crate::model::transport::TransportKind;
use crate::model::units::Period;
use crate::text;
use crate::value::{SecretString, TemplatePart, Value, is_variable_name};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiServer {
    r#type: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    cwd: Option<At<String>>,
    env: Option<At<Variables>>,
    url: Option<At<String>>,
    #[serde(rename = "httpUrl")]
    http_url: Option<At<String>>,
    headers: Option<At<Headers>>,
    /// Timeout of one request in milliseconds.
    timeout: Option<At<u64>>,
    description: Option<At<String>>,
    #[serde(rename = "includeTools")]
    include_tools: Option<At<Vec<String>>>,
    #[serde(rename = "excludeTools")]
    exclude_tools: Option<At<Vec<String>>>,
    oauth: Option<At<OAuthClient>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OAuthClient {
    enabled: Option<At<bool>>,
    #[serde(rename = "clientId")]
    id: Option<At<String>>,
    #[serde(rename = "clientSecret")]
    secret: Option<At<String>>,
    scopes: Option<At<Vec<String>>>,
}

/// The lists in `mcp` that select servers. Other keys of `mcp` are unrelated.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerSelection {
    allowed: Option<At<Vec<String>>>,
    excluded: Option<At<Vec<String>>>,
}

const CLIENT_KEYS: ExtraClientKeys = ExtraClientKeys {
    ignored: &["trust"],
    unsupported: &["tcp", "authProviderType", "targetAudience", "targetServiceAccount"],
};

const TYPES: &[(&str, TransportKind)] =
    &[("http", TransportKind::StreamableHttp), ("sse", TransportKind::Sse)];

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let mut file = DialectFile::new();
    let list = cx.doc.get(Doc::ROOT, "mcpServers");
    file.servers = client_servers::read_servers(cx, list, &CLIENT_KEYS, lower_server);
    let mut is_valid = !report_misplaced_selection(cx);
    if let Some(node) = cx.doc.get(Doc::ROOT, "mcp") {
        is_valid &= disable_unselected(cx, node, &mut file.servers);
    }
    if !is_valid {
        // The intended selection is unknown, so no server can be used safely.
        file.servers.iter_mut().for_each(|draft| draft.is_valid = false);
    }
    file
}

/// Reports a misspelt or misplaced `mcp`, and selection lists that stand outside of `mcp`. Returns true if
/// there is one.
fn report_misplaced_selection(cx: &mut CompileContext<'_>) -> bool {
    let doc = cx.doc;
    let lists = |node: NodeId| SELECTION_KEYS.iter().any(|key| doc.get(node, key).is_some());
    let at_root = doc.entries(Doc::ROOT).iter().position(|(key, value)| {
        let name = key.name.as_str();
        let is_mcp =
            name != "mcp" && text::find_misspelling(name, &["mcp"]).is_some() && lists(*value);
        is_mcp || SELECTION_KEYS.contains(&name)
    });
    let servers = doc.get(Doc::ROOT, "mcpServers");
    let among_servers = servers.and_then(|servers| {
        let mut entries = doc.entries(servers).iter();
        let index = entries.position(|(key, value)| {
            let is_mcp = key.name == "mcp" && lists(*value);
            is_mcp
                || SELECTION_KEYS.contains(&key.name.as_str())
                    && !matches!(doc.kind(*value), NodeKind::Map(_))
        })?;
        Some((servers, index))
    });
    let found = at_root.map(|index| (Doc::ROOT, index)).or(among_servers);
    if let Some((map, index)) = found {
        cx.report_restricting_key(map, index, SERVER_LIST, Some("mcp.allowed` or `mcp.excluded"));
    }
    found.is_some()
}

/// Keys of `mcp` that exclude servers.
const SELECTION_KEYS: &[&str] = &["allowed", "excluded"];
const SERVER_LIST: &str = "the file's list of servers";

/// Disables the servers that the settings exclude; they stay visible. Returns false if the settings are
/// invalid.
fn disable_unselected(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    drafts: &mut [ServerDraft],
) -> bool {
    let deserialized = crate::doc::deserialize::<ServerSelection>(cx.doc, node);
    let mut is_valid = deserialized.errors.is_empty();
    cx.report_value_errors(deserialized.errors);
    for unknown in &deserialized.unknown {
        if let Some((_, near)) = text::find_misspelling(&unknown.key, SELECTION_KEYS) {
            cx.report_restricting_key(unknown.map, unknown.entry, SERVER_LIST, Some(near));
            is_valid = false;
        }
    }
    let selection = deserialized.value.unwrap_or_default();
    let names = |list: Option<At<Vec<String>>>| Some((list.as_ref()?.node, list?.value?));
    // Gemini treats an empty `allowed` list like a missing one.
    let allowed = names(selection.allowed).filter(|(_, ids)| !ids.is_empty());
    let excluded = names(selection.excluded);
    for draft in drafts {
        let unlisted = allowed.as_ref().filter(|(_, ids)| !ids.contains(&draft.id));
        let listed = excluded.as_ref().filter(|(_, ids)| ids.contains(&draft.id));
        if let Some((node, _)) = listed.or(unlisted) {
            draft.policy.enabled = Some(At::new(*node, false));
        }
    }
    is_valid
}

fn lower_server(cx: &mut CompileContext<'_>, draft: &mut ServerDraft, server: GeminiServer) {
    draft.policy.description = server.description;
    client_servers::set_tool_filter(&mut draft.policy, server.include_tools, server.exclude_tools);
    let call = server.timeout.map(|at| at.map(Period::millis));
    client_servers::set_timeouts(&mut draft.policy, None, call);
    let named = client_servers::transport_kind(cx, draft, server.r#type, TYPES);
    let (kind, url) = choose_address(cx, named, server.http_url, server.url);
    let lookup = cx.lookup;
    let text = |text: &str| Ok(expand_variables(lookup, text, &|_| None));
    let value =
        |text: &str| Ok(expand_variables(lookup, text, &|name| Some(empty_when_unset(name))));
    let mut expander = Expander::new(cx, draft, &text).with_value_expansion(&value);
    expander.set_transport(TransportTexts {
        kind,
        command: server.command,
        args: server.args,
        cwd: server.cwd,
        env: server.env,
        url,
        headers: server.headers,
        ..TransportTexts::default()
    });
    if let Some(At { node, value: Some(client) }) = server.oauth
        && client.enabled.and_then(|at| at.value) != Some(false)
    {
        let scopes = client.scopes.and_then(|at| at.value).unwrap_or_default();
        expander.set_oauth(node, client.id, client.secret, scopes);
    }
}

/// Chooses the URL: `httpUrl` wins over `url`, and `url` wins over `command`.
fn choose_address(
    cx: &mut CompileContext<'_>,
    named: Option<At<TransportKind>>,
    http_url: Option<At<String>>,
    url: Option<At<String>>,
) -> (Option<At<TransportKind>>, Option<At<String>>) {
    match (http_url, url) {
        (Some(http), other) => {
            if let Some(other) = other {
                let text = "`url` is ignored because `httpUrl` is set";
                cx.warning(other.node, "key.shadowed", text, "keep one of the two");
            }
            let kind = At::new(http.node, TransportKind::StreamableHttp);
            (Some(kind), Some(http))
        }
        (None, Some(url)) => {
            let sse = At::new(url.node, TransportKind::Sse);
            (named.or(Some(sse)), Some(url))
        }
        (None, None) => (None, None),
    }
}

/// Expands `$VAR`, `${VAR}` and `${VAR:-default}`. `unset` supplies the value of an unset variable without a
/// default; `None` leaves the reference as it is written.
fn expand_variables(
    lookup: &dyn Lookup,
    text: &str,
    unset: &dyn Fn(String) -> Option<TemplatePart>,
) -> Value {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        parts.push(TemplatePart::Text(SecretString::new(before)));
        let known = parse_reference(after).and_then(|(part, tail)| match part {
            TemplatePart::Env { name, default: None } if lookup.env(&name).is_none() => {
                Some((unset(name)?, tail))
            }
            part => Some((part, tail)),
        });
        let (part, tail) = known.unwrap_or((TemplatePart::Text(SecretString::new("$")), after));
        parts.push(part);
        rest = tail;
    }
    parts.push(TemplatePart::Text(SecretString::new(rest)));
    Value::from_parts(parts)
}

fn empty_when_unset(name: String) -> TemplatePart {
    TemplatePart::Env { name, default: Some(SecretString::default()) }
}

/// Parses the reference at the start of the text after a `$`. Returns it with the remaining text.
fn parse_reference(after: &str) -> Option<(TemplatePart, &str)> {
    if let Some(braced) = after.strip_prefix('{') {
        let (inside, tail) = braced.split_once('}')?;
        return Some((expand::parse_variable(inside)?, tail));
    }
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
    let (name, tail) = after.split_at(end);
    is_variable_name(name).then(|| {
        let part = TemplatePart::Env { name: name.to_string(), default: None };
        (part, tail)
    })
}

#[cfg(test)]
#[path = "gemini_tests.rs"]
mod tests;

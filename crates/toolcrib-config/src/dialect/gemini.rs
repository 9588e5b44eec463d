//! Gemini CLI's `settings.json`: `mcpServers`, and in `mcp` which of them are used.

use serde::Deserialize;

use super::clients::{self, Foreign};
use super::expand::{self, Expander, Headers, Reached, Variables};
use super::{Draft, Loaded};
use crate::cx::Cx;
use crate::doc::{At, Doc, Kind, NodeId};
use crate::lookup::Lookup;
use crate::model::transport::TransportKind;
use crate::model::units::Period;
use crate::text;
use crate::value::{Hidden, Part, Value, is_variable};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    r#type: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    cwd: Option<At<String>>,
    env: Option<At<Variables>>,
    url: Option<At<String>>,
    #[serde(rename = "httpUrl")]
    http_url: Option<At<String>>,
    headers: Option<At<Headers>>,
    /// Milliseconds for one request.
    timeout: Option<At<u64>>,
    description: Option<At<String>>,
    #[serde(rename = "includeTools")]
    include_tools: Option<At<Vec<String>>>,
    #[serde(rename = "excludeTools")]
    exclude_tools: Option<At<Vec<String>>>,
    oauth: Option<At<Client>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Client {
    enabled: Option<At<bool>>,
    #[serde(rename = "clientId")]
    id: Option<At<String>>,
    #[serde(rename = "clientSecret")]
    secret: Option<At<String>>,
    scopes: Option<At<Vec<String>>>,
}

/// Which servers are used at all; other keys of the group are not about that.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Used {
    allowed: Option<At<Vec<String>>>,
    excluded: Option<At<Vec<String>>>,
}

const FOREIGN: Foreign = Foreign {
    passed: &["trust"],
    unsupported: &["tcp", "authProviderType", "targetAudience", "targetServiceAccount"],
};

const TYPES: &[(&str, TransportKind)] =
    &[("http", TransportKind::StreamableHttp), ("sse", TransportKind::Sse)];

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let mut loaded = Loaded::new();
    let list = cx.doc.get(Doc::ROOT, "mcpServers");
    loaded.servers = clients::servers(cx, list, &FOREIGN, server);
    let mut is_sound = !is_misplaced(cx);
    if let Some(node) = cx.doc.get(Doc::ROOT, "mcp") {
        is_sound &= disable(cx, node, &mut loaded.servers);
    }
    if !is_sound {
        // Nobody can tell which servers were to be left out.
        loaded.servers.iter_mut().for_each(|draft| draft.sound = false);
    }
    loaded
}

/// Whether `mcp`, or what belongs into it, stands under another name or in another place; reports that.
fn is_misplaced(cx: &mut Cx<'_>) -> bool {
    let doc = cx.doc;
    let lists = |node: NodeId| USED.iter().any(|key| doc.get(node, key).is_some());
    let at_root = doc.entries(Doc::ROOT).iter().position(|(key, value)| {
        let name = key.name.as_str();
        let is_mcp = name != "mcp" && text::slip(name, &["mcp"]).is_some() && lists(*value);
        is_mcp || USED.contains(&name)
    });
    let servers = doc.get(Doc::ROOT, "mcpServers");
    let among_servers = servers.and_then(|servers| {
        let mut entries = doc.entries(servers).iter();
        let place = entries.position(|(key, value)| {
            let is_mcp = key.name == "mcp" && lists(*value);
            is_mcp || USED.contains(&key.name.as_str()) && !matches!(doc.kind(*value), Kind::Map(_))
        })?;
        Some((servers, place))
    });
    let found = at_root.map(|place| (Doc::ROOT, place)).or(among_servers);
    if let Some((map, place)) = found {
        cx.invalid_key(map, place, WHAT, Some("mcp.allowed` or `mcp.excluded"));
    }
    found.is_some()
}

/// The keys of `mcp` that leave servers out.
const USED: &[&str] = &["allowed", "excluded"];
const WHAT: &str = "the file's list of servers";

/// A server that the settings leave out stays visible and is not started. Returns whether the settings can be relied on.
fn disable(cx: &mut Cx<'_>, node: NodeId, drafts: &mut [Draft]) -> bool {
    let reading = crate::doc::read::<Used>(cx.doc, node);
    let mut is_sound = reading.wrongs.is_empty();
    cx.tell_wrongs(reading.wrongs);
    for unknown in &reading.unknown {
        if let Some((_, near)) = text::slip(&unknown.key, USED) {
            cx.invalid_key(unknown.map, unknown.entry, WHAT, Some(near));
            is_sound = false;
        }
    }
    let used = reading.value.unwrap_or_default();
    let names = |list: Option<At<Vec<String>>>| Some((list.as_ref()?.node, list?.value?));
    // To Gemini an empty list of the allowed is the same as none.
    let allowed = names(used.allowed).filter(|(_, ids)| !ids.is_empty());
    let excluded = names(used.excluded);
    for draft in drafts {
        let unlisted = allowed.as_ref().filter(|(_, ids)| !ids.contains(&draft.id));
        let listed = excluded.as_ref().filter(|(_, ids)| ids.contains(&draft.id));
        if let Some((node, _)) = listed.or(unlisted) {
            draft.policy.enabled = Some(At::new(*node, false));
        }
    }
    is_sound
}

fn server(cx: &mut Cx<'_>, draft: &mut Draft, server: Server) {
    draft.policy.description = server.description;
    clients::filter(&mut draft.policy, server.include_tools, server.exclude_tools);
    let call = server.timeout.map(|at| at.map(Period::millis));
    clients::timeouts(&mut draft.policy, None, call);
    let named = clients::kind(cx, draft, server.r#type, TYPES);
    let (kind, url) = address(cx, named, server.http_url, server.url);
    let lookup = cx.lookup;
    let text = |text: &str| Ok(expand(lookup, text, &|_| None));
    let value = |text: &str| Ok(expand(lookup, text, &|name| Some(empty(name))));
    let mut expander = Expander::new(cx, draft, &text).values_by(&value);
    expander.transport(Reached {
        kind,
        command: server.command,
        args: server.args,
        cwd: server.cwd,
        env: server.env,
        url,
        headers: server.headers,
        ..Reached::default()
    });
    if let Some(At { node, value: Some(client) }) = server.oauth
        && client.enabled.and_then(|at| at.value) != Some(false)
    {
        let scopes = client.scopes.and_then(|at| at.value).unwrap_or_default();
        expander.oauth(node, client.id, client.secret, scopes);
    }
}

/// `httpUrl` goes before `url`, and `url` before `command`.
fn address(
    cx: &mut Cx<'_>,
    named: Option<At<TransportKind>>,
    http_url: Option<At<String>>,
    url: Option<At<String>>,
) -> (Option<At<TransportKind>>, Option<At<String>>) {
    match (http_url, url) {
        (Some(http), other) => {
            if let Some(other) = other {
                let text = "`url` is not used beside `httpUrl`";
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

/// `$VAR`, `${VAR}` and `${VAR:-default}`. What is not set stays as it is written, but in variables
/// and headers it is empty: `unset` says so.
fn expand(lookup: &dyn Lookup, text: &str, unset: &dyn Fn(String) -> Option<Part>) -> Value {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        parts.push(Part::Text(Hidden::new(before)));
        let known = reference(after).and_then(|(part, tail)| match part {
            Part::Env { name, default: None } if lookup.env(&name).is_none() => {
                Some((unset(name)?, tail))
            }
            part => Some((part, tail)),
        });
        let (part, tail) = known.unwrap_or((Part::Text(Hidden::new("$")), after));
        parts.push(part);
        rest = tail;
    }
    parts.push(Part::Text(Hidden::new(rest)));
    Value::of_parts(parts)
}

fn empty(name: String) -> Part {
    Part::Env { name, default: Some(Hidden::default()) }
}

/// The reference that a text behind a `$` begins with, and what follows it.
fn reference(after: &str) -> Option<(Part, &str)> {
    if let Some(braced) = after.strip_prefix('{') {
        let (inside, tail) = braced.split_once('}')?;
        return Some((expand::variable(inside)?, tail));
    }
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
    let (name, tail) = after.split_at(end);
    is_variable(name).then(|| {
        let part = Part::Env { name: name.to_string(), default: None };
        (part, tail)
    })
}

#[cfg(test)]
#[path = "gemini_tests.rs"]
mod tests;

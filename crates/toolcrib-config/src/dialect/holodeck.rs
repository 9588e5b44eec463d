//! HoloDeck's `agent.yaml`: tools of type `mcp`; one that is wrong fails the whole file.

mod reach;
mod seconds;
mod template;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value as Json};

use self::seconds::{Seconds, WholeSeconds};
use self::template::Folder;
use super::lower::Texts;
use super::{Dialect, Draft, Loaded};
use crate::cx::Cx;
use crate::doc::{At, Doc, Kind, NodeId, describe};
use crate::model::Outcome;
use crate::model::free::Free;
use crate::model::policy::{
    DiscoveryKeys, ExposeKeys, InitKeys, PolicyKeys, TimeoutsKeys, ToolFilterKeys,
};
use crate::text;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tool {
    name: Option<At<String>>,
    description: Option<At<String>>,
    r#type: Option<At<IgnoredAny>>,
    server: Option<At<String>>,
    transport: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    env: Option<At<Texts>>,
    #[serde(rename = "envFile")]
    env_file: Option<At<String>>,
    #[serde(rename = "env_file")]
    env_file_too: Option<At<String>>,
    encoding: Option<At<String>>,
    url: Option<At<String>>,
    headers: Option<At<Texts>>,
    timeout: Option<At<Seconds>>,
    sse_read_timeout: Option<At<Seconds>>,
    terminate_on_close: Option<At<bool>>,
    config: Option<At<Map<String, Json>>>,
    load_tools: Option<At<bool>>,
    load_prompts: Option<At<bool>>,
    request_timeout: Option<At<WholeSeconds>>,
    registry_name: Option<At<IgnoredAny>>,
    is_retrieval: Option<At<IgnoredAny>>,
    defer_loading: Option<At<IgnoredAny>>,
}

/// Keys of HoloDeck itself that say nothing about the server.
const KEPT: &[&str] = &["registry_name", "is_retrieval", "defer_loading"];

/// Where a tool is listed.
#[derive(Clone, Copy, PartialEq)]
enum List {
    /// `tools` of an agent: the written contract.
    Agent,
    /// `mcp_servers` of the person's own configuration, which HoloDeck itself writes: every entry
    /// is an MCP server, and there is no `server`.
    Global,
}

/// The MCP tools of a file. Everything else in it belongs to another program.
pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let mut loaded = Loaded::new();
    for (key, list) in [("tools", List::Agent), ("mcp_servers", List::Global)] {
        let Some(node) = cx.doc.get(Doc::ROOT, key) else {
            continue;
        };
        match cx.doc.kind(node) {
            Kind::Null => {}
            Kind::Seq(items) => loaded.servers.extend(tools(cx, items, list)),
            _ => {
                let text = format!("`{key}` must be a list, found {}", describe(cx.doc, node));
                cx.error(node, "value.invalid", text, "begin each tool with `- name: …`");
                return Loaded::refused(Outcome::Failed);
            }
        }
    }
    loaded
}

fn tools(cx: &mut Cx<'_>, items: &[NodeId], list: List) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (index, node) in items.iter().enumerate() {
        let label = match word(cx.doc, *node, "name") {
            Some(name) if !name.is_empty() => name.to_string(),
            _ => cx.doc.path(*node),
        };
        cx.enter(&label);
        let mut draft = Draft::new(&label, *node, Dialect::Holodeck);
        match sort(cx, *node, list) {
            Sort::Other => {}
            Sort::Wrong => {
                draft.sound = false;
                drafts.push(draft);
            }
            Sort::Mcp => {
                let before = items.get(..index).unwrap_or_default();
                lower(cx, &mut draft, list);
                draft.sound &= is_first(cx, *node, before);
                drafts.push(draft);
            }
        }
        cx.leave();
    }
    drafts
}

/// What an entry of the list is.
enum Sort {
    Mcp,
    /// A tool of another type: neither a server nor a mistake.
    Other,
    /// It does not tell; that has been told.
    Wrong,
}

fn sort(cx: &mut Cx<'_>, node: NodeId, list: List) -> Sort {
    if !cx.is_map(node, "write `name`, `description`, `type` and `server`") {
        return Sort::Wrong;
    }
    match (word(cx.doc, node, "type"), list) {
        (Some("mcp"), _) | (None, List::Global) => Sort::Mcp,
        (Some(_), _) => Sort::Other,
        (None, List::Agent) => {
            required(cx, node, "type");
            Sort::Wrong
        }
    }
}

/// A key's value where it is text.
fn word<'d>(doc: &'d Doc, node: NodeId, key: &str) -> Option<&'d str> {
    match doc.kind(doc.get(node, key)?) {
        Kind::Text(word) => Some(word),
        _ => None,
    }
}

fn required(cx: &mut Cx<'_>, node: NodeId, field: &str) {
    let text = format!("ValidationError: '{field}' is required");
    cx.error(node, "key.required", text, &format!("add `{field}`"));
}

/// Whether no tool before this one, of whatever type, has its name.
fn is_first(cx: &mut Cx<'_>, node: NodeId, before: &[NodeId]) -> bool {
    let Some(name) = word(cx.doc, node, "name") else {
        return true;
    };
    let same = before.iter().find(|other| word(cx.doc, **other, "name") == Some(name));
    if let Some(other) = same {
        let text = format!(
            "ValidationError: 'name' must be unique; '{}' is taken by the tool in line {}",
            text::clip(name),
            cx.doc.place(*other).line
        );
        let at = cx.doc.get(node, "name").unwrap_or(node);
        cx.error(at, "name.duplicate", text, "give one of the two another name");
    }
    same.is_none()
}

fn lower(cx: &mut Cx<'_>, draft: &mut Draft, list: List) {
    let node = draft.node;
    let entry = cx.server_entry::<Tool>(node);
    let mut tool = entry.value;
    draft.extras = entry.extras;
    draft.extras.extend(KEPT.iter().filter_map(|key| {
        let value = cx.doc.get(node, key)?;
        Some(((*key).to_string(), cx.doc.json(value)))
    }));
    let named = has_name(cx, node, tool.name.as_ref());
    let served = has_server(cx, node, tool.server.as_ref(), list);
    let described = is_described(cx, node, &tool);
    let folder = Folder::of(cx);
    let transport = reach::lower(cx, node, &mut tool, &folder);
    draft.sound = entry.sound && named && served && described && transport.is_some();
    draft.transport = transport.unwrap_or_default();
    let allow = tool.config.as_ref().map_or(Ok(None), |config| allowed_tools(cx, config));
    draft.sound &= allow.is_ok();
    draft.policy = policy(tool, allow.unwrap_or_default(), &folder);
}

fn has_name(cx: &mut Cx<'_>, node: NodeId, name: Option<&At<String>>) -> bool {
    match name.map(|at| (at.node, at.value.as_deref())) {
        None | Some((_, Some(""))) => {
            required(cx, node, "name");
            false
        }
        Some((at, Some(name))) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !name.chars().all(plain) {
                let text = format!(
                    "the name '{}' has characters other than letters, digits and `_`; HoloDeck refuses it",
                    text::clip(name)
                );
                cx.warning(at, "name.unusual", text, "rename the tool");
            }
            true
        }
        Some((_, None)) => false,
    }
}

fn has_server(cx: &mut Cx<'_>, node: NodeId, server: Option<&At<String>>, list: List) -> bool {
    let at = match server {
        None if list == List::Global => return true,
        None => node,
        // A value of the wrong type has been told already.
        Some(At { value: None, .. }) => return false,
        Some(At { value: Some(name), .. }) if !name.trim().is_empty() => return true,
        Some(At { node, .. }) => *node,
    };
    let text = "ValidationError: 'server' must be a non-empty identifier";
    cx.error(
        at,
        "server.empty",
        text,
        "name the server's package, for example `server: my-server`",
    );
    false
}

/// Only an entry of the old form may do without.
fn is_described(cx: &mut Cx<'_>, node: NodeId, tool: &Tool) -> bool {
    let described = tool.description.is_some() || reach::is_legacy(tool);
    if !described {
        required(cx, node, "description");
    }
    described
}

fn policy(tool: Tool, allow: Option<At<Vec<String>>>, folder: &Folder) -> PolicyKeys {
    let expose = |allow: At<Vec<String>>| {
        let node = allow.node;
        let tools = ToolFilterKeys { allow: Some(allow), ..ToolFilterKeys::default() };
        let keys = ExposeKeys { tools: Some(At::new(node, tools)), ..ExposeKeys::default() };
        At::new(node, keys)
    };
    let init = |at: At<Map<String, Json>>| {
        let config = at.map(|map| Free::of_json(&map, &|text| folder.value(text)));
        let node = config.node;
        let keys = InitKeys { config: Some(config), ..InitKeys::default() };
        At::new(node, keys)
    };
    let request = tool.request_timeout.map(|at| at.map(|seconds| seconds.0));
    let timeouts = TimeoutsKeys {
        connect: tool.timeout.map(|at| at.map(|seconds| seconds.0)),
        sse_read: tool.sse_read_timeout.map(|at| at.map(|seconds| seconds.0)),
        // It limits the whole operation: progress does not begin it anew.
        request_max: request.clone(),
        request,
        ..TimeoutsKeys::default()
    };
    let discovery = DiscoveryKeys {
        tools: tool.load_tools,
        prompts: tool.load_prompts,
        ..DiscoveryKeys::default()
    };
    PolicyKeys {
        description: tool.description,
        package: tool.server,
        init: tool.config.map(init),
        expose: allow.map(expose),
        timeouts: Some(At::unplaced(timeouts)),
        discovery: Some(At::unplaced(discovery)),
        ..PolicyKeys::default()
    }
}

/// An `allowed_tools` that cannot be relied on; it has been reported.
struct Invalid;

const ALLOWED_TOOLS: &str = "allowed_tools";

/// `config.allowed_tools`: HoloDeck itself offers no other tools of the server. Other keys of `config` are the server's
/// own, but for one that is nearly this one.
fn allowed_tools(
    cx: &mut Cx<'_>,
    config: &At<Map<String, Json>>,
) -> Result<Option<At<Vec<String>>>, Invalid> {
    let is_misspelt = |name: &str| {
        name != ALLOWED_TOOLS && text::slip(name, &[ALLOWED_TOOLS]).is_some_and(|(far, _)| far <= 1)
    };
    let mut entries = cx.doc.entries(config.node).iter();
    if let Some(entry) = entries.position(|(key, _)| is_misspelt(&key.name)) {
        cx.invalid_key(config.node, entry, "the server's entry", Some("config.allowed_tools"));
        return Err(Invalid);
    }
    let Some(node) = cx.doc.get(config.node, ALLOWED_TOOLS) else { return Ok(None) };
    let given = config.value.as_ref().and_then(|config| config.get(ALLOWED_TOOLS));
    let name = |name: &Json| name.as_str().map(str::to_string);
    let names: Option<Vec<String>> =
        given.and_then(Json::as_array).and_then(|names| names.iter().map(name).collect());
    let Some(names) = names else {
        let text = "`config.allowed_tools` must be a list of names; the server's entry is not used";
        cx.error(node, "config.allowed_tools", text, "write the names of tools as texts");
        return Err(Invalid);
    };
    Ok(Some(At::new(node, names)))
}

#[cfg(test)]
#[path = "holodeck_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "holodeck_seed_tests.rs"]
mod seed_tests;

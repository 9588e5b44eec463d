//! Reads HoloDeck's `agent.yaml`: tools of type `mcp`. One invalid tool fails the whole file.

mod seconds;
mod text_variables;
mod tool_transport;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value as Json};

use self::seconds::{Seconds, WholeSeconds};
use self::text_variables::AgentFolder;
use super::conversions::TextMap;
use super::{Dialect, DialectFile, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, NodeId, NodeKind, describe_node};
use crate::model::SourceOutcome;
use crate::model::freeform::FreeformSettings;
use crate::model::policy::{
    DiscoveryKeys, ExposeKeys, InitKeys, PolicyKeys, TimeoutsKeys, ToolFilterKeys,
};
use crate::text;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HolodeckTool {
    name: Option<At<String>>,
    description: Option<At<String>>,
    r#type: Option<At<IgnoredAny>>,
    server: Option<At<String>>,
    transport: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    env: Option<At<TextMap>>,
    #[serde(rename = "envFile")]
    env_file: Option<At<String>>,
    #[serde(rename = "env_file")]
    env_file_too: Option<At<String>>,
    encoding: Option<At<String>>,
    url: Option<At<String>>,
    headers: Option<At<TextMap>>,
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

/// Keys that only HoloDeck uses; they do not affect the server.
const HOLODECK_ONLY_KEYS: &[&str] = &["registry_name", "is_retrieval", "defer_loading"];

/// The list that contains a tool.
#[derive(Clone, Copy, PartialEq)]
enum ToolList {
    /// `tools` of an agent file, as the contract defines it.
    Agent,
    /// `mcp_servers` of the user's own configuration, which HoloDeck writes. Every entry is an MCP server,
    /// and `server` is missing.
    Global,
}

/// Reads the MCP tools of a file. Other keys of the file belong to HoloDeck.
pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let mut file = DialectFile::new();
    for (key, list) in [("tools", ToolList::Agent), ("mcp_servers", ToolList::Global)] {
        let Some(node) = cx.doc.get(Doc::ROOT, key) else {
            continue;
        };
        match cx.doc.kind(node) {
            NodeKind::Null => {}
            NodeKind::Seq(items) => file.servers.extend(read_tools(cx, items, list)),
            _ => {
                let text = format!("`{key}` must be a list, found {}", describe_node(cx.doc, node));
                cx.error(node, "value.invalid", text, "begin each tool with `- name: …`");
                return DialectFile::discarded(SourceOutcome::Failed);
            }
        }
    }
    file
}

fn read_tools(cx: &mut CompileContext<'_>, items: &[NodeId], list: ToolList) -> Vec<ServerDraft> {
    let mut drafts = Vec::new();
    for (index, node) in items.iter().enumerate() {
        let label = match text_of_key(cx.doc, *node, "name") {
            Some(name) if !name.is_empty() => name.to_string(),
            _ => cx.doc.path(*node),
        };
        cx.enter_server(&label);
        let mut draft = ServerDraft::new(&label, *node, Dialect::Holodeck);
        match entry_kind(cx, *node, list) {
            EntryKind::Other => {}
            EntryKind::Invalid => {
                draft.is_valid = false;
                drafts.push(draft);
            }
            EntryKind::Mcp => {
                let before = items.get(..index).unwrap_or_default();
                lower_tool(cx, &mut draft, list);
                draft.is_valid &= check_unique_name(cx, *node, before);
                drafts.push(draft);
            }
        }
        cx.leave_server();
    }
    drafts
}

/// Classification of a list entry.
enum EntryKind {
    Mcp,
    /// A tool of another type, which is neither a server nor a mistake.
    Other,
    /// An entry without a type. The problem has already been reported.
    Invalid,
}

fn entry_kind(cx: &mut CompileContext<'_>, node: NodeId, list: ToolList) -> EntryKind {
    if !cx.check_is_map(node, "write `name`, `description`, `type` and `server`") {
        return EntryKind::Invalid;
    }
    match (text_of_key(cx.doc, node, "type"), list) {
        (Some("mcp"), _) | (None, ToolList::Global) => EntryKind::Mcp,
        (Some(_), _) => EntryKind::Other,
        (None, ToolList::Agent) => {
            report_missing_key(cx, node, "type");
            EntryKind::Invalid
        }
    }
}

/// Returns the value of a key if it is a text.
fn text_of_key<'d>(doc: &'d Doc, node: NodeId, key: &str) -> Option<&'d str> {
    match doc.kind(doc.get(node, key)?) {
        NodeKind::Text(word) => Some(word),
        _ => None,
    }
}

fn report_missing_key(cx: &mut CompileContext<'_>, node: NodeId, field: &str) {
    let text = format!("ValidationError: '{field}' is required");
    cx.error(node, "key.required", text, &format!("add `{field}`"));
}

/// Checks that no earlier tool of any type has the same name.
fn check_unique_name(cx: &mut CompileContext<'_>, node: NodeId, before: &[NodeId]) -> bool {
    let Some(name) = text_of_key(cx.doc, node, "name") else {
        return true;
    };
    let same = before.iter().find(|other| text_of_key(cx.doc, **other, "name") == Some(name));
    if let Some(other) = same {
        let text = format!(
            "ValidationError: 'name' must be unique; '{}' is taken by the tool in line {}",
            text::clip(name),
            cx.doc.location(*other).line
        );
        let at = cx.doc.get(node, "name").unwrap_or(node);
        cx.error(at, "name.duplicate", text, "give one of the two another name");
    }
    same.is_none()
}

fn lower_tool(cx: &mut CompileContext<'_>, draft: &mut ServerDraft, list: ToolList) {
    let node = draft.node;
    let entry = cx.read_server_entry::<HolodeckTool>(node);
    let mut tool = entry.value;
    draft.extras = entry.extras;
    draft.extras.extend(HOLODECK_ONLY_KEYS.iter().filter_map(|key| {
        let value = cx.doc.get(node, key)?;
        Some(((*key).to_string(), cx.doc.json(value)))
    }));
    let has_valid_name = check_name(cx, node, tool.name.as_ref());
    let has_valid_server = check_server(cx, node, tool.server.as_ref(), list);
    let has_description = check_description(cx, node, &tool);
    let folder = AgentFolder::new(cx);
    let transport = tool_transport::lower_transport(cx, node, &mut tool, &folder);
    draft.is_valid = entry.is_valid
        && has_valid_name
        && has_valid_server
        && has_description
        && transport.is_some();
    draft.transport = transport.unwrap_or_default();
    let allow = tool.config.as_ref().map_or(Ok(None), |config| allowed_tools(cx, config));
    draft.is_valid &= allow.is_ok();
    draft.policy = policy_keys(tool, allow.unwrap_or_default(), &folder);
}

fn check_name(cx: &mut CompileContext<'_>, node: NodeId, name: Option<&At<String>>) -> bool {
    match name.map(|at| (at.node, at.value.as_deref())) {
        None | Some((_, Some(""))) => {
            report_missing_key(cx, node, "name");
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

fn check_server(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    server: Option<&At<String>>,
    list: ToolList,
) -> bool {
    let at = match server {
        None if list == ToolList::Global => return true,
        None => node,
        // A value of the wrong type has already been reported.
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

/// Checks the description. Only entries of the legacy form may omit it.
fn check_description(cx: &mut CompileContext<'_>, node: NodeId, tool: &HolodeckTool) -> bool {
    let has_description = tool.description.is_some() || tool_transport::is_legacy(tool);
    if !has_description {
        report_missing_key(cx, node, "description");
    }
    has_description
}

fn policy_keys(
    tool: HolodeckTool,
    allow: Option<At<Vec<String>>>,
    folder: &AgentFolder,
) -> PolicyKeys {
    let expose = |allow: At<Vec<String>>| {
        let node = allow.node;
        let tools = ToolFilterKeys { allow: Some(allow), ..ToolFilterKeys::default() };
        let keys = ExposeKeys { tools: Some(At::new(node, tools)), ..ExposeKeys::default() };
        At::new(node, keys)
    };
    let init = |at: At<Map<String, Json>>| {
        let config = at.map(|map| FreeformSettings::from_json(&map, &|text| folder.value(text)));
        let node = config.node;
        let keys = InitKeys { config: Some(config), ..InitKeys::default() };
        At::new(node, keys)
    };
    let request = tool.request_timeout.map(|at| at.map(|seconds| seconds.0));
    let timeouts = TimeoutsKeys {
        connect: tool.timeout.map(|at| at.map(|seconds| seconds.0)),
        sse_read: tool.sse_read_timeout.map(|at| at.map(|seconds| seconds.0)),
        // `request_timeout` limits the whole operation: progress does not extend it.
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
        timeouts: Some(At::without_location(timeouts)),
        discovery: Some(At::without_location(discovery)),
        ..PolicyKeys::default()
    }
}

/// Marks an invalid `allowed_tools`. The problem has already been reported.
struct InvalidAllowedTools;

const ALLOWED_TOOLS: &str = "allowed_tools";

/// Reads `config.allowed_tools`: HoloDeck offers no other tools of the server. Other keys of `config` belong
/// to the server, except misspellings of this one.
fn allowed_tools(
    cx: &mut CompileContext<'_>,
    config: &At<Map<String, Json>>,
) -> Result<Option<At<Vec<String>>>, InvalidAllowedTools> {
    let is_misspelt = |name: &str| {
        name != ALLOWED_TOOLS
            && text::find_misspelling(name, &[ALLOWED_TOOLS]).is_some_and(|(far, _)| far <= 1)
    };
    let mut entries = cx.doc.entries(config.node).iter();
    if let Some(entry) = entries.position(|(key, _)| is_misspelt(&key.name)) {
        cx.report_restricting_key(
            config.node,
            entry,
            "the server's entry",
            Some("config.allowed_tools"),
        );
        return Err(InvalidAllowedTools);
    }
    let Some(node) = cx.doc.get(config.node, ALLOWED_TOOLS) else { return Ok(None) };
    let given = config.value.as_ref().and_then(|config| config.get(ALLOWED_TOOLS));
    let name = |name: &Json| name.as_str().map(str::to_string);
    let names: Option<Vec<String>> =
        given.and_then(Json::as_array).and_then(|names| names.iter().map(name).collect());
    let Some(names) = names else {
        let text = "`config.allowed_tools` must be a list of names; the server's entry is not used";
        cx.error(node, "config.allowed_tools", text, "write the names of tools as texts");
        return Err(InvalidAllowedTools);
    };
    Ok(Some(At::new(node, names)))
}

#[cfg(test)]
#[path = "holodeck_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "holodeck_seed_tests.rs"]
mod seed_tests;

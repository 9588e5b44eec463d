//! Default results of the scripted server.

use serde_json::{Value, json};
use toolcrib_wire::{Body, Request, RpcError, Version, method};

use super::script::Script;

/// Built-in tools.
const TOOLS: [&str; 3] = ["echo", "fail", "env"];

/// Returns the default result of a request, or the error.
pub(super) fn default_result(script: &Script, request: &Request) -> Result<Value, RpcError> {
    let params = &request.params;
    let modern = params.version().is_some();
    let result = match request.method.as_str() {
        method::INITIALIZE if !script.modern_only => initialize(params),
        method::DISCOVER if !script.legacy_only => discover(),
        method::PING => json!({}),
        method::TOOLS_LIST => list_tools(script, params)?,
        method::TOOLS_CALL => call_tool(params),
        method::PROMPTS_LIST => json!({"prompts": []}),
        method::RESOURCES_LIST => json!({"resources": []}),
        method::RESOURCE_TEMPLATES_LIST => json!({"resourceTemplates": []}),
        other => return Err(RpcError::method_not_found(other)),
    };
    Ok(if modern { add_modern_fields(result) } else { result })
}

/// Adds the fields that every result of the modern era has, and those of lists.
fn add_modern_fields(mut result: Value) -> Value {
    if let Value::Object(members) = &mut result {
        members.entry("resultType").or_insert(json!("complete"));
        if !members.contains_key("content") {
            members.entry("ttlMs").or_insert(json!(0));
            members.entry("cacheScope").or_insert(json!("private"));
        }
    }
    result
}

fn initialize(params: &Body) -> Value {
    let requested = params.get("protocolVersion").and_then(|version| version.as_str());
    let version =
        requested.map_or(Version::NEWEST_LEGACY, |text| Version::from(&*text).negotiate_legacy());
    json!({"protocolVersion": version.as_str(), "capabilities": capabilities(), "serverInfo": server_info()})
}

fn discover() -> Value {
    let meta = json!({"io.modelcontextprotocol/serverInfo": server_info()});
    json!({
        "supportedVersions": [Version::NEWEST.as_str()],
        "capabilities": capabilities(),
        "serverInfo": server_info(),
        "_meta": meta,
    })
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {}, "logging": {}})
}

fn server_info() -> Value {
    json!({"name": "scripted", "version": "1"})
}

/// Lists tools. The cursor is the index of the first tool on the page.
fn list_tools(script: &Script, params: &Body) -> Result<Value, RpcError> {
    let own = TOOLS.iter().map(|name| (*name).to_owned());
    let scripted = script.on.keys().filter_map(|key| key.strip_prefix("tools/call "));
    let names: Vec<String> =
        own.chain(scripted.map(str::to_owned)).chain(script.tools.iter().cloned()).collect();
    let cursor = params.get("cursor").and_then(|cursor| cursor.as_str());
    let start = cursor.map_or(Ok(0), |cursor| cursor.parse::<usize>());
    let start = start.map_err(|_| RpcError::invalid_params("no such cursor"))?;
    let size = if script.page == 0 { names.len() } else { script.page };
    let page: Vec<Value> =
        names.iter().skip(start).take(size).map(|name| tool_definition(name)).collect();
    let next = start.saturating_add(size);
    Ok(if next < names.len() {
        json!({"tools": page, "nextCursor": next.to_string()})
    } else {
        json!({"tools": page})
    })
}

fn tool_definition(name: &str) -> Value {
    json!({"name": name, "description": format!("The tool {name}"), "inputSchema": {"type": "object"}})
}

fn call_tool(params: &Body) -> Value {
    let arguments = params.get("arguments").map_or("{}", |arguments| arguments.text());
    match params.name().as_deref() {
        Some("fail") => {
            json!({"content": [{"type": "text", "text": "it failed"}], "isError": true})
        }
        Some("env") => text_result(&process_environment().to_string()),
        _ => text_result(arguments),
    }
}

pub(super) fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

#[expect(clippy::disallowed_methods, reason = "this server reports its own environment")]
fn process_environment() -> Value {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let args: Vec<String> = std::env::args_os().skip(1).map(lossy).collect();
    let env: serde_json::Map<String, Value> =
        std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value).into())).collect();
    let cwd = std::env::current_dir().map(|cwd| cwd.display().to_string()).ok();
    json!({"args": args, "env": env, "cwd": cwd})
}

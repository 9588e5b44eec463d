//! The tools `list_resources` and `read_resource`, for agents that can only use tools (DIS-54).

use std::sync::{Arc, Weak};

use serde_json::{Value, json};
use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::ResourcesAs;
use toolcrib_wire::view::ContentBlock;
use toolcrib_wire::{ObjectWriter, RawJson};

use super::admin_tools::{DeferredHost, text_result};
use super::handle::Host;
use super::turn::Turn;
use crate::registry::{
    NativeCall, NativeDefinitionError, NativeError, NativeTool, NativeToolDefinition,
    NativeToolFuture, NativeToolset, RegisteredServer,
};

/// The toolset's name. The toolset exists if a server has `expose.resources.as: tools`.
pub(super) const TOOLSET: &str = "mcp_resources";

pub(super) fn build_toolset(host: &DeferredHost) -> Result<NativeToolset, NativeDefinitionError> {
    let tool = |operation| ResourceTool { operation, host: Arc::clone(host) };
    NativeToolset::new(TOOLSET)
        .description("Resources of MCP servers.")
        .with(tool(ResourceOperation::List))?
        .with(tool(ResourceOperation::Read))
}

/// Whether these tools offer the server's resources.
pub(super) fn exposes_as_tools(spec: &ServerSpec) -> bool {
    spec.policy.expose.resources.r#as == ResourcesAs::Tools
}

struct ResourceTool {
    operation: ResourceOperation,
    host: DeferredHost,
}

#[derive(Clone, Copy)]
enum ResourceOperation {
    List,
    Read,
}

impl NativeTool for ResourceTool {
    fn definition(&self) -> NativeToolDefinition {
        let server = json!({"type": "string", "description": "Only this server, by its id."});
        let uri =
            json!({"type": "string", "description": "The URI, as `list_resources` gives it."});
        let (name, about, properties, required) = match self.operation {
            ResourceOperation::List => (
                "list_resources",
                "Lists the resources of MCP servers, and the templates of URIs that can be read.",
                json!({"server": server}),
                json!([]),
            ),
            ResourceOperation::Read => (
                "read_resource",
                "Reads a resource of an MCP server.",
                json!({"uri": uri, "server": server}),
                json!(["uri"]),
            ),
        };
        let schema = json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false});
        let definition = NativeToolDefinition::new(name, &to_raw(&schema)).description(about);
        definition.annotations(to_raw(&json!({"readOnlyHint": true})))
    }

    fn call(&self, call: NativeCall) -> NativeToolFuture<'_> {
        Box::pin(async move {
            let host = self.host.get().and_then(Weak::upgrade).map(Host::from_inner);
            let dialog = host.and_then(|host| host.find_dialog(call.dialog.as_deref()?));
            let dialog = dialog.ok_or_else(|| NativeError("the dialog has ended".to_owned()))?;
            let turn = dialog.turn().await;
            let text = |key| call.arguments.json().get(key).and_then(|it| it.as_str());
            let (uri, server) = (text("uri"), text("server"));
            match (self.operation, uri) {
                (ResourceOperation::List, _) => Ok(list_resources(&turn, server.as_deref())),
                (ResourceOperation::Read, Some(uri)) => {
                    Ok(read_resource(&turn, &uri, server.as_deref()).await)
                }
                (ResourceOperation::Read, None) => {
                    Ok(text_result("argument `uri` is missing", true))
                }
            }
        })
    }
}

fn list_resources(turn: &Turn, server: Option<&str>) -> RawJson {
    let is_meant = |owner: &RegisteredServer| {
        exposes_as_tools(&owner.spec) && server.is_none_or(|id| owner.matches_name(id))
    };
    let resources = turn.resources();
    let resources = resources.iter().filter(|it| is_meant(it.server())).map(|it| {
        let given = |key| string_member(it.item().raw(), key);
        json!({"server": it.server().id(), "uri": it.uri(), "name": it.name(),
            "description": given("description"), "mimeType": given("mimeType")})
    });
    let templates = turn.templates();
    let templates = templates.iter().filter(|it| is_meant(it.server())).map(|it| {
        json!({"server": it.server().id(), "uriTemplate": it.uri(), "name": it.name(),
            "description": string_member(it.item().raw(), "description")})
    });
    let resources: Vec<Value> = resources.collect();
    let templates: Vec<Value> = templates.collect();
    text_result(&json!({"resources": resources, "templates": templates}).to_string(), false)
}

/// Returns text contents as text, and all other contents as embedded resources, unchanged.
async fn read_resource(turn: &Turn, uri: &str, server: Option<&str>) -> RawJson {
    let owner =
        turn.find_resource_server(uri, server).ok().filter(|owner| exposes_as_tools(&owner.spec));
    let Some(owner) = owner else {
        return text_result(&format!("resource not found: {uri}"), true);
    };
    let result = match turn.read_resource(uri, Some(&owner.key)).await {
        Ok(result) => result,
        Err(error) => return text_result(&error.to_string(), true),
    };
    let contents = result.get("contents");
    let items = contents.iter().flat_map(|list| list.json().items());
    let items = items.map(|item| match item.get("text").and_then(|text| text.as_str()) {
        Some(text) => ContentBlock::text(&text).raw().clone(),
        None => ObjectWriter::new().string("type", "resource").json("resource", item).finish(),
    });
    ObjectWriter::new().array("content", items).finish()
}

fn string_member(item: &RawJson, key: &str) -> Option<String> {
    Some(item.json().get(key)?.as_str()?.into_owned())
}

/// Converts a JSON value that this file built. The conversion of an object does not fail.
fn to_raw(value: &Value) -> RawJson {
    RawJson::from_value(value).unwrap_or_else(|_| ObjectWriter::new().finish())
}

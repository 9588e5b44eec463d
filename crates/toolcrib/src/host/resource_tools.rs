//! Resources as tools, `list_resources` and `read_resource`, for agents that have nothing but tools (DIS-54).

use std::sync::{Arc, Weak};

use serde_json::{Value, json};
use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::ResourcesAs;
use toolcrib_wire::view::Content;
use toolcrib_wire::{ObjectWriter, Raw};

use super::admin::{Home, answer};
use super::handle::Host;
use super::turn::Turn;
use crate::registry::{
    Answer, BadDefinition, Definition, NativeCall, NativeError, NativeTool, NativeToolset, Server,
};

/// The toolset. It exists where a server says `expose.resources.as: tools`.
pub(super) const TOOLSET: &str = "mcp_resources";

pub(super) fn toolset(home: &Home) -> Result<NativeToolset, BadDefinition> {
    let tool = |operation| ResourceTool { operation, home: Arc::clone(home) };
    NativeToolset::new(TOOLSET)
        .description("Resources of MCP servers.")
        .with(tool(Operation::List))?
        .with(tool(Operation::Read))
}

/// Whether a server's resources are offered by these tools.
pub(super) fn is_wanted(spec: &ServerSpec) -> bool {
    spec.policy.expose.resources.r#as == ResourcesAs::Tools
}

struct ResourceTool {
    operation: Operation,
    home: Home,
}

#[derive(Clone, Copy)]
enum Operation {
    List,
    Read,
}

impl NativeTool for ResourceTool {
    fn definition(&self) -> Definition {
        let server = json!({"type": "string", "description": "Only this server, by its id."});
        let uri =
            json!({"type": "string", "description": "The URI, as `list_resources` gives it."});
        let (name, about, properties, required) = match self.operation {
            Operation::List => (
                "list_resources",
                "Lists the resources of MCP servers, and the templates of URIs that can be read.",
                json!({"server": server}),
                json!([]),
            ),
            Operation::Read => (
                "read_resource",
                "Reads a resource of an MCP server.",
                json!({"uri": uri, "server": server}),
                json!(["uri"]),
            ),
        };
        let schema = json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false});
        let definition = Definition::new(name, &raw(&schema)).description(about);
        definition.annotations(raw(&json!({"readOnlyHint": true})))
    }

    fn call(&self, call: NativeCall) -> Answer<'_> {
        Box::pin(async move {
            let host = self.home.get().and_then(Weak::upgrade).map(Host::of);
            let dialog = host.and_then(|host| host.dialog_of(call.dialog.as_deref()?));
            let dialog = dialog.ok_or_else(|| NativeError("the dialog has ended".to_owned()))?;
            let turn = dialog.turn().await;
            let text = |key| call.arguments.json().get(key).and_then(|it| it.as_str());
            let (uri, server) = (text("uri"), text("server"));
            match (self.operation, uri) {
                (Operation::List, _) => Ok(list(&turn, server.as_deref())),
                (Operation::Read, Some(uri)) => Ok(read(&turn, &uri, server.as_deref()).await),
                (Operation::Read, None) => Ok(answer("`uri` is missing", true)),
            }
        })
    }
}

fn list(turn: &Turn, server: Option<&str>) -> Raw {
    let is_meant = |of: &Server| is_wanted(&of.spec) && server.is_none_or(|id| of.is_called(id));
    let resources = turn.resources();
    let resources = resources.iter().filter(|it| is_meant(it.server())).map(|it| {
        let given = |key| text(it.item().raw(), key);
        json!({"server": it.server().id(), "uri": it.uri(), "name": it.name(),
            "description": given("description"), "mimeType": given("mimeType")})
    });
    let templates = turn.templates();
    let templates = templates.iter().filter(|it| is_meant(it.server())).map(|it| {
        json!({"server": it.server().id(), "uriTemplate": it.uri(), "name": it.name(),
            "description": text(it.item().raw(), "description")})
    });
    let resources: Vec<Value> = resources.collect();
    let templates: Vec<Value> = templates.collect();
    answer(&json!({"resources": resources, "templates": templates}).to_string(), false)
}

/// Text as text; everything else as an embedded resource, as the server gave it.
async fn read(turn: &Turn, uri: &str, server: Option<&str>) -> Raw {
    let of = turn.owner(uri, server).ok().filter(|of| is_wanted(&of.spec));
    let Some(of) = of else { return answer(&format!("resource not found: {uri}"), true) };
    let result = match turn.read(uri, Some(&of.key)).await {
        Ok(result) => result,
        Err(error) => return answer(&error.to_string(), true),
    };
    let contents = result.get("contents");
    let items = contents.iter().flat_map(|list| list.json().items());
    let items = items.map(|item| match item.get("text").and_then(|text| text.as_str()) {
        Some(text) => Content::text(&text).raw().clone(),
        None => ObjectWriter::new().string("type", "resource").json("resource", item).finish(),
    });
    ObjectWriter::new().array("content", items).finish()
}

fn text(item: &Raw, key: &str) -> Option<String> {
    Some(item.json().get(key)?.as_str()?.into_owned())
}

/// An object that was written here is one.
fn raw(value: &Value) -> Raw {
    Raw::of(value).unwrap_or_else(|_| ObjectWriter::new().finish())
}

//! The native tools that let agents manage servers: `mcp_release`, `mcp_restart`, `mcp_disable`.

use std::sync::{Arc, OnceLock, Weak};

use toolcrib_upstream::signals::chain;
use toolcrib_wire::view::ContentBlock;
use toolcrib_wire::{ObjectWriter, RawJson};

use super::handle::{Host, HostInner};
use crate::registry::{
    NativeCall, NativeDefinitionError, NativeError, NativeTool, NativeToolDefinition,
    NativeToolFuture, NativeToolset,
};

/// The toolset's name. A grant must name the toolset, except for `mcp_release`.
pub(super) const TOOLSET: &str = "mcp_admin";
pub(super) const RELEASE: &str = "mcp_release";

/// Reference to the host that owns the tools. The host is created after the tools, so the reference
/// is set later.
pub(super) type DeferredHost = Arc<OnceLock<Weak<HostInner>>>;

pub(super) fn build_toolset(host: &DeferredHost) -> Result<NativeToolset, NativeDefinitionError> {
    let tool = |operation| AdminTool { operation, host: Arc::clone(host) };
    NativeToolset::new(TOOLSET)
        .description("Manages MCP servers and the sessions that are reserved for a dialog.")
        .with(tool(AdminOperation::Release))?
        .with(tool(AdminOperation::Restart))?
        .with(tool(AdminOperation::Disable))
}

struct AdminTool {
    operation: AdminOperation,
    host: DeferredHost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AdminOperation {
    Release,
    Restart,
    Disable,
}

impl AdminOperation {
    fn name(self) -> &'static str {
        match self {
            AdminOperation::Release => RELEASE,
            AdminOperation::Restart => "mcp_restart",
            AdminOperation::Disable => "mcp_disable",
        }
    }

    fn description(self) -> &'static str {
        match self {
            AdminOperation::Release => {
                "Releases the session of an MCP server that is reserved for this dialog. The state of the \
                 session is lost."
            }
            AdminOperation::Restart => {
                "Restarts an MCP server and all its sessions, in all dialogs."
            }
            AdminOperation::Disable => {
                "Disables an MCP server for all agents until it is enabled again. No file is changed."
            }
        }
    }
}

impl NativeTool for AdminTool {
    fn definition(&self) -> NativeToolDefinition {
        let about = ObjectWriter::new()
            .string("type", "string")
            .string("description", "The server's id.")
            .finish();
        let properties = ObjectWriter::new().json("serverId", about.json()).finish();
        let schema = ObjectWriter::new()
            .string("type", "object")
            .json("properties", properties.json())
            .strings("required", ["serverId"])
            .bool("additionalProperties", false)
            .finish();
        NativeToolDefinition::new(self.operation.name(), &schema)
            .description(self.operation.description())
    }

    fn call(&self, call: NativeCall) -> NativeToolFuture<'_> {
        Box::pin(async move {
            let host = self.host.get().and_then(Weak::upgrade).map(Host::from_inner);
            let host = host.ok_or_else(|| NativeError("the host is shutting down".to_owned()))?;
            let server = call.arguments.json().get("serverId").and_then(|id| id.as_str());
            let Some(server) = server else {
                return Ok(text_result("argument `serverId` is missing: the server's id", true));
            };
            Ok(match self.run_operation(&host, &server, &call).await {
                Ok(text) => text_result(&text, false),
                Err(text) => text_result(&text, true),
            })
        })
    }
}

impl AdminTool {
    async fn run_operation(
        &self,
        host: &Host,
        server: &str,
        call: &NativeCall,
    ) -> Result<String, String> {
        let dialog = call.dialog.as_deref().and_then(|id| host.find_dialog(id));
        // An id in the dialog's folder takes precedence over the same id elsewhere.
        let key = dialog.as_ref().and_then(|dialog| dialog.resolve_server_key(server));
        let key = key.as_deref().unwrap_or(server);
        match self.operation {
            AdminOperation::Release => {
                match dialog.is_some_and(|dialog| dialog.release_lease(server)) {
                    true => Ok(format!("released `{server}`")),
                    false => Err(format!("this dialog holds no session of `{server}`")),
                }
            }
            AdminOperation::Restart => {
                let restarted = host.restart_server(key).await;
                restarted.map(|()| format!("restarted `{server}`")).map_err(|error| chain(&error))
            }
            AdminOperation::Disable => {
                let agent = call.agent.as_deref().unwrap_or("an agent");
                let disabled = host.disable_server(key, &format!("agent {agent}")).await;
                disabled.map(|()| format!("disabled `{server}`")).map_err(|error| chain(&error))
            }
        }
    }
}

pub(super) fn text_result(text: &str, is_error: bool) -> RawJson {
    let content = [ContentBlock::text(text).raw().clone()];
    let result = ObjectWriter::new().array("content", content);
    if is_error { result.bool("isError", true).finish() } else { result.finish() }
}

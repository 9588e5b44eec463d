//! The tools by which agents look after servers: `mcp_release`, `mcp_restart`, `mcp_disable`.

use std::sync::{Arc, OnceLock, Weak};

use toolcrib_upstream::signals::chain;
use toolcrib_wire::view::Content;
use toolcrib_wire::{ObjectWriter, Raw};

use super::handle::{Host, Shell};
use crate::registry::{
    Answer, BadDefinition, Definition, NativeCall, NativeError, NativeTool, NativeToolset,
};

/// The toolset; it is granted by name only, but for the first of its tools.
pub(super) const TOOLSET: &str = "mcp_admin";
pub(super) const RELEASE: &str = "mcp_release";

/// The host that the tools are of; it does not exist yet when they are made.
pub(super) type Home = Arc<OnceLock<Weak<Shell>>>;

pub(super) fn toolset(home: &Home) -> Result<NativeToolset, BadDefinition> {
    let tool = |what| AdminTool { what, home: Arc::clone(home) };
    NativeToolset::new(TOOLSET)
        .description("Looks after MCP servers and the sessions that are reserved for a dialog.")
        .with(tool(What::Release))?
        .with(tool(What::Restart))?
        .with(tool(What::Disable))
}

struct AdminTool {
    what: What,
    home: Home,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Release,
    Restart,
    Disable,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Release => RELEASE,
            What::Restart => "mcp_restart",
            What::Disable => "mcp_disable",
        }
    }

    fn description(self) -> &'static str {
        match self {
            What::Release => {
                "Gives back the session of an MCP server that is reserved for this dialog. What the session \
                 remembers is lost."
            }
            What::Restart => "Restarts an MCP server. Sessions of all dialogs with it begin anew.",
            What::Disable => {
                "Switches an MCP server off for everybody until somebody enables it again. No file is changed."
            }
        }
    }
}

impl NativeTool for AdminTool {
    fn definition(&self) -> Definition {
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
        Definition::new(self.what.name(), &schema).description(self.what.description())
    }

    fn call(&self, call: NativeCall) -> Answer<'_> {
        Box::pin(async move {
            let host = self.home.get().and_then(Weak::upgrade).map(Host::of);
            let host = host.ok_or_else(|| NativeError("the host is ending".to_owned()))?;
            let server = call.arguments.json().get("serverId").and_then(|id| id.as_str());
            let Some(server) = server else {
                return Ok(answer("`serverId` is missing: the id of the server", true));
            };
            Ok(match self.act(&host, &server, &call).await {
                Ok(text) => answer(&text, false),
                Err(text) => answer(&text, true),
            })
        })
    }
}

impl AdminTool {
    async fn act(&self, host: &Host, server: &str, call: &NativeCall) -> Result<String, String> {
        let dialog = call.dialog.as_deref().and_then(|id| host.dialog_of(id));
        // Whoever asks means a server of their own folder.
        let key = dialog.as_ref().and_then(|dialog| dialog.key_of(server));
        let key = key.as_deref().unwrap_or(server);
        match self.what {
            What::Release => match dialog.is_some_and(|dialog| dialog.release(server)) {
                true => Ok(format!("released `{server}`")),
                false => Err(format!("this dialog holds no session of `{server}`")),
            },
            What::Restart => {
                let restarted = host.restart(key).await;
                restarted.map(|()| format!("restarted `{server}`")).map_err(|error| chain(&error))
            }
            What::Disable => {
                let who = call.agent.as_deref().unwrap_or("an agent");
                let disabled = host.disable(key, &format!("agent {who}")).await;
                disabled.map(|()| format!("disabled `{server}`")).map_err(|error| chain(&error))
            }
        }
    }
}

pub(super) fn answer(text: &str, is_error: bool) -> Raw {
    let content = [Content::text(text).raw().clone()];
    let result = ObjectWriter::new().array("content", content);
    if is_error { result.bool("isError", true).finish() } else { result.finish() }
}

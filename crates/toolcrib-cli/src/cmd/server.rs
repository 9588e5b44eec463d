//! `toolcrib server`: performs an operation on one server.

use serde_json::json;
use toolcrib_server::api::schema::{ErrorBody, OperationResult, ServerView};

use super::servers::state_style;
use crate::Exit;
use crate::api_client::{ApiResponse, api_path};
use crate::args::{ServerCommand, ServerTarget};
use crate::host_access::{self, HostAccess, is_down, is_up};
use crate::output::Output;
use crate::settings::Settings;
use crate::terminal_text::{printable, printable_lines};

pub(crate) fn run(settings: &Settings, out: &Output, command: &ServerCommand) -> Exit {
    host_access::run(settings, out, async |access| {
        let ServerTarget { id } = command.target();
        let response =
            access.with_progress(access.api.get(&api_path(&["servers", id], &[]))).await?;
        let server = match response.parse_result::<ServerView>()? {
            Ok(server) => server,
            Err(error_body) => return Ok(access.report_refusal(&error_body, Some(id))),
        };
        let result = access.with_progress(perform_operation(access, command, &server)).await?;
        if settings.json {
            out.print_json(&json!(result));
        } else if let Some(error_body) = &result.error {
            out.print_error(&printable_lines(&error_body.message));
        } else {
            let style = state_style(&result.server.state);
            // The command enables the server; it does not wait for the connection.
            let is_enabled = matches!(command, ServerCommand::Enable(_));
            let state = if is_enabled { "enabled" } else { result.server.state.as_str() };
            let id = printable(&result.server.id);
            out.print_result(&format!("{id} {style}{state}{style:#}\n"));
        }
        Ok(exit_code(result.error.as_ref()))
    })
}

async fn perform_operation(
    access: &HostAccess<'_>,
    command: &ServerCommand,
    server: &ServerView,
) -> Result<OperationResult, String> {
    let key = server.key.as_str();
    match command {
        ServerCommand::Connect(_) => connect_server(access, server).await,
        ServerCommand::Disconnect(_) => post_operation(access, key, "disconnect").await,
        ServerCommand::Restart(_) => post_operation(access, key, "restart").await,
        ServerCommand::Refresh(_) => {
            // In a host of its own nothing else has connected the server.
            let connected = match access.running {
                Some(_) => None,
                None => connect_server(access, server).await?.error,
            };
            match connected {
                Some(error) => {
                    Ok(OperationResult { ok: false, server: server.clone(), error: Some(error) })
                }
                None => post_operation(access, key, "refresh").await,
            }
        }
        ServerCommand::Enable(_) => post_operation(access, key, "enable").await,
        ServerCommand::Disable(_) => post_operation(access, key, "disable").await,
    }
}

/// Connects the server. A connection that the host has made already counts as success.
async fn connect_server(
    access: &HostAccess<'_>,
    server: &ServerView,
) -> Result<OperationResult, String> {
    let up = |server: ServerView| OperationResult { ok: true, server, error: None };
    if is_serving(server) {
        return Ok(up(server.clone()));
    }
    let result = post_operation(access, &server.key, "connect").await?;
    Ok(if is_serving(&result.server) { up(result.server) } else { result })
}

/// Returns whether the server offers its tools. A connected server may offer nothing because its tool names are
/// invalid.
fn is_serving(server: &ServerView) -> bool {
    is_up(server) && server.registered != "config_invalid"
}

async fn post_operation(
    access: &HostAccess<'_>,
    key: &str,
    operation: &str,
) -> Result<OperationResult, String> {
    let response: ApiResponse =
        access.api.post(&api_path(&["servers", key, operation], &[]), &json!({})).await?;
    response.read()
}

fn exit_code(error_body: Option<&ErrorBody>) -> Exit {
    const SERVER_FAULT_KINDS: [&str; 6] =
        ["config", "connection", "authentication", "timeout", "protocol", "resource"];
    match error_body {
        None => Exit::Done,
        Some(error_body)
            if is_down(error_body) || SERVER_FAULT_KINDS.contains(&error_body.kind.as_str()) =>
        {
            Exit::Unreached
        }
        Some(_) => Exit::Failed,
    }
}

impl ServerCommand {
    fn target(&self) -> &ServerTarget {
        match self {
            ServerCommand::Connect(target)
            | ServerCommand::Disconnect(target)
            | ServerCommand::Restart(target)
            | ServerCommand::Refresh(target)
            | ServerCommand::Enable(target)
            | ServerCommand::Disable(target) => target,
        }
    }
}

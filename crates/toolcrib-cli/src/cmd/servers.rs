//! `toolcrib servers`: lists every server with its state.

use std::time::SystemTime;

use anstyle::{AnsiColor, Style};
use toolcrib_server::api::schema::{ServerList, ServerView};
use toolcrib_upstream::signals::parse_timestamp;

use crate::Exit;
use crate::api_client::api_path;
use crate::host_access::{self, HostAccess};
use crate::output::Output;
use crate::problem_report::{count_by_severity, plural};
use crate::settings::Settings;
use crate::terminal_text::{Table, bold_style, error_line, plain_cell, printable};

pub(crate) fn run(settings: &Settings, out: &Output) -> Exit {
    host_access::run(settings, out, async |access| {
        let path = api_path(&["servers"], &[("wait", access.wait_parameter())]);
        let response = access.with_progress(access.api.get(&path)).await?;
        match response.parse_result::<ServerList>()? {
            Err(error_body) => return Ok(access.report_refusal(&error_body, None)),
            Ok(_) if settings.json => out.print_json(&response.read()?),
            Ok(listed) => {
                print_servers(access, &listed.servers);
                access.print_differences().await?;
            }
        }
        Ok(Exit::Done)
    })
}

fn print_servers(access: &HostAccess<'_>, servers: &[ServerView]) {
    let heading = ["ID", "STATE", "TRANSPORT", "TOOLS", "CALLS", "NEXT RETRY", "LAST ERROR"];
    let mut table = Table::new(&heading);
    for server in servers {
        table.add_row([
            plain_cell(printable(&server.id)),
            (server.state.clone(), state_style(&server.state)),
            plain_cell(server.transport.as_str()),
            plain_cell(server.tools.to_string()),
            plain_cell(call_counts(server)),
            plain_cell(
                server
                    .next_retry
                    .as_deref()
                    .and_then(parse_timestamp)
                    .map(retry_delay)
                    .unwrap_or_default(),
            ),
            plain_cell(server.last_error.as_deref().map(error_line).unwrap_or_default()),
        ]);
    }
    access.out.print_result(&table.render());
    let lacking = servers.iter().filter(|server| !server.missing_capabilities.is_empty());
    for server in lacking {
        let missing = printable(&server.missing_capabilities.join(", "));
        access
            .out
            .print_note(&format!("server `{}` lacks required capabilities: {missing}", server.id));
    }
    let config = access.settings.compile();
    let files = plural(config.sources.len(), "file");
    let problems = count_by_severity(&config.problems);
    access.out.print_note(&format!("{} in {files}: {problems}", plural(servers.len(), "server")));
}

fn call_counts(server: &ServerView) -> String {
    match server.calls.failed {
        0 => server.calls.total.to_string(),
        failed => format!("{}, {failed} failed", server.calls.total),
    }
}

fn retry_delay(at: SystemTime) -> String {
    let wait = at.duration_since(SystemTime::now()).unwrap_or_default();
    format!("in {:.1} s", wait.as_secs_f64())
}

pub(crate) fn state_style(state: &str) -> Style {
    match state {
        "ready" => bold_style(AnsiColor::Green),
        "failed" | "backoff" | "reconnecting" => bold_style(AnsiColor::Red),
        "degraded" | "connecting" => bold_style(AnsiColor::Yellow),
        _ => Style::new().dimmed(),
    }
}

//! `toolcrib tools`: lists the tools of an agent.

use anstyle::AnsiColor;
use toolcrib_server::api::schema::{ToolList, ToolListItem};

use crate::Exit;
use crate::args::ToolsArgs;
use crate::host_access;
use crate::output::Output;
use crate::problem_report::plural;
use crate::settings::Settings;
use crate::terminal_text::{Table, bold_style, brief, plain_cell, printable};

pub(crate) fn run(settings: &Settings, out: &Output, args: &ToolsArgs) -> Exit {
    host_access::run(settings, out, async |access| {
        let server = args.server.as_deref();
        let response = access.get_list(&["tools"], &args.caller, &[("server", server)]).await?;
        let tools = match response.parse_result::<ToolList>()? {
            Ok(listed) => listed.tools,
            Err(error_body) => return Ok(access.report_refusal(&error_body, server)),
        };
        match settings.json {
            // The JSON is printed unchanged, so schemas stay byte for byte as the servers sent them.
            true => out.print_raw_json(&response.body),
            false => {
                out.print_result(&tool_table(&tools));
                if server.is_none() || tools.is_empty() {
                    access.print_footnotes().await?;
                }
                out.print_note(&tool_count(&tools));
            }
        }
        if tools.is_empty() { access.empty_exit().await } else { Ok(Exit::Done) }
    })
}

/// Counts the tools. `toolcrib status` counts only tools of servers, so the host's own are shown separately.
fn tool_count(tools: &[ToolListItem]) -> String {
    let own = tools.iter().filter(|tool| tool.server.is_none()).count();
    let all = plural(tools.len(), "tool");
    match own {
        0 => all,
        own => format!("{all}, {own} of them the host's own"),
    }
}

fn tool_table(tools: &[ToolListItem]) -> String {
    let mut table = Table::new(&["NAME", "SERVER", "", "DESCRIPTION"]);
    for tool in tools {
        let away = if tool.available { "" } else { "away" };
        table.add_row([
            plain_cell(printable(&tool.name)),
            plain_cell(printable(tool.server.as_deref().unwrap_or_default())),
            (away.to_owned(), bold_style(AnsiColor::Yellow)),
            plain_cell(tool.description.as_deref().map(brief).unwrap_or_default()),
        ]);
    }
    table.render()
}

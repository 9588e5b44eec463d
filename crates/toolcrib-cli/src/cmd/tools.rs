//! `toolcrib tools`: what an agent sees.

use anstyle::AnsiColor;
use toolcrib_server::api::shape::{ToolShape, Tools as Listed};

use crate::Exit;
use crate::args::Tools;
use crate::hosted;
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;
use crate::shown::{Table, bold, brief, plain, printable};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Tools) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let server = args.server.as_deref();
        let answer = hosted.list(&["tools"], &args.who, &[("server", server)]).await?;
        let tools = match answer.good::<Listed>()? {
            Ok(listed) => listed.tools,
            Err(fault) => return Ok(hosted.refused(&fault, server)),
        };
        match settings.json {
            // Schemas stay byte for byte what servers wrote.
            true => out.raw(&answer.body),
            false => {
                out.result(&table(&tools));
                if server.is_none() || tools.is_empty() {
                    hosted.footnotes().await?;
                }
                out.note(&counted(&tools));
            }
        }
        if tools.is_empty() { hosted.exit_of_nothing().await } else { Ok(Exit::Done) }
    })
}

/// `status` counts only those of servers.
fn counted(tools: &[ToolShape]) -> String {
    let own = tools.iter().filter(|tool| tool.server.is_none()).count();
    let all = plural(tools.len(), "tool");
    match own {
        0 => all,
        own => format!("{all}, {own} of them the host's own"),
    }
}

fn table(tools: &[ToolShape]) -> String {
    let mut table = Table::new(&["NAME", "SERVER", "", "DESCRIPTION"]);
    for tool in tools {
        let away = if tool.available { "" } else { "away" };
        table.row([
            plain(printable(&tool.name)),
            plain(printable(tool.server.as_deref().unwrap_or_default())),
            (away.to_owned(), bold(AnsiColor::Yellow)),
            plain(tool.description.as_deref().map(brief).unwrap_or_default()),
        ]);
    }
    table.text()
}

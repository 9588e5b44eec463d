//! `toolcrib why`: prints each gate that a tool passes or fails for an agent.

use anstyle::AnsiColor;
use toolcrib_server::api::schema::AccessReport;

use crate::Exit;
use crate::args::WhyArgs;
use crate::host_access;
use crate::output::Output;
use crate::settings::Settings;
use crate::terminal_text::{Table, bold_style, plain_cell, printable};

pub(crate) fn run(settings: &Settings, out: &Output, args: &WhyArgs) -> Exit {
    host_access::run(settings, out, async |access| {
        let response =
            access.get_list(&["why"], &args.caller, &[("tool", Some(&args.tool))]).await?;
        let why = match response.parse_result::<AccessReport>()? {
            Ok(why) => why,
            Err(error_body) => return Ok(access.report_refusal(&error_body, None)),
        };
        match settings.json {
            true => out.print_json(&response.read()?),
            false => {
                out.print_result(&gates_text(&why));
                if !why.known {
                    access.print_footnotes().await?;
                }
            }
        }
        Ok(match (why.usable, !why.known && access.are_all_unavailable().await?) {
            (true, _) => Exit::Done,
            (false, true) => Exit::Unreached,
            (false, false) => Exit::Failed,
        })
    })
}

fn gates_text(why: &AccessReport) -> String {
    let (name, agent) = (printable(&why.tool), printable(&why.agent));
    if !why.known {
        return format!("no known server has a tool `{name}`\n");
    }
    let verdict = if why.usable { "can use" } else { "cannot use" };
    let of = why.server.as_deref().map(|key| format!(" of {}", printable(key))).unwrap_or_default();
    let mut text = format!("`{agent}` {verdict} `{name}`{of}\n");
    if let Some(reason) = &why.left_out {
        text += &format!("it is not offered: {}\n", printable(reason));
    }
    let mut table = Table::new(&["GATE", "", "WHERE", "RULE"]);
    for gate in &why.gates {
        let (word, colour) = match gate.passed {
            true => ("passed", AnsiColor::Green),
            false => ("failed", AnsiColor::Red),
        };
        table.add_row([
            plain_cell(gate.gate.as_str()),
            (word.to_owned(), bold_style(colour)),
            plain_cell(gate.origin.as_deref().map(printable).unwrap_or_default()),
            plain_cell(printable(&gate.rule)),
        ]);
    }
    text + &table.render()
}

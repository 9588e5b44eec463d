//! `toolcrib accept`: lists changed tools and accepts their new definitions.

use toolcrib_server::api::schema::{AcceptDefinitions, DefinitionChange, DefinitionChanges};

use crate::Exit;
use crate::args::{AcceptArgs, CallerArgs};
use crate::host_access;
use crate::output::Output;
use crate::problem_report::plural;
use crate::settings::Settings;
use crate::terminal_text::{printable, printable_lines};

pub(crate) fn run(settings: &Settings, out: &Output, args: &AcceptArgs) -> Exit {
    host_access::run(settings, out, async |access| {
        // Listing the tools makes the host read the lists of its servers.
        let listed = access.get_list(&["tools"], &CallerArgs::default(), &[]).await?;
        if let Err(error_body) = listed.parse_result::<serde_json::Value>()? {
            return Ok(access.report_refusal(&error_body, None));
        }
        let accepts = args.all || args.tool.is_some();
        let response = match accepts {
            true => {
                let sent = AcceptDefinitions { tool: args.tool.clone() };
                access.api.post("/definitions/accept", &sent).await?
            }
            false => access.api.get("/definitions").await?,
        };
        let changed = match response.parse_result::<DefinitionChanges>()? {
            Ok(changed) => changed.definitions,
            Err(error_body) => return Ok(access.report_refusal(&error_body, None)),
        };
        match settings.json {
            true => out.print_json(&response.read()?),
            false => print_changed(out, &changed, accepts),
        }
        Ok(Exit::Done)
    })
}

fn print_changed(out: &Output, changed: &[DefinitionChange], accepts: bool) {
    for it in changed {
        let (tool, server) = (printable(&it.tool), printable(&it.server));
        let difference = printable_lines(&it.difference);
        let difference: String = difference.lines().map(|line| format!("  {line}\n")).collect();
        out.print_result(&format!("{tool} of {server}\n{difference}"));
    }
    let count = plural(changed.len(), "tool");
    out.print_note(&match (changed.is_empty(), accepts) {
        (true, _) => "no tool has changed since it was first seen or accepted".to_owned(),
        (false, true) => format!("{count} accepted"),
        (false, false) => {
            format!("{count} changed: accept with `toolcrib accept TOOL` or `--all`")
        }
    });
}

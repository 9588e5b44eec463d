//! `toolcrib accept`: which tools have changed since they were first seen, and that this is right.

use toolcrib_server::api::shape::{Accept as Accepting, Definition, Definitions};

use crate::Exit;
use crate::args::{Accept, Who};
use crate::hosted;
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;
use crate::shown::{lines, printable};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Accept) -> Exit {
    hosted::run(settings, out, async |hosted| {
        // What servers offer is known when they have been asked.
        let listed = hosted.list(&["tools"], &Who::default(), &[]).await?;
        if let Err(fault) = listed.good::<serde_json::Value>()? {
            return Ok(hosted.refused(&fault, None));
        }
        let accepts = args.all || args.tool.is_some();
        let answer = match accepts {
            true => {
                let sent = Accepting { tool: args.tool.clone() };
                hosted.api.post("/definitions/accept", &sent).await?
            }
            false => hosted.api.get("/definitions").await?,
        };
        let changed = match answer.good::<Definitions>()? {
            Ok(changed) => changed.definitions,
            Err(fault) => return Ok(hosted.refused(&fault, None)),
        };
        match settings.json {
            true => out.json(&answer.read()?),
            false => human(out, &changed, accepts),
        }
        Ok(Exit::Done)
    })
}

fn human(out: &Out, changed: &[Definition], accepts: bool) {
    for it in changed {
        let (tool, server) = (printable(&it.tool), printable(&it.server));
        let difference = lines(&it.difference);
        let difference: String = difference.lines().map(|line| format!("  {line}\n")).collect();
        out.result(&format!("{tool} of {server}\n{difference}"));
    }
    let count = plural(changed.len(), "tool");
    out.note(&match (changed.is_empty(), accepts) {
        (true, _) => "no tool has changed since it was first seen or accepted".to_owned(),
        (false, true) => format!("{count} accepted"),
        (false, false) => {
            format!("{count} changed: `toolcrib accept TOOL` or `--all` accepts that")
        }
    });
}

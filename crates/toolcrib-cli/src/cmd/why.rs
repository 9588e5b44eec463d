//! `toolcrib why`: each gate that a tool passes or fails for an agent.

use anstyle::AnsiColor;
use toolcrib_server::api::shape::Gates;

use crate::Exit;
use crate::args::Why;
use crate::hosted;
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::{Table, bold, plain, printable};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Why) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let answer = hosted.list(&["why"], &args.who, &[("tool", Some(&args.tool))]).await?;
        let why = match answer.good::<Gates>()? {
            Ok(why) => why,
            Err(fault) => return Ok(hosted.refused(&fault, None)),
        };
        match settings.json {
            true => out.json(&answer.read()?),
            false => {
                out.result(&human(&why));
                if !why.known {
                    hosted.footnotes().await?;
                }
            }
        }
        Ok(match (why.usable, !why.known && hosted.is_cut_off().await?) {
            (true, _) => Exit::Done,
            (false, true) => Exit::Unreached,
            (false, false) => Exit::Failed,
        })
    })
}

fn human(why: &Gates) -> String {
    let (name, agent) = (printable(&why.tool), printable(&why.agent));
    if !why.known {
        return format!("no server that was asked has a tool `{name}`\n");
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
        table.row([
            plain(gate.gate.as_str()),
            (word.to_owned(), bold(colour)),
            plain(gate.origin.as_deref().map(printable).unwrap_or_default()),
            plain(printable(&gate.rule)),
        ]);
    }
    text + &table.text()
}

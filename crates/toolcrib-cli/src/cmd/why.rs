//! `toolcrib why`: each gate that a tool passes or fails for an agent.

use anstyle::AnsiColor;
use serde_json::{Value as Json, json};
use toolcrib::conn::State;
use toolcrib::host;

use crate::Exit;
use crate::args::Why;
use crate::hosted;
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::{Table, bold, plain, printable};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Why) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let dialog = hosted.dialog(&args.who).await?;
        // A tool may be known from an earlier time while its server is still coming.
        let is_known = |why: &host::Why| {
            let server = why.server.as_deref().and_then(|key| hosted.server(key));
            is_registered(why) && server.is_none_or(|server| server.state != State::Connecting)
        };
        let turn = hosted.settled(&dialog, |turn| is_known(&turn.why(&args.tool))).await;
        let why = turn.why(&args.tool);
        let usable = is_usable(&why);
        match settings.json {
            true => out.json(&to_json(&why, dialog.agent())),
            false => {
                out.result(&human(&why, dialog.agent()));
                if why.gates.is_none() {
                    hosted.footnotes(&turn);
                }
            }
        }
        Ok(match (usable, why.gates.is_none() && hosted.is_cut_off()) {
            (true, _) => Exit::Done,
            (false, true) => Exit::Unreached,
            (false, false) => Exit::Failed,
        })
    })
}

fn is_registered(why: &host::Why) -> bool {
    why.gates.is_some() && why.left_out.is_none()
}

fn is_usable(why: &host::Why) -> bool {
    is_registered(why) && why.gates.iter().flat_map(|gates| &gates.0).all(|verdict| verdict.passed)
}

fn to_json(why: &host::Why, agent: &str) -> Json {
    let gates = why.gates.iter().flat_map(|gates| &gates.0).map(|verdict| {
        json!({
            "gate": verdict.gate.as_str(),
            "passed": verdict.passed,
            "rule": verdict.rule,
            "origin": verdict.origin.as_ref().map(ToString::to_string),
        })
    });
    json!({
        "tool": why.name,
        "agent": agent,
        "server": why.server.as_deref(),
        "usable": is_usable(why),
        "known": why.gates.is_some(),
        "left_out": why.left_out,
        "gates": gates.collect::<Vec<Json>>(),
    })
}

fn human(why: &host::Why, agent: &str) -> String {
    let name = printable(&why.name);
    let Some(gates) = &why.gates else {
        return format!("no server that was asked has a tool `{name}`\n");
    };
    let verdict = if is_usable(why) { "can use" } else { "cannot use" };
    let of = why.server.as_deref().map(|key| format!(" of {key}")).unwrap_or_default();
    let mut text = format!("`{agent}` {verdict} `{name}`{of}\n");
    if let Some(reason) = &why.left_out {
        text += &format!("it is not offered: {}\n", printable(reason));
    }
    let mut table = Table::new(&["GATE", "", "WHERE", "RULE"]);
    for verdict in &gates.0 {
        let (word, colour) = match verdict.passed {
            true => ("passed", AnsiColor::Green),
            false => ("failed", AnsiColor::Red),
        };
        table.row([
            plain(verdict.gate.as_str()),
            (word.to_owned(), bold(colour)),
            plain(verdict.origin.as_ref().map(ToString::to_string).unwrap_or_default()),
            plain(printable(&verdict.rule)),
        ]);
    }
    text + &table.text()
}

//! `toolcrib servers`: every server and how it is.

use std::time::SystemTime;

use anstyle::{AnsiColor, Style};
use toolcrib_server::api::shape::{ServerShape, Servers};
use toolcrib_upstream::signals::moment;

use crate::Exit;
use crate::api::path;
use crate::hosted::{self, Hosted};
use crate::out::Out;
use crate::report::{count, plural};
use crate::settings::Settings;
use crate::shown::{Table, bold, plain, printable, reason};

pub(crate) fn run(settings: &Settings, out: &Out) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let path = path(&["servers"], &[("wait", hosted.wait())]);
        let answer = hosted.waited(hosted.api.get(&path)).await?;
        match answer.good::<Servers>()? {
            Err(fault) => return Ok(hosted.refused(&fault, None)),
            Ok(_) if settings.json => out.json(&answer.read()?),
            Ok(listed) => {
                human(hosted, &listed.servers);
                hosted.differences().await?;
            }
        }
        Ok(Exit::Done)
    })
}

fn human(hosted: &Hosted<'_>, servers: &[ServerShape]) {
    let heading = ["ID", "STATE", "TRANSPORT", "TOOLS", "CALLS", "NEXT RETRY", "LAST ERROR"];
    let mut table = Table::new(&heading);
    for server in servers {
        table.row([
            plain(printable(&server.id)),
            (server.state.clone(), colour(&server.state)),
            plain(server.transport.as_str()),
            plain(server.tools.to_string()),
            plain(calls(server)),
            plain(server.next_retry.as_deref().and_then(moment).map(due).unwrap_or_default()),
            plain(server.last_error.as_deref().map(reason).unwrap_or_default()),
        ]);
    }
    hosted.out.result(&table.text());
    let lacking = servers.iter().filter(|server| !server.missing_capabilities.is_empty());
    for server in lacking {
        let missing = printable(&server.missing_capabilities.join(", "));
        hosted.out.note(&format!("server `{}` lacks what is asked of it: {missing}", server.id));
    }
    let config = hosted.settings.compile();
    let files = plural(config.sources.len(), "file");
    let problems = count(&config.problems);
    hosted.out.note(&format!("{} in {files}: {problems}", plural(servers.len(), "server")));
}

fn calls(server: &ServerShape) -> String {
    match server.calls.failed {
        0 => server.calls.total.to_string(),
        failed => format!("{}, {failed} failed", server.calls.total),
    }
}

fn due(at: SystemTime) -> String {
    let wait = at.duration_since(SystemTime::now()).unwrap_or_default();
    format!("in {:.1} s", wait.as_secs_f64())
}

pub(crate) fn colour(state: &str) -> Style {
    match state {
        "ready" => bold(AnsiColor::Green),
        "failed" | "backoff" | "reconnecting" => bold(AnsiColor::Red),
        "degraded" | "connecting" => bold(AnsiColor::Yellow),
        _ => Style::new().dimmed(),
    }
}

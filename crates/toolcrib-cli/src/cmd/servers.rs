//! `toolcrib servers`: every server and how it is.

use std::time::SystemTime;

use anstyle::{AnsiColor, Style};
use serde_json::{Value as Json, json};
use toolcrib::ServerStatus;
use toolcrib::conn::State;
use toolcrib::signals::timestamp;

use crate::Exit;
use crate::args::Who;
use crate::hosted::{self, Hosted};
use crate::out::Out;
use crate::report::{count, plural};
use crate::settings::Settings;
use crate::shown::{Table, bold, plain, printable, reason};

pub(crate) fn run(settings: &Settings, out: &Out) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let dialog = hosted.dialog(&Who::default()).await?;
        let turn = hosted.settled(&dialog, |_| false).await;
        let servers = hosted.host.servers();
        match settings.json {
            true => {
                let servers: Vec<Json> = servers.iter().map(to_json).collect();
                out.json(&json!({"version": turn.version(), "servers": servers}));
            }
            false => human(hosted, &servers),
        }
        Ok(Exit::Done)
    })
}

/// One server, as every machine output has it.
pub(crate) fn to_json(server: &ServerStatus) -> Json {
    let time = |at: Option<SystemTime>| at.map(timestamp);
    json!({
        "id": server.spec.id,
        "key": &*server.key,
        "source": &*server.spec.source,
        "dialect": server.spec.dialect.as_str(),
        "transport": server.spec.transport.kind().as_str(),
        "state": server.state.as_str(),
        "tools": server.tools,
        "pid": server.pid,
        "sessions": server.sessions,
        "calls": {
            "total": server.calls.total,
            "succeeded": server.calls.succeeded,
            "failed": server.calls.failed,
        },
        "avg_response_seconds": server.calls.average,
        "restarts": server.restarts,
        "attempts": server.attempts,
        "last_connected": time(server.last_connected),
        "last_error": server.last_error,
        "last_error_time": time(server.last_error_time),
        "next_retry": time(server.next_retry),
        "cache": server.cache.as_str(),
        "dialect_state": server.dialect_state,
        "missing_capabilities": server.missing_capabilities,
        "protocol_version": server.protocol_version,
    })
}

fn human(hosted: &Hosted<'_>, servers: &[ServerStatus]) {
    let heading = ["ID", "STATE", "TRANSPORT", "TOOLS", "CALLS", "NEXT RETRY", "LAST ERROR"];
    let mut table = Table::new(&heading);
    for server in servers {
        table.row([
            plain(printable(&server.spec.id)),
            (server.state.as_str().to_owned(), colour(server.state)),
            plain(server.spec.transport.kind().as_str()),
            plain(server.tools.to_string()),
            plain(calls(server)),
            plain(server.next_retry.map(due).unwrap_or_default()),
            plain(server.last_error.as_deref().map(reason).unwrap_or_default()),
        ]);
    }
    hosted.out.result(&table.text());
    let lacking = servers.iter().filter(|server| !server.missing_capabilities.is_empty());
    for server in lacking {
        let missing = printable(&server.missing_capabilities.join(", "));
        hosted
            .out
            .note(&format!("server `{}` lacks what is asked of it: {missing}", server.spec.id));
    }
    let config = hosted.host.config();
    let files = plural(config.sources.len(), "file");
    let problems = count(&config.problems);
    hosted.out.note(&format!("{} in {files}: {problems}", plural(servers.len(), "server")));
}

fn calls(server: &ServerStatus) -> String {
    match server.calls.failed {
        0 => server.calls.total.to_string(),
        failed => format!("{}, {failed} failed", server.calls.total),
    }
}

fn due(at: SystemTime) -> String {
    let wait = at.duration_since(SystemTime::now()).unwrap_or_default();
    format!("in {:.1} s", wait.as_secs_f64())
}

pub(crate) fn colour(state: State) -> Style {
    match state {
        State::Ready => bold(AnsiColor::Green),
        State::Failed | State::Backoff | State::Reconnecting => bold(AnsiColor::Red),
        State::Degraded | State::Connecting => bold(AnsiColor::Yellow),
        State::Disabled | State::Idle | State::Draining | State::Stopped => Style::new().dimmed(),
    }
}

//! `toolcrib status`: how the host is, in figures.

use serde_json::json;
use toolcrib::host::Status;

use crate::Exit;
use crate::args::Who;
use crate::hosted;
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;

/// What everybody must know who lets others' programs run.
const PRIVILEGES: &str =
    "servers on this machine run with the host's privileges: there is no sandbox around them";

pub(crate) fn run(settings: &Settings, out: &Out) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let dialog = hosted.dialog(&Who::default()).await?;
        let turn = hosted.settled(&dialog, |_| false).await;
        let mut status = hosted.host.status();
        // What is the host's own is not what anybody asks for.
        status.tools = hosted.host.servers().iter().map(|server| server.tools).sum();
        match settings.json {
            true => out.json(&to_json(&status)),
            false => {
                out.result(&human(settings, &status));
                hosted.footnotes(&turn);
            }
        }
        Ok(Exit::Done)
    })
}

fn to_json(status: &Status) -> serde_json::Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "registry_version": status.version,
        "uptime_seconds": status.uptime.as_secs_f64(),
        "servers": status.servers,
        "ready": status.ready,
        "tools": status.tools,
        "dialogs": status.dialogs,
        "leases": status.leases,
        "problems": status.problems,
        "draining": status.draining,
        "dropped_records": status.dropped_records,
        "sandbox": false,
        "privileges": PRIVILEGES,
    })
}

fn human(settings: &Settings, status: &Status) -> String {
    format!(
        "toolcrib {}, a host of its own for {}\n{}, {} ready; {}; {}\n{PRIVILEGES}\n",
        env!("CARGO_PKG_VERSION"),
        settings.root().display(),
        plural(status.servers, "server"),
        status.ready,
        plural(status.tools, "tool"),
        plural(status.problems, "problem"),
    )
}

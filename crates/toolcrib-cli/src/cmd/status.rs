//! `toolcrib status`: how the host is, in figures.

use toolcrib_server::api::shape::HostStatus;

use crate::Exit;
use crate::api::path;
use crate::hosted::{self, Hosted};
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Out) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let path = path(&["status"], &[("wait", hosted.wait())]);
        let answer = hosted.waited(hosted.api.get(&path)).await?;
        let status = match answer.good::<HostStatus>()? {
            Ok(status) => status,
            Err(fault) => return Ok(hosted.refused(&fault, None)),
        };
        match settings.json {
            true => out.json(&answer.read()?),
            false => {
                out.result(&human(hosted, &status));
                hosted.footnotes().await?;
            }
        }
        Ok(Exit::Done)
    })
}

fn human(hosted: &Hosted<'_>, status: &HostStatus) -> String {
    let host = match &hosted.running {
        Some(running) => format!("{}, the host of", running.told()),
        None => "a host of its own for".to_owned(),
    };
    format!(
        "toolcrib {}, {host} {}\n{}, {} ready; {} of servers; {}\n{}\n",
        status.version,
        status.root,
        plural(status.servers, "server"),
        status.ready,
        plural(status.tools, "tool"),
        plural(status.problems, "problem"),
        status.privileges,
    )
}

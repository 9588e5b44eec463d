//! `toolcrib status`: prints the host's key figures.

use toolcrib_server::api::schema::HostStatus;

use crate::Exit;
use crate::api_client::api_path;
use crate::host_access::{self, HostAccess};
use crate::output::Output;
use crate::problem_report::plural;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Output) -> Exit {
    host_access::run(settings, out, async |access| {
        let path = api_path(&["status"], &[("wait", access.wait_parameter())]);
        let response = access.with_progress(access.api.get(&path)).await?;
        let status = match response.parse_result::<HostStatus>()? {
            Ok(status) => status,
            Err(error_body) => return Ok(access.report_refusal(&error_body, None)),
        };
        match settings.json {
            true => out.print_json(&response.read()?),
            false => {
                out.print_result(&status_text(access, &status));
                access.print_footnotes().await?;
            }
        }
        Ok(Exit::Done)
    })
}

fn status_text(access: &HostAccess<'_>, status: &HostStatus) -> String {
    let host = match &access.running {
        Some(running) => format!("{}, the host of", running.describe()),
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

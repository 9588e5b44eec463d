//! `toolcrib reload`: reloads the configuration and reports each server.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use toolcrib_config::Problem;
use toolcrib_server::api::schema::ReloadReport;

use crate::Exit;
use crate::host_access::{self, HostAccess};
use crate::output::Output;
use crate::problem_report::{count_by_severity, plural, render_problems};
use crate::settings::Settings;
use crate::terminal_text::{Table, bold_style, error_line, plain_cell, printable};

pub(crate) fn run(settings: &Settings, out: &Output) -> Exit {
    host_access::run(settings, out, async |access| {
        let request = async {
            match access.running {
                Some(_) => access.api.post("/reload", &serde_json::json!({})).await,
                // The command's own host has just read all files.
                None => access.api.get("/reload").await,
            }
        };
        let response = access.with_progress(request).await?;
        let reload = match response.parse_result::<ReloadReport>()? {
            Ok(reload) => reload,
            Err(error_body) => return Ok(access.report_refusal(&error_body, None)),
        };
        match settings.json {
            true => out.print_json(&response.read()?),
            false => print_reload(access, &reload),
        }
        Ok(if reload.ok { Exit::Done } else { Exit::Failed })
    })
}

fn print_reload(access: &HostAccess<'_>, reload: &ReloadReport) {
    let shown: Vec<&Problem> = reload.problems.iter().collect();
    access.out.print_result(&render_problems(&access.settings.compile(), &shown));
    let mut table = Table::new(&["SERVER", "ACTION", "OUTCOME", ""]);
    for step in &reload.steps {
        let style = match step.outcome.as_str() {
            "done" => bold_style(AnsiColor::Green),
            "failed" => bold_style(AnsiColor::Red),
            _ => Style::new().dimmed(),
        };
        table.add_row([
            plain_cell(printable(&step.server)),
            plain_cell(step.action.as_str()),
            (step.outcome.clone(), style),
            plain_cell(step.error.as_deref().map(error_line).unwrap_or_default()),
        ]);
    }
    access.out.print_result(&table.render());
    let (servers, problems) =
        (plural(reload.steps.len(), "server"), count_by_severity(&reload.problems));
    let took = Duration::from_millis(reload.duration_ms).as_secs_f64();
    access.out.print_note(&format!("{servers} in {took:.2} s: {problems}"));
}

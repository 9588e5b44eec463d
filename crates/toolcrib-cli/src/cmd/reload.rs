//! `toolcrib reload`: the configuration read by the host, and what becomes of each server.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use toolcrib_config::Problem;
use toolcrib_server::api::shape::Reloaded;

use crate::Exit;
use crate::hosted::{self, Hosted};
use crate::out::Out;
use crate::report::{count, plural, problems};
use crate::settings::Settings;
use crate::shown::{Table, bold, plain, printable, reason};

pub(crate) fn run(settings: &Settings, out: &Out) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let asked = async {
            match hosted.running {
                Some(_) => hosted.api.post("/reload", &serde_json::json!({})).await,
                // A host of the command's own has only just read everything.
                None => hosted.api.get("/reload").await,
            }
        };
        let answer = hosted.waited(asked).await?;
        let reload = match answer.good::<Reloaded>()? {
            Ok(reload) => reload,
            Err(fault) => return Ok(hosted.refused(&fault, None)),
        };
        match settings.json {
            true => out.json(&answer.read()?),
            false => human(hosted, &reload),
        }
        Ok(if reload.ok { Exit::Done } else { Exit::Failed })
    })
}

fn human(hosted: &Hosted<'_>, reload: &Reloaded) {
    let shown: Vec<&Problem> = reload.problems.iter().collect();
    hosted.out.result(&problems(&hosted.settings.compile(), &shown));
    let mut table = Table::new(&["SERVER", "ACTION", "OUTCOME", ""]);
    for step in &reload.steps {
        let style = match step.outcome.as_str() {
            "done" => bold(AnsiColor::Green),
            "failed" => bold(AnsiColor::Red),
            _ => Style::new().dimmed(),
        };
        table.row([
            plain(printable(&step.server)),
            plain(step.action.as_str()),
            (step.outcome.clone(), style),
            plain(step.error.as_deref().map(reason).unwrap_or_default()),
        ]);
    }
    hosted.out.result(&table.text());
    let (servers, problems) = (plural(reload.steps.len(), "server"), count(&reload.problems));
    let took = Duration::from_millis(reload.duration_ms).as_secs_f64();
    hosted.out.note(&format!("{servers} in {took:.2} s: {problems}"));
}

//! `toolcrib reload`: the configuration read as a host reads it, and what becomes of each server.

use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use serde_json::{Value as Json, json};
use toolcrib::host::{Outcome, Step};
use toolcrib::{Event, Reload};
use toolcrib_config::{Action, Problem};

use crate::Exit;
use crate::hosted::{self, Hosted};
use crate::out::Out;
use crate::report::{count, plural, problems};
use crate::settings::Settings;
use crate::shown::{Table, bold, plain, printable, reason};

pub(crate) fn run(settings: &Settings, out: &Out) -> Exit {
    hosted::run(settings, out, async |hosted| {
        out.progress("starting");
        let reload = first_load(hosted).await?;
        out.progress("");
        let failed = reload.steps.iter().any(|step| matches!(step.outcome, Outcome::Failed(_)));
        let wrong = reload.problems.iter().any(Problem::is_error);
        match settings.json {
            true => out.json(&to_json(&reload, !failed && !wrong)),
            false => human(hosted, &reload),
        }
        Ok(if failed || wrong { Exit::Failed } else { Exit::Done })
    })
}

/// The first load of this host. Nothing was awaited since it was started, so that it cannot have been told yet.
async fn first_load(hosted: &Hosted<'_>) -> Result<Arc<Reload>, String> {
    let mut events = hosted.host.listen();
    while let Some(event) = events.next().await {
        if let Event::Reloaded(reload) = &*event {
            return Ok(Arc::clone(reload));
        }
    }
    hosted.host.reload().await.ok_or_else(|| "the host is ending".to_owned())
}

fn to_json(reload: &Reload, ok: bool) -> Json {
    let steps = reload.steps.iter().map(|step| {
        json!({
            "server": &*step.server,
            "action": action(step.action),
            "outcome": step.outcome.as_str(),
            "error": error(step),
        })
    });
    json!({
        "ok": ok,
        "version": reload.version,
        "steps": steps.collect::<Vec<Json>>(),
        "problems": reload.problems,
        "duration_ms": u64::try_from(reload.took.as_millis()).unwrap_or(u64::MAX),
    })
}

fn human(hosted: &Hosted<'_>, reload: &Reload) {
    let shown: Vec<&Problem> = reload.problems.iter().collect();
    hosted.out.result(&problems(&hosted.host.config(), &shown));
    let mut table = Table::new(&["SERVER", "ACTION", "OUTCOME", ""]);
    for step in &reload.steps {
        let style = match step.outcome {
            Outcome::Done => bold(AnsiColor::Green),
            Outcome::Coming => Style::new().dimmed(),
            Outcome::Failed(_) => bold(AnsiColor::Red),
        };
        table.row([
            plain(printable(&step.server)),
            plain(action(step.action)),
            (step.outcome.as_str().to_owned(), style),
            plain(error(step).map(reason).unwrap_or_default()),
        ]);
    }
    hosted.out.result(&table.text());
    let (servers, problems) = (plural(reload.steps.len(), "server"), count(&reload.problems));
    hosted.out.note(&format!("{servers} in {:.2} s: {problems}", reload.took.as_secs_f64()));
}

fn error(step: &Step) -> Option<&str> {
    match &step.outcome {
        Outcome::Failed(why) => Some(why),
        Outcome::Done | Outcome::Coming => None,
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Keep => "keep",
        Action::KeepLastGood => "keep_last_good",
        Action::Start => "start",
        Action::Replace => "replace",
        Action::Stop => "stop",
    }
}

//! `toolcrib check`: reports the problems of the configuration.

use serde_json::json;
use toolcrib_config::{Config, Problem};

use crate::Exit;
use crate::output::Output;
use crate::problem_report::{count_by_severity, plural, render_problems};
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Output) -> Exit {
    let config = settings.compile();
    if settings.json {
        out.print_json(&json!({ "ok": !config.has_errors(), "problems": config.problems }));
    } else {
        print_check(settings, out, &config);
    }
    if config.has_errors() { Exit::Failed } else { Exit::Done }
}

fn print_check(settings: &Settings, out: &Output, config: &Config) {
    let shown: Vec<&Problem> = config.problems.iter().collect();
    out.print_result(&render_problems(config, &shown));
    if settings.verbose {
        for source in &config.sources {
            out.print_note(&format!(
                "read {} ({}): {:?}",
                source.label, source.dialect, source.outcome
            ));
        }
    }
    if config.sources.is_empty() && config.problems.is_empty() {
        let root = settings.root().display();
        out.print_note(&format!(
            "no configuration in {root}; `toolcrib import` takes over other clients' servers"
        ));
        return;
    }
    let (servers, files) =
        (plural(config.servers.len(), "server"), plural(config.sources.len(), "file"));
    out.print_note(&format!("{servers} in {files}: {}", count_by_severity(&config.problems)));
}

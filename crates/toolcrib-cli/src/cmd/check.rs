//! `toolcrib check`: what is wrong with the configuration.

use serde_json::json;
use toolcrib_config::{Config, Problem};

use crate::Exit;
use crate::out::Out;
use crate::report::{count, plural, problems};
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Out) -> Exit {
    let config = settings.compile();
    if settings.json {
        out.json(&json!({ "ok": !config.has_errors(), "problems": config.problems }));
    } else {
        human(settings, out, &config);
    }
    if config.has_errors() { Exit::Failed } else { Exit::Done }
}

fn human(settings: &Settings, out: &Out, config: &Config) {
    let shown: Vec<&Problem> = config.problems.iter().collect();
    out.result(&problems(config, &shown));
    if settings.verbose {
        for source in &config.sources {
            out.note(&format!("read {} ({}): {:?}", source.label, source.dialect, source.outcome));
        }
    }
    if config.sources.is_empty() && config.problems.is_empty() {
        let root = settings.root().display();
        out.note(&format!(
            "no configuration in {root}; `toolcrib import` takes over other clients' servers"
        ));
        return;
    }
    let (servers, files) =
        (plural(config.servers.len(), "server"), plural(config.sources.len(), "file"));
    out.note(&format!("{servers} in {files}: {}", count(&config.problems)));
}

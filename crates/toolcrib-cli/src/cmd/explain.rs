//! `toolcrib explain`: the compiled configuration, each value with where it came from.

use serde_json::{Map, Value as Json, json};
use toolcrib_config::{Config, Problem, ServerSpec, Show};

use crate::Exit;
use crate::args::Explain;
use crate::out::Out;
use crate::report::problems;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Out, args: &Explain) -> Exit {
    let config = settings.compile();
    let show = if args.reveal { Show::Revealed } else { Show::Masked };
    let only = match &args.server {
        Some(name) => match config.server(name) {
            Some(spec) => Some(spec),
            None => return no_such_server(&config, out, name),
        },
        None => None,
    };
    match (settings.json, only) {
        (true, only) => out.json(&document(&config, only, show)),
        (false, Some(spec)) => out.result(&config.explain_server(spec, show)),
        (false, None) => out.result(&config.explain(show)),
    }
    if !settings.json && config.has_errors() {
        out.note("some of the configuration is wrong and left out: see `toolcrib check`");
    }
    Exit::Done
}

fn document(config: &Config, only: Option<&ServerSpec>, show: Show) -> Json {
    let chosen = |spec: &&ServerSpec| only.is_none_or(|only| only.key() == spec.key());
    let origins: Map<String, Json> = config
        .servers
        .iter()
        .filter(chosen)
        .map(|spec| (spec.key(), Json::Object(config.origins(spec))))
        .collect();
    match only {
        Some(spec) => json!({ "key": spec.key(), "server": spec.native(show), "origins": origins }),
        None => json!({ "config": config.native(show), "origins": origins }),
    }
}

/// The server may be there and be wrong: then its own problems say more than that it is missing.
fn no_such_server(config: &Config, out: &Out, name: &str) -> Exit {
    let own: Vec<&Problem> =
        config.problems.iter().filter(|problem| problem.server.as_deref() == Some(name)).collect();
    let ids: Vec<&str> = config.servers.iter().map(|spec| spec.id.as_str()).collect();
    let same: Vec<String> =
        config.servers.iter().filter(|spec| spec.id == name).map(ServerSpec::key).collect();
    if !own.is_empty() {
        out.result(&problems(config, &own));
        out.error(&format!("server `{name}` cannot be used as it is written"));
    } else if !same.is_empty() {
        out.error(&format!("several servers are called `{name}`: {}", same.join(", ")));
    } else if ids.is_empty() {
        out.error("no server is configured here");
    } else {
        out.error(&format!("there is no server `{name}`; there are {}", ids.join(", ")));
    }
    Exit::Failed
}

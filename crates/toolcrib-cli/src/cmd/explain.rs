//! `toolcrib explain`: the compiled configuration, each value with where it came from.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use tokio::runtime::Builder;
use toolcrib::Store;
use toolcrib::store::Limits;
use toolcrib_config::{Config, ServerSpec, Show};
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::args::Explain;
use crate::out::Out;
use crate::report::no_such_server;
use crate::settings::Settings;

/// How long the store is given to close.
const CLOSING: Duration = Duration::from_secs(5);

pub(crate) fn run(settings: &Settings, out: &Out, args: &Explain) -> Exit {
    let mut config = settings.compile();
    if let Err(text) = apply_overrides(settings, &mut config) {
        out.note(&format!("what was enabled or disabled by hand is not known: {text}"));
    }
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

/// What somebody has enabled or disabled while a host ran, if there ever was one.
fn apply_overrides(settings: &Settings, config: &mut Config) -> Result<(), String> {
    let Some(state) = settings.state().filter(|state| Store::is_in(state)) else { return Ok(()) };
    let runtime = Builder::new_current_thread().enable_all().build();
    let overrides = runtime.map_err(|error| error.to_string())?.block_on(async {
        let store = Store::open(&state, Limits::default()).await.map_err(|error| chain(&error))?;
        let overrides = store.overrides().await.map_err(|error| chain(&error));
        store.close(CLOSING).await;
        overrides
    })?;
    for spec in &mut config.servers {
        if let Some(over) = overrides.get(&spec.key()) {
            *spec = spec.overridden(over.enabled, &over.who);
        }
    }
    Ok(())
}

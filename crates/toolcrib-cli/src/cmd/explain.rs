//! `toolcrib explain`: prints the compiled configuration with the origin of each value.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use tokio::runtime::Builder;
use toolcrib::{Store, StoreLimits};
use toolcrib_config::{Config, SecretVisibility, ServerSpec};
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::args::ExplainArgs;
use crate::output::Output;
use crate::problem_report::report_unknown_server;
use crate::settings::Settings;

/// Time limit for closing the store.
const STORE_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn run(settings: &Settings, out: &Output, args: &ExplainArgs) -> Exit {
    let mut config = settings.compile();
    if let Err(text) = apply_overrides(settings, &mut config) {
        out.print_note(&format!("cannot read the servers enabled or disabled at run time: {text}"));
    }
    let show = if args.reveal { SecretVisibility::Revealed } else { SecretVisibility::Masked };
    let only = match &args.server {
        Some(name) => match config.server(name) {
            Some(spec) => Some(spec),
            None => return report_unknown_server(&config, out, name),
        },
        None => None,
    };
    match (settings.json, only) {
        (true, only) => out.print_json(&json_document(&config, only, show)),
        (false, Some(spec)) => out.print_result(&config.explain_server(spec, show)),
        (false, None) => out.print_result(&config.explain(show)),
    }
    if !settings.json && config.has_errors() {
        out.print_note("parts of the configuration are invalid and omitted: see `toolcrib check`");
    }
    Exit::Done
}

fn json_document(config: &Config, only: Option<&ServerSpec>, show: SecretVisibility) -> Json {
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

/// Applies the servers that were enabled or disabled at run time, if a host ever ran here.
fn apply_overrides(settings: &Settings, config: &mut Config) -> Result<(), String> {
    let Some(state) = settings.find_state_folder().filter(|state| Store::exists_in(state)) else {
        return Ok(());
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let overrides = runtime.map_err(|error| error.to_string())?.block_on(async {
        let store =
            Store::open(&state, StoreLimits::default()).await.map_err(|error| chain(&error))?;
        let overrides = store.overrides().await.map_err(|error| chain(&error));
        store.close(STORE_CLOSE_TIMEOUT).await;
        overrides
    })?;
    for spec in &mut config.servers {
        if let Some(over) = overrides.get(&spec.key()) {
            *spec = spec.with_override(over.enabled, &over.set_by);
        }
    }
    Ok(())
}

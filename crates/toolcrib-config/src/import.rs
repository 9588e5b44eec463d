//! Conversion of other clients' servers to a readable `toolcrib.yaml`.

use serde_json::{Map, Value as Json, json};

use crate::assemble::apply_dependent_defaults;
use crate::dialect::Dialect;
use crate::model::setting::{SecretVisibility, Setting};
use crate::model::transport::TransportSettings;
use crate::model::{Config, ServerSpec, to_json};
use crate::profile::Profiles;
use crate::yaml_writer;

/// A native file with the servers of other files.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedConfig {
    /// The text of the native file.
    pub text: String,
    /// The new id and the original key of each server.
    pub servers: Vec<(String, String)>,
    /// Keys without a native equivalent: the server's key and the foreign key.
    pub lost: Vec<(String, String)>,
}

/// Writes the servers of several configurations as one native file. Equal servers are written once. Different servers
/// with the same id get the dialect as a suffix.
pub fn import(configs: &[Config]) -> ImportedConfig {
    let profiles = Profiles::built_in();
    let mut entries = Map::new();
    let mut imported =
        ImportedConfig { text: String::new(), servers: Vec::new(), lost: Vec::new() };
    let mut seen: Vec<(String, crate::ConfigHash)> = Vec::new();
    for spec in configs.iter().flat_map(|config| &config.servers) {
        if seen.contains(&(spec.id.clone(), spec.hash)) {
            continue;
        }
        seen.push((spec.id.clone(), spec.hash));
        let id = unused_id(&entries, spec);
        imported.lost.extend(spec.extras.keys().map(|key| (spec.key(), key.clone())));
        imported.servers.push((id.clone(), spec.key()));
        entries.insert(id, Json::Object(short_entry(&profiles, spec)));
    }
    imported.text = write_document(entries, configs);
    imported
}

fn write_document(entries: Map<String, Json>, configs: &[Config]) -> String {
    let mut native = Map::from_iter([("version".to_string(), json!(1))]);
    let inputs: Map<String, Json> = configs
        .iter()
        .flat_map(|config| &config.inputs)
        .map(|(id, input)| (id.clone(), to_json(input)))
        .collect();
    if !inputs.is_empty() {
        native.insert("inputs".to_string(), Json::Object(inputs));
    }
    native.insert("servers".to_string(), Json::Object(entries));
    yaml_writer::write(&native, &|_| String::new())
}

fn unused_id(taken: &Map<String, Json>, spec: &ServerSpec) -> String {
    let candidates = std::iter::once(spec.id.clone())
        .chain(std::iter::once(format!("{}-{}", spec.id, spec.dialect)))
        .chain((2..).map(|n| format!("{}-{}-{n}", spec.id, spec.dialect)));
    candidates.into_iter().find(|id| !taken.contains_key(id)).unwrap_or_default()
}

/// Returns the short form of an entry: the differences from its profile's defaults.
fn short_entry(profiles: &Profiles, spec: &ServerSpec) -> Map<String, Json> {
    let name = spec.dialect.profile_name();
    let Some(profile) = profiles.get(name) else { return spec.native(SecretVisibility::Revealed) };
    let startup_is_given = profile.origins.values.contains_key("timeouts.startup");
    let mut usual = profile.policy.clone();
    apply_dependent_defaults(&mut usual, &spec.id, &spec.transport, startup_is_given);
    let own = to_json(spec.policy.keys(SecretVisibility::Revealed));
    let policy = difference(&own, &to_json(usual.keys(SecretVisibility::Revealed)));
    let mut entry = Map::new();
    if name != Dialect::Native.as_str() {
        entry.insert("profile".to_string(), json!(name));
    }
    entry.extend(short_transport(&profile.transport, spec));
    entry.extend(policy.as_ref().and_then(Json::as_object).cloned().unwrap_or_default());
    entry
}

fn short_transport(usual: &TransportSettings, spec: &ServerSpec) -> Map<String, Json> {
    let usual = to_json(usual.keys(SecretVisibility::Revealed));
    let own = to_json(spec.transport.keys(SecretVisibility::Revealed));
    let Some(Json::Object(mut entry)) = difference(&own, &usual) else { return Map::new() };
    let inferred = ["stdio", "streamable_http", "websocket", "docker_exec"];
    if let Some(Json::String(kind)) = entry.shift_remove("kind")
        && !inferred.contains(&kind.as_str())
    {
        entry.insert("transport".to_string(), json!(kind));
    }
    if let Some(Json::Object(mut env)) = entry.shift_remove("env") {
        for (long, short) in [("set", "env"), ("file", "env_file"), ("inherit", "inherit_env")] {
            entry.extend(env.shift_remove(long).map(|value| (short.to_string(), value)));
        }
        if !env.is_empty() {
            entry.insert("transport".to_string(), json!({ "env": env }));
        }
    }
    entry
}

/// Returns the part of `own` that differs from `usual`, or `None` if they are equal.
fn difference(own: &Json, usual: &Json) -> Option<Json> {
    match (own, usual) {
        (own, usual) if own == usual => None,
        (Json::Object(own), Json::Object(usual)) => {
            let rest: Map<String, Json> = own
                .iter()
                .filter_map(|(key, value)| {
                    let usual = usual.get(key).unwrap_or(&Json::Null);
                    Some((key.clone(), difference(value, usual)?))
                })
                .collect();
            Some(Json::Object(rest)).filter(|rest| rest != &json!({}))
        }
        (own, _) => Some(own.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{compile_text, compile_text_in};
    use crate::{Config, MemoryLookup};

    fn claude(text: &str) -> Config {
        compile_text(Dialect::Claude, text)
    }

    #[test]
    fn import_writes_only_differences_and_compiles_back() {
        let world = MemoryLookup::default().with_env("T", "x");
        let config = compile_text_in(
            &world,
            Dialect::Claude,
            r#"{"mcpServers": {
                "files": {"command": "npx", "args": ["-y", "fs"], "env": {"A": "1", "B": "${T}"}},
                "old": {"type": "sse", "url": "https://x/sse"},
                "docs": {"type": "http", "url": "https://x/mcp", "headers": {"K": "v"}}
            }}"#,
        );
        assert_eq!(config.problems, []);
        let imported = import(std::slice::from_ref(&config));
        let expected = "version: 1\nservers:\n  files:\n    command: npx\n    args: [\"-y\", fs]\n    env:\n      A: \"1\"\n      B: \"${T}\"\n  old:\n    url: \"https://x/sse\"\n    transport: sse\n  docs:\n    url: \"https://x/mcp\"\n    headers:\n      K: v\n";
        assert_eq!(imported.text, expected);
        let back = compile_text_in(&world, Dialect::Native, &imported.text);
        assert!(back.is_equivalent(&config), "{:?}", back.problems);
    }

    #[test]
    fn import_deduplicates_servers_and_renames_conflicts() {
        let a = claude(r#"{"mcpServers": {"x": {"command": "a"}, "y": {"command": "y"}}}"#);
        let b = compile_text(
            Dialect::Cursor,
            r#"{"mcpServers": {"x": {"command": "b"}, "y": {"command": "y"}}}"#,
        );
        let ids: Vec<String> = import(&[a, b]).servers.into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["x", "y", "x-cursor"]);
    }

    #[test]
    fn import_reports_lost_keys() {
        let config = claude(r#"{"mcpServers": {"x": {"command": "a", "wobble": 3}}}"#);
        assert_eq!(import(&[config]).lost, [("file.json#x".to_string(), "wobble".to_string())]);
    }
}

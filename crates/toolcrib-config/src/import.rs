//! Other clients' servers as a `toolcrib.yaml` that a person would write.

use serde_json::{Map, Value as Json, json};

use crate::assemble::settle;
use crate::dialect::Dialect;
use crate::model::setting::{Setting, Show};
use crate::model::transport::TransportSettings;
use crate::model::{Config, ServerSpec, to_json};
use crate::profile::Profiles;
use crate::yaml;

/// A native file made of other files.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub text: String,
    /// The id that each server got, and the key that it had.
    pub servers: Vec<(String, String)>,
    /// What the native format has no place for: the server's key and the foreign one.
    pub lost: Vec<(String, String)>,
}

/// Writes the servers of several configurations as one native file. The same server in two files is
/// written once; two servers of one id are told apart by the dialect they come from.
pub fn import(configs: &[Config]) -> Imported {
    let profiles = Profiles::built_in();
    let mut entries = Map::new();
    let mut imported = Imported { text: String::new(), servers: Vec::new(), lost: Vec::new() };
    let mut seen: Vec<(String, crate::Hash)> = Vec::new();
    for spec in configs.iter().flat_map(|config| &config.servers) {
        if seen.contains(&(spec.id.clone(), spec.hash)) {
            continue;
        }
        seen.push((spec.id.clone(), spec.hash));
        let id = free_id(&entries, spec);
        imported.lost.extend(spec.extras.keys().map(|key| (spec.key(), key.clone())));
        imported.servers.push((id.clone(), spec.key()));
        entries.insert(id, Json::Object(short(&profiles, spec)));
    }
    imported.text = document(entries, configs);
    imported
}

fn document(entries: Map<String, Json>, configs: &[Config]) -> String {
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
    yaml::write(&native, &|_| String::new())
}

fn free_id(taken: &Map<String, Json>, spec: &ServerSpec) -> String {
    let candidates = std::iter::once(spec.id.clone())
        .chain(std::iter::once(format!("{}-{}", spec.id, spec.dialect)))
        .chain((2..).map(|n| format!("{}-{}-{n}", spec.id, spec.dialect)));
    candidates.into_iter().find(|id| !taken.contains_key(id)).unwrap_or_default()
}

/// The entry in its short form: only what differs from the defaults of its profile.
fn short(profiles: &Profiles, spec: &ServerSpec) -> Map<String, Json> {
    let name = spec.dialect.profile();
    let Some(profile) = profiles.get(name) else { return spec.native(Show::Revealed) };
    let startup_is_given = profile.origins.values.contains_key("timeouts.startup");
    let mut usual = profile.policy.clone();
    settle(&mut usual, &spec.id, &spec.transport, startup_is_given);
    let own = to_json(spec.policy.keys(Show::Revealed));
    let policy = differing(&own, &to_json(usual.keys(Show::Revealed)));
    let mut entry = Map::new();
    if name != Dialect::Native.as_str() {
        entry.insert("profile".to_string(), json!(name));
    }
    entry.extend(short_transport(&profile.transport, spec));
    entry.extend(policy.as_ref().and_then(Json::as_object).cloned().unwrap_or_default());
    entry
}

fn short_transport(usual: &TransportSettings, spec: &ServerSpec) -> Map<String, Json> {
    let usual = to_json(usual.keys(Show::Revealed));
    let own = to_json(spec.transport.keys(Show::Revealed));
    let Some(Json::Object(mut entry)) = differing(&own, &usual) else { return Map::new() };
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

/// What of `own` is not the same in `usual`; nothing where all of it is.
fn differing(own: &Json, usual: &Json) -> Option<Json> {
    match (own, usual) {
        (own, usual) if own == usual => None,
        (Json::Object(own), Json::Object(usual)) => {
            let rest: Map<String, Json> = own
                .iter()
                .filter_map(|(key, value)| {
                    let usual = usual.get(key).unwrap_or(&Json::Null);
                    Some((key.clone(), differing(value, usual)?))
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
    use crate::testing::{compiled, compiled_in};
    use crate::{Config, Memory};

    fn claude(text: &str) -> Config {
        compiled(Dialect::Claude, text)
    }

    #[test]
    fn only_what_differs_is_written_and_it_compiles_to_the_same_servers() {
        let world = Memory::default().with_env("T", "x");
        let config = compiled_in(
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
        let back = compiled_in(&world, Dialect::Native, &imported.text);
        assert!(back.same_as(&config), "{:?}", back.problems);
    }

    #[test]
    fn one_server_in_two_files_is_written_once_and_two_of_one_name_are_told_apart() {
        let a = claude(r#"{"mcpServers": {"x": {"command": "a"}, "y": {"command": "y"}}}"#);
        let b = compiled(
            Dialect::Cursor,
            r#"{"mcpServers": {"x": {"command": "b"}, "y": {"command": "y"}}}"#,
        );
        let ids: Vec<String> = import(&[a, b]).servers.into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["x", "y", "x-cursor"]);
    }

    #[test]
    fn what_has_no_place_is_told() {
        let config = claude(r#"{"mcpServers": {"x": {"command": "a", "wobble": 3}}}"#);
        assert_eq!(import(&[config]).lost, [("file.json#x".to_string(), "wobble".to_string())]);
    }
}

//! Other clients' servers as a `toolcrib.yaml` that a person would write.

use serde_json::{Map, Value as Json, json};

use crate::assemble::settle;
use crate::model::policy::Policy;
use crate::model::setting::{Setting, Show};
use crate::model::transport::TransportSettings;
use crate::model::{Config, ServerSpec, to_json};
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
    let mut entries = Map::new();
    let mut imported = Imported {
        text: String::new(),
        servers: Vec::new(),
        lost: Vec::new(),
    };
    let mut seen: Vec<(String, crate::Hash)> = Vec::new();
    for spec in configs.iter().flat_map(|config| &config.servers) {
        if seen.contains(&(spec.id.clone(), spec.hash)) {
            continue;
        }
        seen.push((spec.id.clone(), spec.hash));
        let id = free_id(&entries, spec);
        imported
            .lost
            .extend(spec.extras.keys().map(|key| (spec.key(), key.clone())));
        imported.servers.push((id.clone(), spec.key()));
        entries.insert(id, Json::Object(short(spec)));
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
    candidates
        .into_iter()
        .find(|id| !taken.contains_key(id))
        .unwrap_or_default()
}

/// The entry in its short form: only what differs from the defaults.
fn short(spec: &ServerSpec) -> Map<String, Json> {
    let mut usual = Policy::default();
    settle(&mut usual, &spec.id, &spec.transport, false);
    let usual = to_json(usual.keys(Show::Revealed));
    let Some(Json::Object(policy)) = differing(&to_json(spec.policy.keys(Show::Revealed)), &usual)
    else {
        return short_transport(spec);
    };
    let mut entry = short_transport(spec);
    entry.extend(policy);
    entry
}

fn short_transport(spec: &ServerSpec) -> Map<String, Json> {
    let usual = to_json(TransportSettings::default().keys(Show::Revealed));
    let own = to_json(spec.transport.keys(Show::Revealed));
    let Some(Json::Object(mut entry)) = differing(&own, &usual) else {
        return Map::new();
    };
    let inferred = ["stdio", "streamable_http", "websocket", "docker_exec"];
    if let Some(Json::String(kind)) = entry.remove("kind")
        && !inferred.contains(&kind.as_str())
    {
        entry.insert("transport".to_string(), json!(kind));
    }
    if let Some(Json::Object(mut env)) = entry.remove("env") {
        let short = [
            ("set", "env"),
            ("file", "env_file"),
            ("inherit", "inherit_env"),
        ];
        for (long, short) in short {
            entry.extend(env.remove(long).map(|value| (short.to_string(), value)));
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

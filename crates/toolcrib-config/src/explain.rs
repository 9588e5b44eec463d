//! The compiled configuration in the native format, each value with where it came from.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json, json};

use crate::model::host::Input;
use crate::model::setting::{Setting, Show};
use crate::model::{Config, Origin, ServerSpec, to_json};
use crate::yaml;

impl Config {
    /// The whole configuration as native YAML; with [`Show::Revealed`] it compiles to the same thing.
    pub fn explain(&self, show: Show) -> String {
        self.written(self.shown(), self.native_head(show), show)
    }

    /// One server as native YAML.
    pub fn explain_server(&self, spec: &ServerSpec, show: Show) -> String {
        let mut shown = self.shown();
        shown.retain(|_, other| std::ptr::eq(*other, spec));
        self.written(shown, Map::from_iter([("version".to_string(), json!(1))]), show)
    }

    /// The whole configuration as native JSON, without the origins.
    pub fn native(&self, show: Show) -> Json {
        let mut native = self.native_head(show);
        native.insert("servers".to_string(), entries(&self.shown(), show));
        Json::Object(native)
    }

    /// Where each value of a server came from, by its native path.
    pub fn origins(&self, spec: &ServerSpec) -> Map<String, Json> {
        let mut found = Map::new();
        leaves(&Json::Object(spec.native(Show::Masked)), String::new(), &mut |path| {
            found.insert(path.to_string(), json!(spec.origins.of(path).to_string()));
        });
        found
    }

    /// Where a value of the host or the gateway came from, by its native path such as `host.grants.members.alice.toolsets`.
    pub fn origin(&self, path: &str) -> Origin {
        crate::model::ancestors(path)
            .find_map(|path| self.origins.get(path).cloned())
            .unwrap_or_else(|| Origin::Profile("native".into()))
    }

    /// Whether two configurations are the same in everything but where they were written.
    pub fn same_as(&self, other: &Self) -> bool {
        let servers = |config: &Self| -> Vec<_> {
            config.servers.iter().map(|s| (s.id.clone(), s.hash, s.extras.clone())).collect()
        };
        self.host == other.host
            && self.gateway == other.gateway
            && self.inputs == other.inputs
            && servers(self) == servers(other)
    }

    fn native_head(&self, show: Show) -> Map<String, Json> {
        let mut native = Map::from_iter([("version".to_string(), json!(1))]);
        native.extend(self.host.keys(show).map(|keys| ("host".to_string(), to_json(keys))));
        native.extend(self.gateway.keys(show).map(|keys| ("gateway".to_string(), to_json(keys))));
        if !self.inputs.is_empty() {
            let shown = |(id, input): (&String, &Input)| (id.clone(), to_json(input.shown(show)));
            native.insert("inputs".to_string(), self.inputs.iter().map(shown).collect());
        }
        native
    }

    /// The servers by id, or by the whole key where two have the same id.
    fn shown(&self) -> Shown<'_> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for spec in &self.servers {
            *counts.entry(&spec.id).or_default() += 1;
        }
        let unique = |spec: &ServerSpec| counts.get(spec.id.as_str()) == Some(&1);
        let id = |spec: &ServerSpec| if unique(spec) { spec.id.clone() } else { spec.key() };
        self.servers.iter().map(|spec| (id(spec), spec)).collect()
    }

    fn written(&self, shown: Shown<'_>, mut native: Map<String, Json>, show: Show) -> String {
        native.insert("servers".to_string(), entries(&shown, show));
        yaml::write(&native, &|path| match path {
            ["servers", _, "x-source"] => String::new(),
            ["servers", id, rest @ ..] => {
                shown.get(*id).map(|spec| remark(spec, rest)).unwrap_or_default()
            }
            ["host" | "gateway", ..] => self.origin(&path.join(".")).to_string(),
            _ => String::new(),
        })
    }
}

/// Servers by the name that they are shown under.
type Shown<'a> = IndexMap<String, &'a ServerSpec>;

/// Native entries; one that is not shown by its id says which part of its name is the file.
fn entries(shown: &Shown<'_>, show: Show) -> Json {
    let entry = |(name, spec): (&String, &&ServerSpec)| {
        let mut entry = spec.native(show);
        if *name != spec.id {
            entry.shift_insert(0, "x-source".to_string(), Json::from(&*spec.source));
        }
        (name.clone(), Json::Object(entry))
    };
    shown.iter().map(entry).collect()
}

fn remark(spec: &ServerSpec, path: &[&str]) -> String {
    match path {
        ["profile"] => format!("compiled from {}:{} ({})", spec.source, spec.place, spec.dialect),
        _ => spec.origins.of(&path.join(".")).to_string(),
    }
}

fn leaves(json: &Json, path: String, tell: &mut dyn FnMut(&str)) {
    match json {
        Json::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(value, below, tell);
            }
        }
        _ => tell(&path),
    }
}

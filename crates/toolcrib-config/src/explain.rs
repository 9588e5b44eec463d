//! The compiled configuration in the native format, each value with where it came from.

use serde_json::{Map, Value as Json, json};

use crate::model::setting::{Setting, Show};
use crate::model::{Config, Origin, ServerSpec, to_json};
use crate::yaml;

impl Config {
    /// The whole configuration as native YAML; with [`Show::Revealed`] it compiles to the same thing.
    pub fn explain(&self, show: Show) -> String {
        let mut native = self.native_head(show);
        let servers: Map<String, Json> = self
            .servers
            .iter()
            .map(|spec| (self.shown_id(spec), Json::Object(spec.native(show))))
            .collect();
        native.insert("servers".to_string(), Json::Object(servers));
        yaml::write(&native, &|path| self.remark(path))
    }

    /// One server as native YAML.
    pub fn explain_server(&self, spec: &ServerSpec, show: Show) -> String {
        let entry = json!({ self.shown_id(spec): spec.native(show) });
        let native =
            Map::from_iter([("version".to_string(), json!(1)), ("servers".to_string(), entry)]);
        yaml::write(&native, &|path| self.remark(path))
    }

    /// The whole configuration as native JSON, without the origins.
    pub fn native(&self, show: Show) -> Json {
        let mut native = self.native_head(show);
        let entry = |spec: &ServerSpec| (self.shown_id(spec), Json::Object(spec.native(show)));
        native
            .insert("servers".to_string(), Json::Object(self.servers.iter().map(entry).collect()));
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
            native.insert("inputs".to_string(), to_json(&self.inputs));
        }
        native
    }

    /// The id, or the whole key where two servers have the same one.
    fn shown_id(&self, spec: &ServerSpec) -> String {
        let unique = self.servers.iter().filter(|other| other.id == spec.id).nth(1).is_none();
        if unique { spec.id.clone() } else { spec.key() }
    }

    fn remark(&self, path: &[&str]) -> String {
        match path {
            ["servers", id, "profile"] => self
                .servers
                .iter()
                .find(|spec| self.shown_id(spec) == *id)
                .map(|spec| {
                    format!("compiled from {}:{} ({})", spec.source, spec.place, spec.dialect)
                })
                .unwrap_or_default(),
            ["servers", id, rest @ ..] => self
                .servers
                .iter()
                .find(|spec| self.shown_id(spec) == *id)
                .map(|spec| spec.origins.of(&rest.join(".")).to_string())
                .unwrap_or_default(),
            ["host" | "gateway", ..] => self.origin_of(&path.join(".")).to_string(),
            _ => String::new(),
        }
    }

    fn origin_of(&self, path: &str) -> Origin {
        crate::model::ancestors(path)
            .find_map(|path| self.origins.get(path).cloned())
            .unwrap_or_else(|| Origin::Profile("native".into()))
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

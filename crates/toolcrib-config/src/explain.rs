//! Output of the compiled configuration in the native format, with the origin of each value.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json, json};

use crate::model::host::InputSpec;
use crate::model::setting::{SecretVisibility, Setting};
use crate::model::{Config, ServerSpec, ValueOrigin, to_json};
use crate::yaml_writer;

impl Config {
    /// Returns the configuration as native YAML. With [`SecretVisibility::Revealed`] it compiles to the same
    /// configuration.
    pub fn explain(&self, show: SecretVisibility) -> String {
        self.write_yaml(self.servers_by_name(), self.native_header(show), show)
    }

    /// Returns one server as native YAML.
    pub fn explain_server(&self, spec: &ServerSpec, show: SecretVisibility) -> String {
        let mut shown = self.servers_by_name();
        shown.retain(|_, other| std::ptr::eq(*other, spec));
        self.write_yaml(shown, Map::from_iter([("version".to_string(), json!(1))]), show)
    }

    /// Returns the configuration as native JSON without origins.
    pub fn native(&self, show: SecretVisibility) -> Json {
        let mut native = self.native_header(show);
        native.insert("servers".to_string(), native_entries(&self.servers_by_name(), show));
        Json::Object(native)
    }

    /// Returns the origin of each value of a server by its native path.
    pub fn origins(&self, spec: &ServerSpec) -> Map<String, Json> {
        let mut found = Map::new();
        visit_leaves(
            &Json::Object(spec.native(SecretVisibility::Masked)),
            String::new(),
            &mut |path| {
                found.insert(path.to_string(), json!(spec.origins.origin(path).to_string()));
            },
        );
        found
    }

    /// Returns the origin of a value of the host or the gateway by its native path, such as
    /// `host.grants.members.alice.toolsets`.
    pub fn origin(&self, path: &str) -> ValueOrigin {
        crate::model::ancestors(path)
            .find_map(|path| self.origins.get(path).cloned())
            .unwrap_or_else(|| ValueOrigin::Profile("native".into()))
    }

    /// Returns whether two configurations are equal except for their origins.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let servers = |config: &Self| -> Vec<_> {
            config.servers.iter().map(|s| (s.id.clone(), s.hash, s.extras.clone())).collect()
        };
        self.host == other.host
            && self.gateway == other.gateway
            && self.inputs == other.inputs
            && servers(self) == servers(other)
    }

    fn native_header(&self, show: SecretVisibility) -> Map<String, Json> {
        let mut native = Map::from_iter([("version".to_string(), json!(1))]);
        native.extend(self.host.keys(show).map(|keys| ("host".to_string(), to_json(keys))));
        native.extend(self.gateway.keys(show).map(|keys| ("gateway".to_string(), to_json(keys))));
        if !self.inputs.is_empty() {
            let shown =
                |(id, input): (&String, &InputSpec)| (id.clone(), to_json(input.masked(show)));
            native.insert("inputs".to_string(), self.inputs.iter().map(shown).collect());
        }
        native
    }

    /// Returns the servers by id, or by key if two servers have the same id.
    fn servers_by_name(&self) -> ServersByName<'_> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for spec in &self.servers {
            *counts.entry(&spec.id).or_default() += 1;
        }
        let unique = |spec: &ServerSpec| counts.get(spec.id.as_str()) == Some(&1);
        let id = |spec: &ServerSpec| if unique(spec) { spec.id.clone() } else { spec.key() };
        self.servers.iter().map(|spec| (id(spec), spec)).collect()
    }

    fn write_yaml(
        &self,
        shown: ServersByName<'_>,
        mut native: Map<String, Json>,
        show: SecretVisibility,
    ) -> String {
        native.insert("servers".to_string(), native_entries(&shown, show));
        yaml_writer::write(&native, &|path| match path {
            ["servers", _, "x-source"] => String::new(),
            ["servers", id, rest @ ..] => {
                shown.get(*id).map(|spec| origin_comment(spec, rest)).unwrap_or_default()
            }
            ["host" | "gateway", ..] => self.origin(&path.join(".")).to_string(),
            _ => String::new(),
        })
    }
}

/// Servers by their displayed name.
type ServersByName<'a> = IndexMap<String, &'a ServerSpec>;

/// Returns the native entries. An entry that is not named by its id gets its file as `x-source`.
fn native_entries(shown: &ServersByName<'_>, show: SecretVisibility) -> Json {
    let entry = |(name, spec): (&String, &&ServerSpec)| {
        let mut entry = spec.native(show);
        if *name != spec.id {
            entry.shift_insert(0, "x-source".to_string(), Json::from(&*spec.source));
        }
        (name.clone(), Json::Object(entry))
    };
    shown.iter().map(entry).collect()
}

fn origin_comment(spec: &ServerSpec, path: &[&str]) -> String {
    match path {
        ["profile"] => {
            format!("compiled from {}:{} ({})", spec.source, spec.location, spec.dialect)
        }
        _ => spec.origins.origin(&path.join(".")).to_string(),
    }
}

fn visit_leaves(json: &Json, path: String, visit: &mut dyn FnMut(&str)) {
    match json {
        Json::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                visit_leaves(value, below, visit);
            }
        }
        _ => visit(&path),
    }
}

//! `docs/configuration-reference.md`: every key of `toolcrib.yaml`, from its JSON Schema and from the native defaults.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};
use toolcrib_config::{
    Config, ConfigFile, Dialect, MemoryLookup, SecretVisibility, Workspace, compile, schema,
};

use super::table_row;

const INTRODUCTION: &str = "\
<!-- Generated from schema/toolcrib.schema.json and the native profile by the tests of toolcrib-cli. Do not edit. -->
# Configuration reference

Every key of `toolcrib.yaml`. [Native: `toolcrib.yaml`](configuration/native.md) explains the format with examples. A default
is that of the profile `native`; a key without one is unset. Keys that begin with `x-` are ignored everywhere.
";

/// Types that are written as one value, with their section in the page.
const VALUE_TYPES: [&str; 6] = ["Period", "Size", "Value", "Manual", "Transform", "Auth"];

pub(super) fn page() -> String {
    let schema = schema();
    let mut page = Page {
        schema: &schema,
        defaults: Defaults::new(),
        text: INTRODUCTION.to_owned(),
        shared: BTreeSet::new(),
    };
    page.section("", &schema, "The file");
    page.value_types();
    page.text
}

struct Page<'a> {
    schema: &'a Json,
    defaults: Defaults,
    text: String,
    /// Types whose keys are already listed.
    shared: BTreeSet<String>,
}

impl<'a> Page<'a> {
    /// The keys of an object, then the sections of the objects in it.
    fn section(&mut self, path: &str, object: &'a Json, title: &str) {
        let heading = if path.is_empty() { format!("## {title}") } else { format!("## `{path}`") };
        let about = object["description"].as_str().unwrap_or_default();
        self.text += &format!(
            "\n{heading}\n\n{}\n",
            if path.is_empty() { "The keys at the top of the file." } else { about }
        );
        self.text += "\n| Key | Type | Default | Description |\n|---|---|---|---|\n";
        let properties = object["properties"].as_object();
        let keys: Vec<(&String, &Json)> = properties.into_iter().flatten().collect();
        for (key, value) in &keys {
            let at = joined(path, key);
            let default = self
                .defaults
                .get(&at, value)
                .map(|default| format!("`{default}`"))
                .unwrap_or_default();
            let about = value["description"]
                .as_str()
                .or_else(|| self.target(value)["description"].as_str());
            self.text += &table_row(&[
                &format!("`{key}`"),
                &self.type_name(value),
                &default,
                about.unwrap_or_default(),
            ]);
        }
        for (key, value) in keys {
            self.nested(&joined(path, key), value);
        }
    }

    /// The section of a value that is an object, or a list or a map of objects.
    fn nested(&mut self, path: &str, value: &'a Json) {
        let value = non_null(value);
        let below = [("[]", &value["items"]), (".<name>", &value["additionalProperties"])];
        if let Some((step, inner)) = below.into_iter().find(|(_, inner)| inner.is_object()) {
            return self.nested(&format!("{path}{step}"), inner);
        }
        let name = reference(value);
        let target = self.target(value);
        if !target["properties"].is_object() || name.is_some_and(|name| VALUE_TYPES.contains(&name))
        {
            return;
        }
        if let Some(name) = name.filter(|name| !self.shared.insert((*name).to_owned())) {
            self.text += &format!("\n## `{path}`\n\n{}\n", same_keys(name));
            return;
        }
        if name == Some("Profile") {
            self.text += &format!("\n## `{path}`\n\n{PROFILE}\n");
            return;
        }
        self.section(path, target, path);
    }

    /// The types that are written as one value.
    fn value_types(&mut self) {
        self.text += "\n## Types\n";
        for name in VALUE_TYPES {
            let definition = &self.schema["$defs"][name];
            let about = definition["description"].as_str().unwrap_or_default();
            self.text += &format!("\n### {}\n\n{about}\n", title(name));
            let forms =
                ["anyOf", "oneOf"].iter().filter_map(|key| definition[*key].as_array()).flatten();
            let objects: Vec<(&Json, &Json)> = std::iter::once(definition)
                .chain(forms)
                .map(|form| (form, self.target(form)))
                .filter(|(_, object)| object["properties"].is_object())
                .collect();
            if !objects.is_empty() {
                self.text += "\n| Key | Type | Description |\n|---|---|---|\n";
            }
            for (form, object) in objects {
                for (key, value) in object["properties"].as_object().into_iter().flatten() {
                    // A form with a single key has its description beside the key.
                    let about = value["description"].as_str().or(form["description"].as_str());
                    let row =
                        [&format!("`{key}`"), &self.type_name(value), about.unwrap_or_default()];
                    self.text += &table_row(&row);
                }
            }
        }
    }

    /// The definition that a value refers to, or the value.
    fn target(&self, value: &'a Json) -> &'a Json {
        let value = non_null(value);
        match reference(value) {
            Some(name) => self.target(&self.schema["$defs"][name]),
            None => value,
        }
    }

    fn type_name(&self, value: &Json) -> String {
        let value = non_null(value);
        if let Some(name) = reference(value) {
            let definition = &self.schema["$defs"][name];
            return match name {
                _ if VALUE_TYPES.contains(&name) => format!("[{}](#{})", title(name), title(name)),
                _ if definition["properties"].is_object() => "map".to_owned(),
                _ => self.type_name(definition),
            };
        }
        if let Some(words) = value["enum"].as_array() {
            let words: Vec<String> =
                words.iter().filter_map(Json::as_str).map(|word| format!("`{word}`")).collect();
            return words.join(", ");
        }
        if let Some(word) = value["const"].as_str() {
            return format!("`{word}`");
        }
        if let Some(forms) = value["anyOf"].as_array().or_else(|| value["oneOf"].as_array()) {
            let forms: BTreeSet<String> = forms.iter().map(|form| self.type_name(form)).collect();
            return forms.into_iter().collect::<Vec<_>>().join(" or ");
        }
        match plain_type(value) {
            Some("array") => format!("list of {}", self.type_name(&value["items"])),
            Some("object") if value["additionalProperties"].is_object() => {
                format!("map of {}", self.type_name(&value["additionalProperties"]))
            }
            Some("object") => "map".to_owned(),
            Some(name) => name.to_owned(),
            None if value["pattern"].is_string() => "string".to_owned(),
            None => "any".to_owned(),
        }
    }
}

const PROFILE: &str = "Named defaults for servers. A profile has the keys of a server that are policies, the key `transport`, and `base`: \
the profile that it extends, by default `native`. See [`servers.<name>`](#serversname).";

fn same_keys(name: &str) -> String {
    match name {
        "Auth" => "See [auth](#auth).".to_owned(),
        _ => "The same keys as above.".to_owned(),
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// A type's name in the page.
fn title(name: &str) -> &str {
    match name {
        "Period" => "duration",
        "Size" => "size",
        "Value" => "value",
        "Manual" => "manual",
        "Transform" => "transform",
        "Auth" => "auth",
        other => other,
    }
}

/// The name of the definition that a value refers to.
fn reference(value: &Json) -> Option<&str> {
    value["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// The only form of a value besides `null`.
fn non_null(value: &Json) -> &Json {
    let forms = value["anyOf"].as_array();
    let mut others = forms.into_iter().flatten().filter(|form| form["type"] != "null");
    match (forms.is_some(), others.next(), others.next()) {
        (true, Some(form), None) => form,
        _ => value,
    }
}

/// The type's name, without `null`.
fn plain_type(value: &Json) -> Option<&str> {
    match &value["type"] {
        Json::Array(names) => names.iter().filter_map(Json::as_str).find(|name| *name != "null"),
        name => name.as_str(),
    }
}

/// The native defaults by path.
struct Defaults {
    global: Json,
    servers: Vec<Map<String, Json>>,
}

impl Defaults {
    /// The defaults of servers with each kind of transport.
    fn new() -> Self {
        let text = json!({"version": 1, "servers": {
            "a": {"command": "x"}, "b": {"url": "https://h/"}, "c": {"docker": {"image": "x", "command": ["x"]}},
        }});
        let files = MemoryLookup::default().with_file("/ws/toolcrib.yaml", text.to_string());
        let file = ConfigFile { path: "toolcrib.yaml".into(), dialect: Some(Dialect::Native) };
        let config: Config =
            compile(&Workspace { root: "/ws".into(), home: None, config_file: Some(file) }, &files);
        assert_eq!(config.problems, []);
        let servers =
            config.servers.iter().map(|spec| spec.native(SecretVisibility::Revealed)).collect();
        Defaults { global: config.native(SecretVisibility::Revealed), servers }
    }

    /// The default of a leaf.
    fn get(&self, path: &str, schema: &Json) -> Option<String> {
        let found = match path.strip_prefix("servers.<name>.") {
            None => find(&self.global, path).cloned(),
            Some("toolset" | "command" | "url" | "image" | "args" | "profile" | "kind") => None,
            Some(key) => self.servers.iter().find_map(|server| {
                let entry = Json::Object(server.clone());
                find(&entry, key).or_else(|| find(&entry["transport"], key)).cloned()
            }),
        };
        found.or_else(|| Some(schema["default"].clone())).filter(|default| !is_empty(default)).map(
            |default| match default {
                Json::String(text) => text,
                other => other.to_string(),
            },
        )
    }
}

fn find<'j>(json: &'j Json, path: &str) -> Option<&'j Json> {
    path.split('.').try_fold(json, |at, key| at.get(key))
}

fn is_empty(default: &Json) -> bool {
    match default {
        Json::Null | Json::Object(_) => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[test]
fn keys_have_types_defaults_and_descriptions() {
    let page = page();
    for row in [
        "| `max_servers` | integer | `0` |",
        "| `connect` | `eager`, `background`, `on_first_list`, `on_first_call` | `background` |",
        "| `request` | [duration](#duration) | `1m` |",
        "| `allow` | list of string |",
        "| `terminate_on_close` | boolean | `true` |",
    ] {
        assert!(page.contains(row), "{row}");
    }
    for heading in [
        "## `host.permissions`",
        "## `gateway.limits`",
        "## `servers.<name>.lifecycle.retry`",
        "### value",
    ] {
        assert!(page.contains(&format!("\n{heading}\n")), "{heading}");
    }
    assert!(!page.contains("| any |"), "a key has no type");
    let undescribed: Vec<&str> = page.lines().filter(|line| line.ends_with("|  |")).collect();
    assert_eq!(undescribed, [] as [&str; 0]);
}

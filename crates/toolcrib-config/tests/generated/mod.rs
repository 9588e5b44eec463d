//! Proptest strategies that generate configurations of every dialect with odd ids and values.

mod clients;
mod native;
mod others;

use proptest::collection::{btree_map, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use toolcrib_config::{Config, ConfigFile, Dialect, MemoryLookup, Workspace, compile};

pub(crate) type JsonStrategy = BoxedStrategy<Json>;

/// Generated files; the first one is passed to the compiler.
#[derive(Clone, Debug)]
pub(crate) struct GeneratedFiles {
    pub(crate) dialect: Dialect,
    pub(crate) files: Vec<(&'static str, String)>,
}

/// Kind of text at places that may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SecretTexts {
    /// Odd texts of the right type.
    #[allow(dead_code, reason = "each test program uses one variant")]
    Odd,
    /// Recognisable texts, also at wrong places.
    #[allow(dead_code, reason = "each test program uses one variant")]
    Canaries,
}

/// Recognisable texts; no other generated text contains one of them.
#[allow(dead_code, reason = "only one test program uses it")]
pub(crate) const CANARIES: [&str; 2] = ["cn4ry", "4711229"];

/// Generates configurations of all dialects.
pub(crate) fn files(secrets: SecretTexts) -> impl Strategy<Value = GeneratedFiles> {
    let mut all = native::files(secrets);
    all.extend(others::files(secrets));
    all.extend(clients::files(secrets));
    proptest::strategy::Union::new(all)
}

impl GeneratedFiles {
    /// Compiles the first file with all generated files and a few more available.
    pub(crate) fn compile(&self) -> Config {
        let config_file = self.files.first().map(|(path, _)| ConfigFile {
            path: format!("/ws/{path}").into(),
            dialect: Some(self.dialect),
        });
        let files = self.files.iter().map(|(path, text)| (format!("/ws/{path}"), text.clone()));
        compile_in(config_file, files)
    }
}

pub(crate) fn compile_in(
    config_file: Option<ConfigFile>,
    files: impl Iterator<Item = (String, String)>,
) -> Config {
    let mut lookup = MemoryLookup::default()
        .with_env("HOME", "/user")
        .with_env("X", "cn4ry of the environment")
        .with_file("/ws/.env", "A=cn4ry\nB='cn4ry cn4ry'\nno assignment cn4ry\n")
        .with_file("/ws/docs/manual.md", "");
    for (path, text) in files {
        lookup = lookup.with_file(path, text);
    }
    compile(&Workspace { root: "/ws".into(), home: None, config_file }, &lookup)
}

/// Generates one file of one dialect.
pub(crate) fn single_file(
    dialect: Dialect,
    path: &'static str,
    root: JsonStrategy,
) -> BoxedStrategy<GeneratedFiles> {
    let write = if dialect == Dialect::Codex { toml } else { json_text };
    root.prop_map(move |root| GeneratedFiles { dialect, files: vec![(path, write(&root))] }).boxed()
}

impl SecretTexts {
    /// A text, literal or with variables of the dialect.
    pub(crate) fn text(self) -> JsonStrategy {
        match self {
            Self::Odd => text(),
            Self::Canaries => prop_oneof![
                6 => one_of(&["cn4ry", "a cn4ry", "${X} cn4ry", "${X:-cn4ry}", "$ cn4ry", "{env:X}cn4ry", "${env:X}cn4ry"]),
                1 => one_of(&["${cn4ry!}", "cn4ry${", "${X:-cn4ry"]),
                2 => misplaced_canary(),
            ]
            .boxed(),
        }
    }

    /// A value in one of its native forms.
    pub(crate) fn value(self) -> JsonStrategy {
        let long = vec![
            object(vec![("from_env", one_of(&["X", "NOPE"]))], vec![("prefix", self.text())]),
            object(vec![("template", self.text())], vec![]),
            Just(json!({ "secret": "vault:kv/app#key" })).boxed(),
        ];
        prop_oneof![3 => self.text(), 1 => proptest::strategy::Union::new(long)].boxed()
    }

    /// Variables or headers.
    pub(crate) fn map_of(self, value: JsonStrategy) -> JsonStrategy {
        let map = map(name(), value, 0..3);
        match self {
            Self::Odd => map,
            Self::Canaries => prop_oneof![8 => map, 1 => misplaced_canary()].boxed(),
        }
    }

    pub(crate) fn texts(self) -> JsonStrategy {
        self.map_of(self.text())
    }

    pub(crate) fn values(self) -> JsonStrategy {
        self.map_of(self.value())
    }

    /// An unknown value of a server's entry.
    pub(crate) fn unknown(self) -> JsonStrategy {
        match self {
            Self::Odd => free(),
            Self::Canaries => self.text(),
        }
    }
}

/// A canary in a value of another type.
fn misplaced_canary() -> JsonStrategy {
    let shapes = [
        json!({ "a": "cn4ry" }),
        json!(["cn4ry"]),
        json!([["cn4ry"], 4711229]),
        json!(4711229),
        json!({ "from_env": ["cn4ry"], "prefix": ["cn4ry"] }),
        json!({ "secret": "cn4ry" }),
        json!("cn4ry"),
    ];
    proptest::sample::select(shapes.to_vec()).boxed()
}

const ODD: &[&str] = &[
    "",
    " ",
    " lead",
    "trail ",
    "two words",
    "true",
    "No",
    "null",
    "~",
    "1",
    "1.10",
    "0x1F",
    "1e3",
    "30s",
    "2025-11-25",
    "$",
    "$$",
    "$5 and $X",
    "${X}",
    "a-${X}-b",
    "${X:-d}",
    "${X:-a$b{c}",
    "${NOPE}",
    "{env:X}",
    "{env:",
    "${env:X}",
    "${workspaceFolder}/x",
    "${input:key}",
    "}",
    "#",
    "a # b",
    "c#",
    "a: b",
    "- x",
    "\"q\"",
    "'q'",
    "\\",
    "a\\nb",
    "new\nline",
    "\ttab",
    "\r\n\n",
    "é😀",
    "\u{0}",
    "\u{7f}\u{80}",
    "\u{85}\u{2028}\u{feff}\u{fffe}",
    "%TAG",
    "a.b",
    "a/b",
    "***",
    "<<",
    "[x]",
    "{y}",
    "*a",
    "&a",
    "!x",
    "|",
    ">",
    "@x",
    "`",
    ",",
    "?",
    ":",
];

/// A text, mostly odd.
pub(crate) fn text() -> JsonStrategy {
    any_string().prop_map(Json::String).boxed()
}

fn any_string() -> BoxedStrategy<String> {
    prop_oneof![
        4 => proptest::sample::select(ODD).prop_map(str::to_string),
        2 => "[a-z][a-z0-9-]{0,8}",
        1 => any::<String>(),
    ]
    .boxed()
}

/// A name, as odd but rarely long.
pub(crate) fn name() -> BoxedStrategy<String> {
    prop_oneof![
        2 => "[a-z][a-z0-9_-]{0,6}",
        1 => proptest::sample::select(ODD).prop_map(str::to_string),
    ]
    .boxed()
}

pub(crate) fn one_of(words: &'static [&'static str]) -> JsonStrategy {
    proptest::sample::select(words).prop_map(Json::from).boxed()
}

pub(crate) fn flag() -> JsonStrategy {
    any::<bool>().prop_map(Json::from).boxed()
}

pub(crate) fn count() -> JsonStrategy {
    prop_oneof![0_u32..10, Just(u32::MAX)].prop_map(Json::from).boxed()
}

pub(crate) fn millis() -> JsonStrategy {
    prop_oneof![Just(0_u64), 1_u64..1_000_000, Just(u64::MAX)].prop_map(Json::from).boxed()
}

pub(crate) fn list(item: JsonStrategy) -> JsonStrategy {
    vec(item, 0..3).prop_map(Json::Array).boxed()
}

pub(crate) fn texts() -> JsonStrategy {
    list(text())
}

pub(crate) fn map(
    key: BoxedStrategy<String>,
    value: JsonStrategy,
    size: std::ops::Range<usize>,
) -> JsonStrategy {
    btree_map(key, value, size).prop_map(|map| Json::Object(map.into_iter().collect())).boxed()
}

/// A map with odd ids as keys.
pub(crate) fn by_id(entry: JsonStrategy) -> JsonStrategy {
    map(name(), entry, 1..4)
}

/// Arbitrary JSON for keys that the compiler does not read.
pub(crate) fn free() -> JsonStrategy {
    let leaf = prop_oneof![
        text(),
        flag(),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(|n| json!(n)),
        Just(Json::Null),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![list(inner.clone().boxed()), map(name(), inner.boxed(), 0..3)]
    })
    .boxed()
}

/// A map with required and optional keys.
pub(crate) fn object(
    always: Vec<(&'static str, JsonStrategy)>,
    maybe: Vec<(&'static str, JsonStrategy)>,
) -> JsonStrategy {
    let share = if maybe.len() > 8 { 0.25 } else { 0.5 };
    let always =
        always.into_iter().map(|(key, value)| value.prop_map(move |v| Some((key, v))).boxed());
    let maybe = maybe
        .into_iter()
        .map(|(key, value)| weighted(share, value.prop_map(move |v| (key, v))).boxed());
    let entries: Vec<_> = always.chain(maybe).collect();
    entries
        .prop_map(|entries| {
            let entries = entries.into_iter().flatten();
            Json::Object(
                entries.map(|(key, value)| (key.to_string(), value)).collect::<Map<_, _>>(),
            )
        })
        .boxed()
}

/// Writes JSON that is also YAML: characters that YAML rejects are escaped.
pub(crate) fn json_text(json: &Json) -> String {
    let mut out = String::new();
    for c in json.to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out
}

/// Writes the file as TOML. TOML has no null, so an empty text replaces it.
fn toml(root: &Json) -> String {
    let entries = root.as_object().into_iter().flatten();
    entries.map(|(key, value)| format!("{} = {}\n", quoted(key), toml_value(value))).collect()
}

fn toml_value(json: &Json) -> String {
    match json {
        Json::Null => "\"\"".to_string(),
        Json::String(text) => quoted(text),
        Json::Array(items) => {
            format!("[{}]", items.iter().map(toml_value).collect::<Vec<_>>().join(", "))
        }
        Json::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{} = {}", quoted(key), toml_value(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Json::Number(number) => number.to_string(),
        Json::Bool(b) => b.to_string(),
    }
}

fn quoted(text: &str) -> String {
    json_text(&Json::from(text))
}

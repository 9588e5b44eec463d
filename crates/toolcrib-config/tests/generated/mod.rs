//! Configurations of every dialect as texts, made of odd ids and values.

mod clients;
mod native;
mod others;

use proptest::collection::{btree_map, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use toolcrib_config::{Config, Dialect, Memory, Named, Workspace, compile};

pub(crate) type Tree = BoxedStrategy<Json>;

/// Files, of which the first is named to the compiler.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) dialect: Dialect,
    pub(crate) files: Vec<(&'static str, String)>,
}

/// What stands where a secret may stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Secrets {
    /// Odd texts, all of them of the right type.
    Odd,
    /// Texts that can be found again wherever they show, also in the wrong place.
    Canaries,
}

/// No other text of a generated file holds one of these.
#[allow(dead_code, reason = "only one of the tests looks for them")]
pub(crate) const CANARIES: [&str; 2] = ["cn4ry", "4711229"];

/// Configurations of all dialects.
pub(crate) fn files(secrets: Secrets) -> impl Strategy<Value = Files> {
    let mut all = native::files(secrets);
    all.extend(others::files(secrets));
    all.extend(clients::files(secrets));
    proptest::strategy::Union::new(all)
}

impl Files {
    /// Reads the first file, in a world that has all of them and a few more.
    pub(crate) fn compile(&self) -> Config {
        let named = self.files.first().map(|(path, _)| Named {
            path: format!("/ws/{path}").into(),
            dialect: Some(self.dialect),
        });
        let files = self.files.iter().map(|(path, text)| (format!("/ws/{path}"), text.clone()));
        compile_in(named, files)
    }
}

pub(crate) fn compile_in(
    named: Option<Named>,
    files: impl Iterator<Item = (String, String)>,
) -> Config {
    let mut world = Memory::default()
        .with_env("HOME", "/user")
        .with_env("X", "cn4ry of the environment")
        .with_file("/ws/.env", "A=cn4ry\nB='cn4ry cn4ry'\nno assignment cn4ry\n")
        .with_file("/ws/docs/manual.md", "");
    for (path, text) in files {
        world = world.with_file(path, text);
    }
    compile(&Workspace { root: "/ws".into(), home: None, named }, &world)
}

/// One file of one dialect.
pub(crate) fn one(dialect: Dialect, path: &'static str, root: Tree) -> BoxedStrategy<Files> {
    let write = if dialect == Dialect::Codex { toml } else { json_text };
    root.prop_map(move |root| Files { dialect, files: vec![(path, write(&root))] }).boxed()
}

impl Secrets {
    /// A text that is taken as it is, or as the dialect expands it.
    pub(crate) fn text(self) -> Tree {
        match self {
            Self::Odd => text(),
            Self::Canaries => prop_oneof![
                6 => words(&["cn4ry", "a cn4ry", "${X} cn4ry", "${X:-cn4ry}", "$cn4ry", "{env:X}cn4ry", "${env:X}cn4ry"]),
                1 => words(&["${cn4ry!}", "cn4ry${", "${X:-cn4ry"]),
                2 => misplaced(),
            ]
            .boxed(),
        }
    }

    /// A value in one of its native forms.
    pub(crate) fn value(self) -> Tree {
        let long = vec![
            object(vec![("from_env", words(&["X", "NOPE"]))], vec![("prefix", self.text())]),
            object(vec![("template", self.text())], vec![]),
            Just(json!({ "secret": "vault:kv/app#key" })).boxed(),
        ];
        prop_oneof![3 => self.text(), 1 => proptest::strategy::Union::new(long)].boxed()
    }

    /// Variables or headers.
    pub(crate) fn map_of(self, value: Tree) -> Tree {
        let map = map(name(), value, 0..3);
        match self {
            Self::Odd => map,
            Self::Canaries => prop_oneof![8 => map, 1 => misplaced()].boxed(),
        }
    }

    pub(crate) fn texts(self) -> Tree {
        self.map_of(self.text())
    }

    pub(crate) fn values(self) -> Tree {
        self.map_of(self.value())
    }

    /// What a server's entry holds that nobody knows.
    pub(crate) fn unknown(self) -> Tree {
        match self {
            Self::Odd => free(),
            Self::Canaries => self.text(),
        }
    }
}

/// A canary in the shape of something else.
fn misplaced() -> Tree {
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

/// A text; most are odd.
pub(crate) fn text() -> Tree {
    text_of().prop_map(Json::String).boxed()
}

fn text_of() -> BoxedStrategy<String> {
    prop_oneof![
        4 => proptest::sample::select(ODD).prop_map(str::to_string),
        2 => "[a-z][a-z0-9-]{0,8}",
        1 => any::<String>(),
    ]
    .boxed()
}

/// A name: as odd, but rarely long.
pub(crate) fn name() -> BoxedStrategy<String> {
    prop_oneof![
        2 => "[a-z][a-z0-9_-]{0,6}",
        1 => proptest::sample::select(ODD).prop_map(str::to_string),
    ]
    .boxed()
}

pub(crate) fn words(words: &'static [&'static str]) -> Tree {
    proptest::sample::select(words).prop_map(Json::from).boxed()
}

pub(crate) fn flag() -> Tree {
    any::<bool>().prop_map(Json::from).boxed()
}

pub(crate) fn count() -> Tree {
    prop_oneof![0_u32..10, Just(u32::MAX)].prop_map(Json::from).boxed()
}

pub(crate) fn millis() -> Tree {
    prop_oneof![Just(0_u64), 1_u64..1_000_000, Just(u64::MAX)].prop_map(Json::from).boxed()
}

pub(crate) fn list(item: Tree) -> Tree {
    vec(item, 0..3).prop_map(Json::Array).boxed()
}

pub(crate) fn texts() -> Tree {
    list(text())
}

pub(crate) fn map(key: BoxedStrategy<String>, value: Tree, size: std::ops::Range<usize>) -> Tree {
    btree_map(key, value, size).prop_map(|map| Json::Object(map.into_iter().collect())).boxed()
}

/// A map of servers or the like by odd ids.
pub(crate) fn by_id(entry: Tree) -> Tree {
    map(name(), entry, 1..4)
}

/// JSON that nobody looks into.
pub(crate) fn free() -> Tree {
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

/// A map that always has some keys and may have others.
pub(crate) fn object(always: Vec<(&'static str, Tree)>, maybe: Vec<(&'static str, Tree)>) -> Tree {
    let share = if maybe.len() > 8 { 0.25 } else { 0.5 };
    let entry = |share: f64| {
        move |(key, value): (&'static str, Tree)| {
            weighted(share, value.prop_map(move |value| (key.to_string(), value)))
        }
    };
    let entries: Vec<_> =
        always.into_iter().map(entry(1.0)).chain(maybe.into_iter().map(entry(share))).collect();
    entries
        .prop_map(|entries| Json::Object(entries.into_iter().flatten().collect::<Map<_, _>>()))
        .boxed()
}

/// JSON that is YAML as well: characters that YAML does not take are escaped.
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

/// The same as TOML; what it has no word for is left out.
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

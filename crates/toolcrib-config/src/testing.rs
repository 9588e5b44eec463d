//! Helpers for unit tests.

use serde::de::DeserializeOwned;

use crate::doc::{self, Doc, Syntax};
use crate::{Config, ConfigFile, Dialect, MemoryLookup, Workspace, compile};

/// Deserializes valid YAML.
pub(crate) fn deserialize_yaml<T: DeserializeOwned>(yaml: &str) -> T {
    let parsed = doc::parse(Syntax::Yaml, yaml.as_bytes());
    assert_eq!(parsed.defects, []);
    let doc = parsed.doc.unwrap();
    let reading = doc::deserialize::<T>(&doc, Doc::ROOT);
    assert_eq!(reading.errors, []);
    reading.value.unwrap()
}

/// Compiles a file of one dialect without other files.
pub(crate) fn compile_text(dialect: Dialect, text: &str) -> Config {
    compile_text_in(&MemoryLookup::default(), dialect, text)
}

/// Compiles a file with these variables and other files. The root is `/ws`.
pub(crate) fn compile_text_in(world: &MemoryLookup, dialect: Dialect, text: &str) -> Config {
    let name = match dialect {
        Dialect::Dominds => ".minds/mcp.yaml",
        Dialect::Codex => "config.toml",
        Dialect::Native | Dialect::Holodeck | Dialect::Minion | Dialect::Docker => "file.yaml",
        _ => "file.json",
    };
    read_as(world, name, Some(dialect), text)
}

/// Compiles a file for the root `/ws`, with the dialect of its path.
pub(crate) fn compile_text_at(world: &MemoryLookup, path: &str, text: &str) -> Config {
    read_as(world, path, None, text)
}

fn read_as(world: &MemoryLookup, path: &str, dialect: Option<Dialect>, text: &str) -> Config {
    let root = std::path::PathBuf::from("/ws");
    let world = world.clone().with_file(root.join(path), text);
    let named = ConfigFile { path: path.into(), dialect };
    let workspace = Workspace { root, home: None, config_file: Some(named) };
    compile(&workspace, &world)
}

/// Compiles the configuration discovered below a root.
pub(crate) fn compile_discovered(world: &MemoryLookup, root: &str) -> Config {
    compile(
        &Workspace { root: root.into(), home: Some("/user/toolcrib".into()), config_file: None },
        world,
    )
}

/// Returns the codes of a configuration's problems.
pub(crate) fn problem_codes(config: &Config) -> Vec<&str> {
    config.problems.iter().map(|problem| problem.code.as_str()).collect()
}

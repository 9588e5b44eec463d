//! Short ways to read texts in unit tests.

use serde::de::DeserializeOwned;

use crate::doc::{self, Doc, Syntax};
use crate::{Config, Dialect, Memory, Named, Workspace, compile};

/// A YAML text read as `T`, without a mistake in it.
pub(crate) fn read<T: DeserializeOwned>(yaml: &str) -> T {
    let parsed = doc::parse(Syntax::Yaml, yaml.as_bytes());
    assert_eq!(parsed.flaws, []);
    let doc = parsed.doc.unwrap();
    let reading = doc::read::<T>(&doc, Doc::ROOT);
    assert_eq!(reading.wrongs, []);
    reading.value.unwrap()
}

/// A file of one dialect, compiled in a world that has nothing else.
pub(crate) fn compiled(dialect: Dialect, text: &str) -> Config {
    compiled_in(&Memory::default(), dialect, text)
}

/// The same in a world with variables and other files; the root is `/ws`.
pub(crate) fn compiled_in(world: &Memory, dialect: Dialect, text: &str) -> Config {
    let name = match dialect {
        Dialect::Dominds => ".minds/mcp.yaml",
        Dialect::Codex => "config.toml",
        Dialect::Native | Dialect::Holodeck | Dialect::Minion | Dialect::Docker => "file.yaml",
        _ => "file.json",
    };
    read_as(world, name, Some(dialect), text)
}

/// A file whose path tells its dialect, compiled for the root `/ws`.
pub(crate) fn compiled_at(world: &Memory, path: &str, text: &str) -> Config {
    read_as(world, path, None, text)
}

fn read_as(world: &Memory, path: &str, dialect: Option<Dialect>, text: &str) -> Config {
    let root = std::path::PathBuf::from("/ws");
    let world = world.clone().with_file(root.join(path), text);
    let named = Named { path: path.into(), dialect };
    let workspace = Workspace { root, home: None, named: Some(named) };
    compile(&workspace, &world)
}

/// What is found below a root where nothing is named.
pub(crate) fn discovered(world: &Memory, root: &str) -> Config {
    compile(
        &Workspace { root: root.into(), home: Some("/user/toolcrib".into()), named: None },
        world,
    )
}

/// The codes of a configuration's problems.
pub(crate) fn codes(config: &Config) -> Vec<&str> {
    config.problems.iter().map(|problem| problem.code.as_str()).collect()
}

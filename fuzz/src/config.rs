//! What must hold for every configuration, whatever its bytes are.

use serde_json::json;
use toolcrib_config::model::setting::Show;
use toolcrib_config::{Config, Dialect, Memory, Named, Problem, ServerSpec, Workspace, compile};

/// Compiles `text` as one file in a small world, and checks everything that was made of it.
pub fn check(dialect: Dialect, text: &[u8]) {
    let (name, config) = compiled(dialect, text);
    for problem in &config.problems {
        check_problem(problem, &name, text);
    }
    for server in &config.servers {
        check_server(server);
    }
    assert!(
        !config.servers.is_empty() || !config.problems.is_empty() || config.rejected.is_empty(),
        "a server was rejected without a word"
    );
}

fn compiled(dialect: Dialect, text: &[u8]) -> (String, Config) {
    let name = match dialect {
        Dialect::Codex => "file.toml",
        Dialect::Dominds => ".minds/mcp.yaml",
        Dialect::Native | Dialect::Holodeck | Dialect::Minion | Dialect::Docker => "file.yaml",
        _ => "file.json",
    };
    (name.to_string(), compiled_as(name, dialect, text))
}

fn compiled_as(name: &str, dialect: Dialect, text: &[u8]) -> Config {
    let world = Memory::default()
        .with_env("HOME", "/user")
        .with_env("A", "1")
        .with_file("/ws/.env", "A=2\nB='two words'\n")
        .with_file(format!("/ws/{name}"), text);
    let named = Named { path: name.into(), dialect: Some(dialect) };
    let workspace = Workspace { root: "/ws".into(), home: None, named: Some(named) };
    compile(&workspace, &world)
}

/// A problem says whose file it is, where in it, and what to do.
fn check_problem(problem: &Problem, file: &str, text: &[u8]) {
    assert!(problem.source.is_some(), "{problem:?}");
    assert!(problem.fix.is_some(), "{problem:?}");
    assert!(!problem.text.is_empty(), "{problem:?}");
    let (Some(line), Some(column)) = (problem.line, problem.column) else {
        return;
    };
    if problem.source.as_deref() != Some(file) {
        return;
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let text = String::from_utf8_lossy(text);
    let found = text.split('\n').nth(line as usize - 1);
    let width = found.map(|line| line.chars().count());
    assert!(
        width.is_some_and(|width| column >= 1 && column as usize <= width + 1),
        "{problem:?} is outside of the text"
    );
}

/// A server that was accepted can be written down in native form, and that form is the same server.
fn check_server(server: &ServerSpec) {
    let native = server.native(Show::Revealed);
    assert!(!native.is_empty());
    let mut file = json!({ "version": 1, "servers": {} });
    file["servers"][&server.id] = native.into();
    let text = file.to_string();
    let again = compiled_as("again.json", Dialect::Native, text.as_bytes());
    let [same] = again.servers.as_slice() else {
        panic!("not read back: {text}\n{:?}", again.problems);
    };
    assert_eq!(same.hash, server.hash, "another server was read back: {text}");
}

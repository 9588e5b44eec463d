//! Checks the invariants of every compiled configuration for arbitrary input.

use serde_json::json;
use toolcrib_config::model::setting::SecretVisibility;
use toolcrib_config::{
    Config, ConfigFile, Dialect, MemoryLookup, Problem, ServerSpec, Workspace, compile,
};

/// Compiles `text` as one file and checks every problem and server of the result.
pub fn check(dialect: Dialect, text: &[u8]) {
    let (name, config) = compile_text(dialect, text);
    for problem in &config.problems {
        check_problem(problem, &name, text);
    }
    for server in &config.servers {
        check_server(server);
    }
    assert!(
        !config.servers.is_empty() || !config.problems.is_empty() || config.rejected.is_empty(),
        "a server was rejected without a problem"
    );
}

fn compile_text(dialect: Dialect, text: &[u8]) -> (String, Config) {
    let name = match dialect {
        Dialect::Codex => "file.toml",
        Dialect::Dominds => ".minds/mcp.yaml",
        Dialect::Native | Dialect::Holodeck | Dialect::Minion | Dialect::Docker => "file.yaml",
        _ => "file.json",
    };
    (name.to_string(), compile_file(name, dialect, text))
}

fn compile_file(name: &str, dialect: Dialect, text: &[u8]) -> Config {
    let lookup = MemoryLookup::default()
        .with_env("HOME", "/user")
        .with_env("A", "1")
        .with_file("/ws/.env", "A=2\nB='two words'\n")
        .with_file(format!("/ws/{name}"), text);
    let config_file = ConfigFile { path: name.into(), dialect: Some(dialect) };
    let workspace = Workspace { root: "/ws".into(), home: None, config_file: Some(config_file) };
    compile(&workspace, &lookup)
}

/// Checks that a problem names its file, location and fix.
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
        "{problem:?} has a location outside of the text"
    );
}

/// Checks that an accepted server can be written in native form and reads back as the same server.
fn check_server(server: &ServerSpec) {
    let native = server.native(SecretVisibility::Revealed);
    assert!(!native.is_empty());
    let mut file = json!({ "version": 1, "servers": {} });
    file["servers"][&server.id] = native.into();
    let text = file.to_string();
    let recompiled = compile_file("again.json", Dialect::Native, text.as_bytes());
    let [same] = recompiled.servers.as_slice() else {
        panic!("the native form was not read back: {text}\n{:?}", recompiled.problems);
    };
    assert_eq!(same.hash, server.hash, "a different server was read back: {text}");
}

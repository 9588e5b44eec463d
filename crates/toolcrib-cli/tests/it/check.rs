//! `toolcrib check`.

use serde_json::Value as Json;

use crate::Place;

const WRONG: &str = r#"version: 1
servers:
  files: { comand: npx, args: ["-y"] }
  docs:
    url: https://example.com/mcp
    headers: { Authorization: "Bearer ${DOCS_TOKEN}" }
  slow: { command: slow-server, timeouts: { request: 5 } }
  good: { command: good-server }
"#;

#[test]
fn problems_read_like_a_compilers() {
    let ran = Place::new().file("toolcrib.yaml", WRONG).run(&["check"]);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(ran.out);
    assert_eq!(ran.err, "2 servers in 1 file: 3 errors, 1 warning\n");
}

#[test]
fn json_has_the_contracts_fields() {
    let ran = Place::new().file("toolcrib.yaml", WRONG).run(&["check", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let json: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["ok"], false);
    let problem =
        &json["problems"].as_array().unwrap().iter().find(|p| p["code"] == "env.missing").unwrap();
    let fields: Vec<&str> = problem.as_object().unwrap().keys().map(String::as_str).collect();
    let contract = [
        "id", "code", "severity", "source", "line", "column", "server", "tool", "agent", "text",
        "fix",
    ];
    assert_eq!(fields, contract);
    assert_eq!(problem["severity"], "error");
    assert_eq!(problem["source"], "toolcrib.yaml");
    assert_eq!((problem["line"].as_u64(), problem["column"].as_u64()), (Some(6), Some(31)));
    assert_eq!(problem["server"], "docs");
    assert_eq!(problem["tool"], Json::Null);
}

#[test]
fn a_good_configuration_is_quiet() {
    let place = Place::new().file("toolcrib.yaml", "version: 1\nservers: { a: { command: x } }\n");
    let ran = place.run(&["check"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "1 server in 1 file: no problems\n")
    );
    let ran = place.run(&["check", "-q"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    let ran = place.run(&["check", "--json"]);
    assert_eq!(
        serde_json::from_str::<Json>(&ran.out).unwrap(),
        serde_json::json!({"ok": true, "problems": []})
    );
}

#[test]
fn dom_02_no_configuration_is_no_problem() {
    let ran = Place::new().run(&["check"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert_eq!(
        ran.err,
        "no configuration in TMP/ws; `toolcrib import` takes over other clients' servers\n"
    );
}

#[test]
fn dom_01_the_root_is_where_the_file_is_looked_for() {
    let place = Place::new().file(
        "deep/.minds/mcp.yaml",
        "version: 1\nservers: { a: { transport: stdio, command: x } }\n",
    );
    assert_eq!(place.run(&["check", "--root", "deep"]).err, "1 server in 1 file: no problems\n");
    assert!(place.run(&["check"]).err.starts_with("no configuration"));
}

#[test]
fn a_named_file_needs_a_dialect_where_its_place_does_not_tell() {
    let place = Place::new().file("mine.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    let ran = place.run(&["check", "--config", "mine.json"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("dialect.unknown"), "{}", ran.out);
    let ran = place.run(&["check", "--config", "mine.json", "--dialect", "claude"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "1 server in 1 file: no problems\n"));
    let ran = place.run(&["check", "--config", "gone.json", "--dialect", "claude"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("file.missing"), "{}", ran.out);
}

#[test]
fn hol_04_a_holodeck_file_that_fails_ends_with_one() {
    let agent = "tools:\n  - { name: t, description: d, type: mcp, server: '  ', command: npx }\n";
    let ran = Place::new().file("agent.yaml", agent).run(&["check"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains("ValidationError: 'server' must be a non-empty identifier"),
        "{}",
        ran.out
    ); // HOL-04
}

#[test]
fn a_pipe_or_a_folder_in_place_of_the_file_is_a_problem_and_no_wait() {
    let place = Place::new().file("toolcrib.yaml/inside", "");
    let ran = place.run(&["check"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("file.unreadable"), "{}", ran.out);
}

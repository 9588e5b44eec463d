//! Tests `toolcrib check`.

use serde_json::Value as Json;

use crate::TestWorkspace;

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
fn problem_report_matches_compiler_style() {
    let ran = TestWorkspace::new().with_file("toolcrib.yaml", WRONG).run(&["check"]);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(ran.out);
    assert_eq!(ran.err, "2 servers in 1 file: 3 errors, 1 warning\n");
}

#[test]
fn json_output_has_contract_fields() {
    let ran = TestWorkspace::new().with_file("toolcrib.yaml", WRONG).run(&["check", "--json"]);
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
fn valid_configuration_reports_no_problems() {
    let workspace = TestWorkspace::new()
        .with_file("toolcrib.yaml", "version: 1\nservers: { a: { command: x } }\n");
    let ran = workspace.run(&["check"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "1 server in 1 file: no problems\n")
    );
    let ran = workspace.run(&["check", "-q"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    let ran = workspace.run(&["check", "--json"]);
    assert_eq!(
        serde_json::from_str::<Json>(&ran.out).unwrap(),
        serde_json::json!({"ok": true, "problems": []})
    );
}

#[test]
fn dom_02_missing_configuration_reports_no_problems() {
    let ran = TestWorkspace::new().run(&["check"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert_eq!(
        ran.err,
        "no configuration in TMP/ws; `toolcrib import` takes over other clients' servers\n"
    );
}

#[test]
fn dom_01_configuration_file_is_read_from_root() {
    let workspace = TestWorkspace::new().with_file(
        "deep/.minds/mcp.yaml",
        "version: 1\nservers: { a: { transport: stdio, command: x } }\n",
    );
    assert_eq!(
        workspace.run(&["check", "--root", "deep"]).err,
        "1 server in 1 file: no problems\n"
    );
    assert!(workspace.run(&["check"]).err.starts_with("no configuration"));
}

#[test]
fn named_file_outside_known_paths_needs_dialect() {
    let workspace =
        TestWorkspace::new().with_file("mine.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    let ran = workspace.run(&["check", "--config", "mine.json"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("dialect.unknown"), "{}", ran.out);
    let ran = workspace.run(&["check", "--config", "mine.json", "--dialect", "claude"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "1 server in 1 file: no problems\n"));
    let ran = workspace.run(&["check", "--config", "gone.json", "--dialect", "claude"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("file.missing"), "{}", ran.out);
}

#[test]
fn hol_04_invalid_holodeck_file_exits_with_one() {
    let agent = "tools:\n  - { name: t, description: d, type: mcp, server: '  ', command: npx }\n";
    let ran = TestWorkspace::new().with_file("agent.yaml", agent).run(&["check"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains("ValidationError: 'server' must be a non-empty identifier"),
        "{}",
        ran.out
    ); // HOL-04
}

#[test]
fn folder_in_place_of_configuration_file_is_reported_without_blocking() {
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml/inside", "");
    let ran = workspace.run(&["check"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("file.unreadable"), "{}", ran.out);
}

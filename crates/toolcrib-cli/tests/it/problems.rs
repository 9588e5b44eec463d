//! Tests `toolcrib problems`: the problems of a host, and the explanation of a code.

use serde_json::{Value, json};

use crate::TestWorkspace;

const BAD_SERVER: &str =
    r#"{"version": 1, "servers": {"gone": {"command": "no-such-program-here"}}}"#;

fn explain(code: &str, json: bool) -> crate::CommandOutput {
    let args = ["problems", "--explain", code, "--json"];
    TestWorkspace::new().run(if json { &args } else { &args[..3] })
}

#[test]
fn code_is_explained_without_configuration() {
    let ran = explain("env.missing", false);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines,
        [
            "env.missing (error)",
            "A value refers to an environment variable that is not set.",
            "",
            "Example: `\"Bearer ${DOCS_TOKEN}\"` while `DOCS_TOKEN` is not set",
            "Fix:     Set the variable, or write a default: `${DOCS_TOKEN:-none}`.",
        ]
    );
}

#[test]
fn explanation_is_printed_as_json() {
    let ran = explain("env.missing", true);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let entry: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&entry["code"], &entry["severity"]), (&json!("env.missing"), &json!("error")));
    for key in ["cause", "example", "fix"] {
        assert!(entry[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {entry}");
    }
}

#[test]
fn unknown_code_is_a_usage_error_with_similar_codes() {
    for json in [false, true] {
        let ran = explain("env.mising", json);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains("there is no problem code `env.mising`"), "{ran:?}");
        let (_, similar) = ran.err.split_once("similar codes: ").unwrap();
        assert!(similar.trim_end().split(", ").any(|code| code == "env.missing"), "{ran:?}");
    }
    let ran = explain("x", false);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("docs/problems.md lists all codes"), "{ran:?}");
}

#[test]
fn problems_of_a_failed_server_are_listed() {
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", BAD_SERVER);
    let ran = workspace.run(&["problems"]);
    // The severity depends on the retries that are left; only an error fails the command.
    assert_eq!(ran.code, i32::from(ran.out.contains("error[")), "{ran:?}");
    assert!(ran.out.contains("[stdio.spawn.not_found]"), "{ran:?}");
    assert!(ran.out.contains("server `gone`"), "{ran:?}");
    assert!(ran.err.starts_with("1 "), "{ran:?}");

    let ran = workspace.run(&["problems", "--json"]);
    let listed: Value = serde_json::from_str(&ran.out).unwrap();
    let problems = listed["problems"].as_array().unwrap();
    let found = problems.iter().find(|problem| problem["code"] == "stdio.spawn.not_found").unwrap();
    assert_eq!(found["server"], "gone");
    assert_eq!(ran.code, i32::from(found["severity"] == "error"), "{ran:?}");
}

#[test]
fn workspace_without_problems_succeeds() {
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", r#"{"version": 1}"#);
    let ran = workspace.run(&["problems"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert!(ran.err.contains("no problems"), "{ran:?}");
}

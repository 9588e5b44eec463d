//! Tests `toolcrib explain`.

use serde_json::Value as Json;

use crate::TestWorkspace;

const FILE: &str = r#"version: 1
servers:
  files:
    command: files-server
    args: [--root, .]
    env: { LEVEL: debug-canary, TOKEN: "${TOKEN}" }
  docs: { url: "https://example.com/mcp", headers: { X-Key: header-canary } }
"#;

fn workspace() -> TestWorkspace {
    TestWorkspace::new().with_file("toolcrib.yaml", FILE)
}

#[test]
fn explain_shows_every_value_with_its_origin() {
    let ran = workspace().run_with_env(&["explain", "files"], &[("TOKEN", "t")]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    insta::assert_snapshot!(ran.out);
}

#[test]
fn explain_masks_literals_and_reveal_round_trips() {
    let workspace = workspace();
    let env = [("TOKEN", "t")];
    let masked = workspace.run_with_env(&["explain"], &env);
    let json = workspace.run_with_env(&["explain", "--json"], &env);
    for shown in [&masked.out, &json.out] {
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("***"));
    }
    let revealed = workspace.run_with_env(&["explain", "--reveal"], &env);
    assert!(revealed.out.contains("debug-canary") && revealed.out.contains("header-canary"));
    let again = TestWorkspace::new().with_file("toolcrib.yaml", &revealed.out);
    let again = again.run_with_env(&["explain", "--reveal", "--json"], &env);
    let first = workspace.run_with_env(&["explain", "--reveal", "--json"], &env);
    let config = |ran: &crate::CommandOutput| {
        serde_json::from_str::<Json>(&ran.out).unwrap()["config"].clone()
    };
    assert_eq!(config(&again), config(&first));
}

#[test]
fn unknown_server_error_lists_known_servers() {
    let ran = workspace().run_with_env(&["explain", "fils"], &[("TOKEN", "t")]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "error: there is no server `fils`; there are files, docs\n");
}

#[test]
fn invalid_server_is_explained_with_its_problems() {
    let workspace = TestWorkspace::new()
        .with_file("toolcrib.yaml", "version: 1\nservers: { a: { url: 'ftp://x' } }\n");
    let ran = workspace.run(&["explain", "a"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("url.scheme"), "{}", ran.out);
}

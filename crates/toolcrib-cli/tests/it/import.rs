//! Tests `toolcrib import`.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value as Json;

use crate::TestWorkspace;

const CURSOR: &str = r#"{"mcpServers": {
  "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "abc"}, "wobble": 1},
  "bad": {"args": 3}
}}"#;
const VSCODE: &str = r#"{
  // comments are fine here
  "inputs": [{"id": "key", "type": "promptString", "password": true, "description": "API key"}],
  "servers": {"web": {"type": "http", "url": "https://x.test/mcp", "headers": {"Authorization": "Bearer ${input:key}"}}}
}"#;

fn workspace() -> TestWorkspace {
    TestWorkspace::new()
        .with_file("~/.cursor/mcp.json", CURSOR)
        .with_file(".vscode/mcp.json", VSCODE)
}

#[test]
fn import_merges_servers_of_all_clients_into_valid_file() {
    let workspace = workspace();
    let ran = workspace.run(&["import"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    insta::assert_snapshot!(workspace.redact_folder(&workspace.read("toolcrib.yaml")));
    assert!(ran.out.contains("not carried over: `wobble` of "), "{}", ran.out);
    assert!(
        ran.out.contains("not carried over: server TMP/home/.cursor/mcp.json#bad"),
        "{}",
        ran.out
    );
    assert_eq!(ran.err, "wrote 2 servers to TMP/ws/toolcrib.yaml\n");
    let mode =
        std::fs::metadata(workspace.root().join("toolcrib.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the file may contain secrets");
    assert_eq!(workspace.run(&["check"]).err, "2 servers in 1 file: no problems\n");
}

#[test]
fn existing_file_is_kept_or_backed_up() {
    let workspace = workspace().with_file("toolcrib.yaml", "version: 1 # mine\n");
    let ran = workspace.run(&["import"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("--force"), "{}", ran.err);
    assert_eq!(workspace.read("toolcrib.yaml"), "version: 1 # mine\n");
    let ran = workspace.run(&["import", "--force"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(workspace.read("toolcrib.yaml.bak"), "version: 1 # mine\n");
    let ran = workspace.run(&["import", "--force", "--json"]);
    let json: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        workspace.redact_folder(json["backup"].as_str().unwrap()),
        "TMP/ws/toolcrib.yaml.bak.1"
    );
    assert_eq!(json["servers"].as_array().unwrap().len(), 2);
    assert_eq!(json["lost"].as_array().unwrap().len(), 2);
}

#[test]
fn import_of_one_client_writes_user_file() {
    let workspace = workspace();
    let ran = workspace.run(&["import", "cursor", "--user"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let own =
        std::fs::read_to_string(workspace.home().join(".config/toolcrib/toolcrib.yaml")).unwrap();
    assert!(own.contains("git:") && !own.contains("web:"), "{own}");
    assert!(!workspace.root().join("toolcrib.yaml").exists());
    assert_eq!(workspace.run(&["check"]).err, "1 server in 1 file: no problems\n");
}

#[test]
fn import_without_servers_fails_and_writes_no_file() {
    let workspace = TestWorkspace::new();
    let ran = workspace.run(&["import"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "error: no servers were found in the files of other clients\n")
    );
    assert!(!workspace.root().join("toolcrib.yaml").exists());
}

#[test]
fn readme_shows_import_output() {
    let workspace = TestWorkspace::new()
        .with_file("~/.cursor/mcp.json", r#"{"mcpServers": {"git": {"command": "git-mcp"}}}"#);
    let ran = workspace.run(&["import"]);
    let printed = format!("{}{}", ran.out, ran.err);
    let printed = printed.replace("TMP/home", "/home/you").replace("TMP/ws", "/home/you/shop");
    let readme = toolcrib_testkit::workspace_root().join("README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let shown = readme.split("$ toolcrib import").nth(1).unwrap();
    let shown = shown.split_once('\n').unwrap().1.split("\n\n").next().unwrap();
    assert_eq!(printed.trim_end(), shown);
}

#[test]
fn import_skips_toolcrib_entry() {
    let workspace = workspace();
    for args in [&["connect", "cursor"][..], &["connect", "claude-code", "--http"]] {
        assert_eq!(workspace.run(args).code, 0);
    }
    let ran = workspace.run(&["import"]);
    assert_eq!(ran.err, "wrote 2 servers to TMP/ws/toolcrib.yaml\n", "{ran:?}");
    assert!(
        !workspace.read("toolcrib.yaml").contains("toolcrib:"),
        "{}",
        workspace.read("toolcrib.yaml")
    );
}

//! `toolcrib import`.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value as Json;

use crate::Place;

const CURSOR: &str = r#"{"mcpServers": {
  "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "abc"}, "wobble": 1},
  "bad": {"args": 3}
}}"#;
const VSCODE: &str = r#"{
  // comments are fine here
  "inputs": [{"id": "key", "type": "promptString", "password": true, "description": "API key"}],
  "servers": {"web": {"type": "http", "url": "https://x.test/mcp", "headers": {"Authorization": "Bearer ${input:key}"}}}
}"#;

fn place() -> Place {
    Place::new().file("~/.cursor/mcp.json", CURSOR).file(".vscode/mcp.json", VSCODE)
}

#[test]
fn the_servers_of_all_clients_become_one_file_that_checks() {
    let place = place();
    let ran = place.run(&["import"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    insta::assert_snapshot!(place.plain(&place.read("toolcrib.yaml")));
    assert!(ran.out.contains("not carried over: `wobble` of "), "{}", ran.out);
    assert!(
        ran.out.contains("not carried over: server TMP/home/.cursor/mcp.json#bad"),
        "{}",
        ran.out
    );
    assert_eq!(ran.err, "wrote 2 servers to TMP/ws/toolcrib.yaml\n");
    let mode = std::fs::metadata(place.root().join("toolcrib.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it may hold secrets");
    assert_eq!(place.run(&["check"]).err, "2 servers in 1 file: no problems\n");
}

#[test]
fn an_existing_file_is_kept_or_copied_first() {
    let place = place().file("toolcrib.yaml", "version: 1 # mine\n");
    let ran = place.run(&["import"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("--force"), "{}", ran.err);
    assert_eq!(place.read("toolcrib.yaml"), "version: 1 # mine\n");
    let ran = place.run(&["import", "--force"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(place.read("toolcrib.yaml.bak"), "version: 1 # mine\n");
    let ran = place.run(&["import", "--force", "--json"]);
    let json: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(place.plain(json["backup"].as_str().unwrap()), "TMP/ws/toolcrib.yaml.bak.1");
    assert_eq!(json["servers"].as_array().unwrap().len(), 2);
    assert_eq!(json["lost"].as_array().unwrap().len(), 2);
}

#[test]
fn one_client_alone_and_a_persons_own_file() {
    let place = place();
    let ran = place.run(&["import", "cursor", "--user"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let own = std::fs::read_to_string(place.home().join(".config/toolcrib/toolcrib.yaml")).unwrap();
    assert!(own.contains("git:") && !own.contains("web:"), "{own}");
    assert!(!place.root().join("toolcrib.yaml").exists());
    assert_eq!(place.run(&["check"]).err, "1 server in 1 file: no problems\n");
}

#[test]
fn nothing_found_is_said_and_nothing_is_written() {
    let place = Place::new();
    let ran = place.run(&["import"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "error: no servers were found in the files of other clients\n")
    );
    assert!(!place.root().join("toolcrib.yaml").exists());
}

#[test]
fn the_readme_shows_what_is_printed() {
    let place = Place::new()
        .file("~/.cursor/mcp.json", r#"{"mcpServers": {"git": {"command": "git-mcp"}}}"#);
    let ran = place.run(&["import"]);
    let printed = format!("{}{}", ran.out, ran.err);
    let printed = printed.replace("TMP/home", "/home/you").replace("TMP/ws", "/home/you/shop");
    let readme = toolcrib_testkit::workspace_root().join("README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let shown = readme.split("$ toolcrib import").nth(1).unwrap();
    let shown = shown.split_once('\n').unwrap().1.split("\n\n").next().unwrap();
    assert_eq!(printed.trim_end(), shown);
}

#[test]
fn toolcrib_itself_is_not_taken_over() {
    let place = place();
    for args in [&["connect", "cursor"][..], &["connect", "claude-code", "--http"]] {
        assert_eq!(place.run(args).code, 0);
    }
    let ran = place.run(&["import"]);
    assert_eq!(ran.err, "wrote 2 servers to TMP/ws/toolcrib.yaml\n", "{ran:?}");
    assert!(!place.read("toolcrib.yaml").contains("toolcrib:"), "{}", place.read("toolcrib.yaml"));
}

//! Tests Minion's client configuration, from the file to the call.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, server_binary};

use super::{parse_json, server};
use crate::{CommandOutput, TestWorkspace};

const FLAGS: [&str; 4] = ["--config", "minion.json", "--dialect", "minion"];

fn workspace(servers: &Value) -> TestWorkspace {
    TestWorkspace::new().with_file("minion.json", &json!({"servers": servers}).to_string())
}

fn run(workspace: &TestWorkspace, args: &[&str]) -> CommandOutput {
    let args: Vec<&str> = args.iter().copied().chain(FLAGS).collect();
    workspace.run(&args)
}

fn listed(workspace: &TestWorkspace, what: &str) -> Value {
    parse_json(&run(workspace, &[what, "--json"]))
}

/// A scripted server with this name and additional keys.
fn entry(name: &str, keys: &Value) -> Value {
    let mut entry = json!({"ServerName": name, "Transport": "stdio", "Command": server_binary().unwrap(),
        "Args": [Script::default().to_json()]});
    for (key, value) in keys.as_object().unwrap() {
        entry[key] = value.clone();
    }
    entry
}

#[test]
fn min_09_every_field_is_read_and_secrets_are_masked() {
    let workspace = workspace(&json!([
        entry("local", &json!({"Description": "Files", "Env": {"A": "canary-env"}, "WorkingDir": "sub",
            "URL": "", "AuthType": "none", "AuthConfig": null, "Capabilities": ["tools"],
            "ConnectTimeout": "7s", "RequestTimeout": "1m30s"})),
        {"ServerName": "far", "Transport": "http", "URL": "http://127.0.0.1:1/mcp", "AuthType": "bearer",
            "AuthConfig": {"Token": "canary-token"}},
    ]))
    .with_file("sub/x", "");
    let status = listed(&workspace, "servers");
    let local = server(&status, "local");
    assert_eq!((&local["state"], &local["transport"]), (&json!("ready"), &json!("stdio")));
    assert_eq!(server(&status, "far")["transport"], "streamable_http");
    let shown = run(&workspace, &["explain", "--json"]);
    let (all, text) = (parse_json(&shown), format!("{status}{}", shown.out));
    let local = &all["config"]["servers"]["local"];
    assert_eq!(local["description"], "Files"); // MIN-09
    assert_eq!(local["transport"]["command"], json!(server_binary().unwrap()));
    assert_eq!(local["transport"]["args"].as_array().unwrap().len(), 1);
    assert!(local["transport"]["cwd"].as_str().unwrap().ends_with("sub"));
    assert_eq!(local["init"]["require_server"], json!(["tools"]));
    assert_eq!(
        (&local["timeouts"]["connect"], &local["timeouts"]["request"]),
        (&json!("7s"), &json!("90s"))
    );
    assert_eq!(all["config"]["servers"]["far"]["transport"]["url"], "http://127.0.0.1:1/mcp");
    assert!(!text.contains("canary"), "{text}"); // MIN-09
    let report = run(&workspace, &["call", "mcp_local_env", "--raw"]);
    assert!(report.out.contains("canary-env") && report.out.contains("ws/sub"), "{report:?}");
}

#[test]
fn min_10_and_11_invalid_transport_or_missing_key_is_rejected() {
    for (entry, text) in [
        (
            json!({"ServerName": "s", "Transport": "pigeon", "Command": "x"}),
            "unsupported transport: pigeon",
        ), // MIN-10
        (json!({"ServerName": "s", "Transport": "stdio"}), "no `command`"), // MIN-11
        (json!({"ServerName": "s", "Transport": "http"}), "no `url`"),      // MIN-11
    ] {
        let workspace = workspace(&json!([entry]));
        let ran = run(&workspace, &["tools", "--json"]);
        let listed = parse_json(&ran);
        assert_eq!((ran.code, &listed["tools"]), (1, &json!([])), "{ran:?}");
        let problem = &listed["problems"][0];
        assert_eq!(problem["server"], "s");
        let report = problem["text"].as_str().unwrap();
        assert!(report.contains(text), "{report}"); // MIN-10, MIN-11
        let status = super::parse_json(&run(&workspace, &["servers", "--json"]));
        assert_eq!(status["servers"], json!([]), "no server is started");
    }
}

#[test]
fn min_12_both_url_keys_are_accepted() {
    for key in ["URL", "HTTPUrl"] {
        let mut entry = json!({"ServerName": "far", "Transport": "http"});
        entry[key] = json!("http://127.0.0.1:1/mcp");
        let workspace = workspace(&json!([entry]));
        assert_eq!(server(&listed(&workspace, "servers"), "far")["transport"], "streamable_http"); // MIN-12
        let shown = parse_json(&run(&workspace, &["explain", "far", "--json"]));
        assert_eq!(shown["server"]["transport"]["url"], "http://127.0.0.1:1/mcp"); // MIN-12
    }
}

#[test]
fn min_19_status_lists_missing_capabilities() {
    let wants = json!([entry("s", &json!({"Capabilities": ["tools", "telepathy"]}))]);
    let status = listed(&workspace(&wants), "servers");
    assert_eq!(server(&status, "s")["missing_capabilities"], json!(["telepathy"])); // MIN-19
    let ran = run(&workspace(&wants), &["servers"]);
    assert!(ran.err.contains("server `s` lacks required capabilities: telepathy"), "{ran:?}");
}

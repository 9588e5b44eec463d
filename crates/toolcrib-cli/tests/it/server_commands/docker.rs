//! Tests the node configuration of the Docker platform.

use serde_json::json;

use super::{parse_json, server};
use crate::TestWorkspace;

#[test]
fn dkr_11_complete_entry_is_read() {
    let file = json!({"mcpServers": [{
        "namespace": "crm",
        "image": "registry.example.com/crm-mcp:1.4",
        "command": "crm-mcp --stdio",
        "env": {"MODE": "canary"},
        "requestTimeoutMs": 1500,
        "startupTimeoutMs": 2000,
        "restart": {"maxAttempts": 1, "backoffMs": 10},
    }]});
    let workspace = TestWorkspace::new().with_file("node.json", &file.to_string());
    // No engine listens at this address, so the server is listed but unreachable.
    let engine = format!("unix://{}", workspace.sibling_path("no.sock").display());
    let env = [("DOCKER_HOST", engine.as_str())];
    let flags = ["--config", "node.json", "--dialect", "docker", "--json"];
    let run = |command: &[&str]| {
        let args: Vec<&str> = command.iter().copied().chain(flags).collect();
        workspace.run_with_env(&args, &env)
    };
    let listed = parse_json(&run(&["servers"]));
    let crm = server(&listed, "crm");
    assert_eq!((&crm["transport"], &crm["dialect"]), (&json!("docker_exec"), &json!("docker")));
    assert!(["backoff", "failed"].contains(&crm["state"].as_str().unwrap()), "{crm:#}");
    assert!(crm["last_error"].is_string());
    let shown = parse_json(&run(&["explain", "crm"]));
    let (transport, policy) = (&shown["server"]["transport"], &shown["server"]);
    assert_eq!(transport["image"], "registry.example.com/crm-mcp:1.4"); // DKR-11
    assert_eq!(transport["command"], "crm-mcp --stdio"); // DKR-11
    assert_eq!(transport["env"]["set"]["MODE"], "***"); // DKR-11
    assert_eq!(policy["timeouts"]["request"], "1500ms");
    assert_eq!(policy["lifecycle"]["retry"]["initial"], "10ms"); // DKR-11
    assert_eq!(run(&["tools"]).code, 3);
}

//! Tests real servers behind one gateway.

use serde_json::{Value, json};
use toolcrib_testkit::{command, peers};

use super::{python_script, run_client_script};
use crate::TestWorkspace;
use crate::test_gateway::TestGateway;

#[tokio::test]
async fn six_servers_work_for_legacy_client() {
    check_six_servers("legacy").await;
}

#[tokio::test]
async fn six_servers_work_for_modern_client() {
    check_six_servers("auto").await;
}

async fn check_six_servers(mode: &str) {
    let gateway = TestGateway::start(workspace()).await;
    let folder = gateway.workspace.root().to_str().unwrap().to_owned();
    let client = python_script("servers_client.py", mode);
    run_client_script(&client, &[folder, gateway.url("/mcp")], &gateway.workspace).await;
    gateway.stop().await;
}

/// A workspace with data for every server.
fn workspace() -> TestWorkspace {
    let workspace = TestWorkspace::new();
    let folder = workspace.root();
    let repository = folder.join("repository");
    command::run_command("git", &["init", "-q", repository.to_str().unwrap()], &folder).unwrap();
    let mut memory = npm("mcp-server-memory", &json!([]));
    memory["env"] = json!({"MEMORY_FILE_PATH": folder.join("memory.jsonl")});
    let servers = json!({
        "everything": npm("mcp-server-everything", &json!(["stdio"])),
        "filesystem": npm("mcp-server-filesystem", &json!([folder])),
        "memory": memory,
        "thinking": npm("mcp-server-sequential-thinking", &json!([])),
        "time": pypi("mcp-server-time", &json!(["--local-timezone", "UTC"])),
        "git": pypi("mcp-server-git", &json!(["--repository", repository])),
    });
    workspace
        .with_file("toolcrib.yaml", &json!({"version": 1, "servers": servers}).to_string())
        .with_file("note.txt", "every tool in its place")
        .with_file("repository/new.txt", "new")
}

fn npm(binary: &str, args: &Value) -> Value {
    let package = binary.replace("mcp-server-", "@modelcontextprotocol/server-");
    with_eager_connect(
        json!({"command": peers::npm_program(&package, binary).unwrap(), "args": args}),
    )
}

fn pypi(package: &str, args: &Value) -> Value {
    with_eager_connect(
        json!({"command": peers::python_program("v2", package, package).unwrap(), "args": args}),
    )
}

/// Connects eagerly, so that the first list is complete.
fn with_eager_connect(mut entry: Value) -> Value {
    entry["lifecycle"] = json!({"connect": "eager"});
    entry["timeouts"] = json!({"startup": "60s"});
    entry
}

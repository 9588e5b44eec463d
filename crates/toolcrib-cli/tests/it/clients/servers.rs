//! Real servers behind the gateway, all at once.

use serde_json::{Value, json};
use toolcrib_testkit::{ask, peers};

use super::{python_script, talk};
use crate::Place;
use crate::serving::Serving;

#[tokio::test]
async fn six_servers_work_for_a_client_of_the_legacy_era() {
    work("legacy").await;
}

#[tokio::test]
async fn six_servers_work_for_a_client_of_the_modern_era() {
    work("auto").await;
}

async fn work(mode: &str) {
    let gateway = Serving::start(place()).await;
    let folder = gateway.place.root().to_str().unwrap().to_owned();
    let client = python_script("servers_client.py", mode);
    talk(&client, &[folder, gateway.at("/mcp")], &gateway.place).await;
    gateway.end().await;
}

/// A workspace with something for each of them to work on.
fn place() -> Place {
    let place = Place::new();
    let folder = place.root();
    let repository = folder.join("repository");
    ask::ask("git", &["init", "-q", repository.to_str().unwrap()], &folder).unwrap();
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
    place
        .file("toolcrib.yaml", &json!({"version": 1, "servers": servers}).to_string())
        .file("note.txt", "every tool in its place")
        .file("repository/new.txt", "new")
}

fn npm(binary: &str, args: &Value) -> Value {
    let package = binary.replace("mcp-server-", "@modelcontextprotocol/server-");
    eager(json!({"command": peers::npm(&package, binary).unwrap(), "args": args}))
}

fn pypi(package: &str, args: &Value) -> Value {
    eager(json!({"command": peers::python("v2", package, package).unwrap(), "args": args}))
}

/// So that the first list has everything.
fn eager(mut entry: Value) -> Value {
    entry["lifecycle"] = json!({"connect": "eager"});
    entry["timeouts"] = json!({"startup": "60s"});
    entry
}

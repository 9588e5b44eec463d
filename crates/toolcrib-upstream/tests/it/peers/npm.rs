//! Servers of npm on the TypeScript SDK that have a work of their own. None of them is slow or asks a person.

use serde_json::{Value, json};
use toolcrib_testkit::peers;

use super::{Guest, scene};
use crate::scene::until;

fn entry(binary: &str, args: &[&str]) -> Value {
    let package = binary.replace("mcp-server-", "@modelcontextprotocol/server-");
    json!({"command": peers::npm(&package, binary).unwrap(), "args": args})
}

#[tokio::test]
async fn the_filesystem_server_works_in_the_roots_that_it_asks_for() {
    let scene = scene();
    std::fs::write(scene.path().join("note.txt"), "every tool in its place").unwrap();
    let note = scene.path().join("note.txt");
    let elsewhere = tempfile::tempdir().unwrap();
    let args = [elsewhere.path().to_str().unwrap()];
    let guest = Guest::meet(scene, &entry("mcp-server-filesystem", &args), json!({})).await;
    assert_eq!(guest.offers(), ("2025-11-25", [14, 0, 0, 0]));
    guest.was_asked("roots/list").await;
    // It asks after the handshake and does not say when it has taken the answer.
    let root = guest.scene.path().to_str().unwrap().to_owned();
    guest.until_it_says("list_allowed_directories", |allowed| allowed.contains(&root)).await;
    let read = json!({"path": note});
    guest.drop_at_once("read_text_file", &read).await;
    assert_eq!(guest.say("read_text_file", read).await, "every tool in its place");
    let outside = guest.call("read_text_file", json!({"path": "/etc/hostname"})).await;
    assert_eq!(outside["isError"], true, "{outside}");
    guest.part().await;
}

#[tokio::test]
async fn the_memory_server_keeps_what_it_is_told() {
    let scene = scene();
    let mut entry = entry("mcp-server-memory", &[]);
    entry["env"] = json!({"MEMORY_FILE_PATH": scene.path().join("memory.jsonl")});
    let guest = Guest::meet(scene, &entry, json!({})).await;
    assert_eq!(guest.offers(), ("2025-11-25", [9, 0, 1, 0]));
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["counts"]});
    guest.call("create_entities", json!({"entities": [ada]})).await;
    guest.drop_at_once("read_graph", &json!({})).await;
    let graph = guest.call("read_graph", json!({})).await;
    assert_eq!(graph["structuredContent"]["entities"], json!([ada]));
    guest.part().await;
}

#[tokio::test]
async fn the_sequential_thinking_server_counts_thoughts() {
    let guest =
        Guest::meet(scene(), &entry("mcp-server-sequential-thinking", &[]), json!({})).await;
    assert_eq!(guest.offers(), ("2025-11-25", [1, 0, 0, 0]));
    let thought = json!({"thought": "first", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": true});
    guest.drop_at_once("sequentialthinking", &thought).await;
    let told = guest.call("sequentialthinking", thought).await;
    assert_eq!(told["structuredContent"]["thoughtNumber"], 1, "{told}");
    until("quiet", || guest.session().peer().in_flight() == 0).await;
    guest.part().await;
}

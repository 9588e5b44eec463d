//! npm servers on the TypeScript SDK. None of them is slow or sends elicitations.

use serde_json::{Value, json};
use toolcrib_testkit::peers;

use super::{ThirdPartyServer, host};
use crate::test_host::wait_until;

fn entry(binary: &str, args: &[&str]) -> Value {
    let package = binary.replace("mcp-server-", "@modelcontextprotocol/server-");
    json!({"command": peers::npm_program(&package, binary).unwrap(), "args": args})
}

#[tokio::test]
async fn filesystem_server_works_in_the_requested_roots() {
    let host = host();
    std::fs::write(host.path().join("note.txt"), "every tool in its place").unwrap();
    let note = host.path().join("note.txt");
    let elsewhere = tempfile::tempdir().unwrap();
    let args = [elsewhere.path().to_str().unwrap()];
    let server =
        ThirdPartyServer::connect(host, &entry("mcp-server-filesystem", &args), json!({})).await;
    assert_eq!(server.offered_counts(), ("2025-11-25", [14, 0, 0, 0]));
    server.expect_request("roots/list").await;
    // The server requests roots after the handshake and does not report when it has them.
    let root = server.host.path().to_str().unwrap().to_owned();
    server.call_until_text("list_allowed_directories", |allowed| allowed.contains(&root)).await;
    let read = json!({"path": note});
    server.drop_sent_call("read_text_file", &read).await;
    assert_eq!(server.call_text("read_text_file", read).await, "every tool in its place");
    let outside = server.call("read_text_file", json!({"path": "/etc/hostname"})).await;
    assert_eq!(outside["isError"], true, "{outside}");
    server.close().await;
}

#[tokio::test]
async fn memory_server_stores_entities() {
    let host = host();
    let mut entry = entry("mcp-server-memory", &[]);
    entry["env"] = json!({"MEMORY_FILE_PATH": host.path().join("memory.jsonl")});
    let server = ThirdPartyServer::connect(host, &entry, json!({})).await;
    assert_eq!(server.offered_counts(), ("2025-11-25", [9, 0, 1, 0]));
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["counts"]});
    server.call("create_entities", json!({"entities": [ada]})).await;
    server.drop_sent_call("read_graph", &json!({})).await;
    let graph = server.call("read_graph", json!({})).await;
    assert_eq!(graph["structuredContent"]["entities"], json!([ada]));
    server.close().await;
}

#[tokio::test]
async fn sequential_thinking_server_counts_thoughts() {
    let server =
        ThirdPartyServer::connect(host(), &entry("mcp-server-sequential-thinking", &[]), json!({}))
            .await;
    assert_eq!(server.offered_counts(), ("2025-11-25", [1, 0, 0, 0]));
    let thought = json!({"thought": "first", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": true});
    server.drop_sent_call("sequentialthinking", &thought).await;
    let result = server.call("sequentialthinking", thought).await;
    assert_eq!(result["structuredContent"]["thoughtNumber"], 1, "{result}");
    wait_until("quiet", || server.session().peer().in_flight() == 0).await;
    server.close().await;
}

//! A server on the Rust SDK with one era or both.

use serde_json::{Value, json};
use toolcrib_testkit::peers;

use super::{ThirdPartyServer, host};
use crate::network_server::NetworkServer;

/// Start argument and agreed version.
const ERAS: [(&str, &str); 3] =
    [("legacy", "2025-11-25"), ("modern", "2026-07-28"), ("both", "2026-07-28")];

async fn explore(entry: Value, version: &str) {
    let server = ThirdPartyServer::connect(host(), &entry, json!({"name": "Ada"})).await;
    assert_eq!(server.offered_counts(), (version, [6, 1, 1, 0]));
    assert_eq!(server.call_text("echo", json!({"text": "größer 🙂"})).await, "größer 🙂");
    let sum = server.call("add", json!({"a": 2, "b": 3})).await;
    assert_eq!(sum["structuredContent"]["sum"].as_f64(), Some(5.0));
    let greeted = json!({"name": "greet", "arguments": {"name": "Ada"}});
    let prompt = server.request("prompts/get", &greeted).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Say hello to Ada.");
    let read = server.request("resources/read", &json!({"uri": "peer://motto"})).await;
    assert_eq!(read["contents"][0]["text"], "every tool in its place");

    let (steps, counted) = server.progress("slow", &json!({"steps": 5, "pause_ms": 5})).await;
    assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(counted["content"][0]["text"], "counted to 5");
    server.drop_running_call("slow", &json!({"steps": 600, "pause_ms": 100})).await;
    server.call_until_text("cancelled", |count| count == "1").await;

    assert_eq!(server.call_text("ask", json!({})).await, "hello Ada");
    server.expect_request("elicitation/create").await;
    server.trigger_tool_change("change", "extra").await;
    assert_eq!(server.call_text("extra", json!({})).await, "here");
    server.close().await;
}

#[tokio::test]
async fn dis_14_dkr_39_the_rust_sdk_over_stdio() {
    for (era, version) in ERAS {
        explore(json!({"command": peers::rmcp_peer().unwrap(), "args": [era, "stdio"]}), version)
            .await;
    }
}

#[tokio::test]
async fn dis_14_dis_48_dkr_39_the_rust_sdk_over_http() {
    for (era, version) in ERAS {
        let server =
            NetworkServer::start_reporting_address(&peers::rmcp_peer().unwrap(), &[era, "http"])
                .await;
        explore(json!({"url": server.url("/mcp")}), version).await;
    }
}

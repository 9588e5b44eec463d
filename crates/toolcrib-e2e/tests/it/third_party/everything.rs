//! `server-everything` on the TypeScript SDK, over all of its transports.

use serde_json::{Value, json};

use super::{ThirdPartyServer, host};
use crate::everything_server::{EverythingServer, program};
use crate::test_host::{tool_names, wait_until};

/// The server supports the legacy era only and requests roots by itself.
async fn explore(entry: Value) {
    let server =
        ThirdPartyServer::connect(host(), &entry, json!({"name": "Ada", "check": true})).await;
    // DIS-14: some tools appear after the handshake, with a notification.
    wait_until("all tools", || {
        tool_names(&server.catalog()).contains(&"trigger-elicitation-request")
    })
    .await;
    let (version, [tools, prompts, resources, templates]) = server.offered_counts();
    assert_eq!((version, prompts, resources, templates), ("2025-11-25", 4, 7, 2));
    assert!(tools > 12, "{tools}");

    assert_eq!(server.call_text("echo", json!({"message": "größer 🙂"})).await, "Echo: größer 🙂");
    let sum = server.call_text("get-sum", json!({"a": 2, "b": 3})).await;
    assert!(sum.contains('5'), "{sum}");
    let prompt = server.request("prompts/get", &json!({"name": "simple-prompt"})).await;
    assert_eq!(prompt["messages"][0]["role"], "user");
    let uri = server.catalog().resources[0].uri().to_owned();
    let read = server.request("resources/read", &json!({"uri": uri})).await;
    assert!(read["contents"][0]["text"].is_string(), "{read}");

    let slow = json!({"duration": 0.2, "steps": 4});
    let (steps, _) = server.progress("trigger-long-running-operation", &slow).await;
    assert_eq!(steps, [1.0, 2.0, 3.0, 4.0]);
    let endless = json!({"duration": 60, "steps": 1200});
    server.drop_running_call("trigger-long-running-operation", &endless).await;
    assert_eq!(server.call_text("echo", json!({"message": "still"})).await, "Echo: still");

    let answered = server.call_text("trigger-elicitation-request", json!({})).await;
    assert!(answered.contains("User provided"), "{answered}");
    server.expect_request("elicitation/create").await;
    server.expect_request("roots/list").await;

    // Resource lists change too.
    let zip = json!({"name": "a.gz", "data": "data:text/plain,a", "outputType": "resourceLink"});
    server.call("gzip-file-as-resource", zip).await;
    wait_until("the new resource", || server.catalog().resources.len() == resources + 1).await;
    server.close().await;
}

#[tokio::test]
async fn dis_14_dkr_39_everything_over_stdio() {
    explore(json!({"command": program(), "args": ["stdio"]})).await;
}

#[tokio::test]
async fn hol_27_dis_14_dkr_39_everything_over_http_and_sse() {
    let server = EverythingServer::start("sse").await;
    let transport = json!({"kind": "sse", "url": server.url("/sse")});
    explore(json!({"transport": transport})).await;
}

#[tokio::test]
async fn hol_29_dis_14_dkr_39_everything_over_streamable_http() {
    let server = EverythingServer::start("streamableHttp").await;
    explore(json!({"url": server.url("/mcp")})).await;
}

//! `server-everything` on the TypeScript SDK, over each of its transports.

use serde_json::{Value, json};

use super::{Guest, scene};
use crate::everything::{Everything, program};
use crate::scene::{names, until};

/// It speaks the legacy era only, and asks for roots by itself.
async fn explore(entry: Value) {
    let guest = Guest::meet(scene(), &entry, json!({"name": "Ada", "check": true})).await;
    // Some tools come after the handshake, and it says so: DIS-14.
    until("all tools", || names(&guest.catalog()).contains(&"trigger-elicitation-request")).await;
    let (version, [tools, prompts, resources, templates]) = guest.offers();
    assert_eq!((version, prompts, resources, templates), ("2025-11-25", 4, 7, 2));
    assert!(tools > 12, "{tools}");

    assert_eq!(guest.say("echo", json!({"message": "größer 🙂"})).await, "Echo: größer 🙂");
    let sum = guest.say("get-sum", json!({"a": 2, "b": 3})).await;
    assert!(sum.contains('5'), "{sum}");
    let prompt = guest.request("prompts/get", &json!({"name": "simple-prompt"})).await;
    assert_eq!(prompt["messages"][0]["role"], "user");
    let uri = guest.catalog().resources[0].uri().to_owned();
    let read = guest.request("resources/read", &json!({"uri": uri})).await;
    assert!(read["contents"][0]["text"].is_string(), "{read}");

    let slow = json!({"duration": 0.2, "steps": 4});
    let (steps, _) = guest.progress("trigger-long-running-operation", &slow).await;
    assert_eq!(steps, [1.0, 2.0, 3.0, 4.0]);
    let endless = json!({"duration": 60, "steps": 1200});
    guest.drop_underway("trigger-long-running-operation", &endless).await;
    assert_eq!(guest.say("echo", json!({"message": "still"})).await, "Echo: still");

    let answered = guest.say("trigger-elicitation-request", json!({})).await;
    assert!(answered.contains("User provided"), "{answered}");
    guest.was_asked("elicitation/create").await;
    guest.was_asked("roots/list").await;

    // A list that is not of tools changes too.
    let zip = json!({"name": "a.gz", "data": "data:text/plain,a", "outputType": "resourceLink"});
    guest.call("gzip-file-as-resource", zip).await;
    until("the new resource", || guest.catalog().resources.len() == resources + 1).await;
    guest.part().await;
}

#[tokio::test]
async fn dis_14_dkr_39_everything_over_stdio() {
    // DKR-39 as well.
    explore(json!({"command": program(), "args": ["stdio"]})).await;
}

#[tokio::test]
async fn hol_27_dis_14_dkr_39_everything_over_http_and_sse() {
    // DIS-14, DKR-39 as well.
    let server = Everything::start("sse").await;
    let transport = json!({"kind": "sse", "url": server.url("/sse")});
    explore(json!({"transport": transport})).await;
}

#[tokio::test]
async fn hol_29_dis_14_dkr_39_everything_over_streamable_http() {
    // DIS-14, DKR-39 as well.
    let server = Everything::start("streamableHttp").await;
    explore(json!({"url": server.url("/mcp")})).await;
}

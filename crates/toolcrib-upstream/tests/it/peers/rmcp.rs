//! A server on the Rust SDK, of exactly one era or of both.

use serde_json::{Value, json};
use toolcrib_testkit::peers;

use super::{Guest, scene};
use crate::served::Served;

/// What it is started as, and what is spoken then.
const ERAS: [(&str, &str); 3] =
    [("legacy", "2025-11-25"), ("modern", "2026-07-28"), ("both", "2026-07-28")];

async fn explore(entry: Value, version: &str) {
    let guest = Guest::meet(scene(), &entry, json!({"name": "Ada"})).await;
    assert_eq!(guest.offers(), (version, [6, 1, 1, 0]));
    assert_eq!(guest.say("echo", json!({"text": "größer 🙂"})).await, "größer 🙂");
    let sum = guest.call("add", json!({"a": 2, "b": 3})).await;
    assert_eq!(sum["structuredContent"]["sum"].as_f64(), Some(5.0));
    let greeted = json!({"name": "greet", "arguments": {"name": "Ada"}});
    let prompt = guest.request("prompts/get", &greeted).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Say hello to Ada.");
    let read = guest.request("resources/read", &json!({"uri": "peer://motto"})).await;
    assert_eq!(read["contents"][0]["text"], "every tool in its place");

    let (steps, counted) = guest.progress("slow", &json!({"steps": 5, "pause_ms": 5})).await;
    assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(counted["content"][0]["text"], "counted to 5");
    guest.drop_underway("slow", &json!({"steps": 600, "pause_ms": 100})).await;
    guest.until_it_says("cancelled", |count| count == "1").await;

    assert_eq!(guest.say("ask", json!({})).await, "hello Ada");
    guest.was_asked("elicitation/create").await;
    guest.changes("change", "extra").await;
    assert_eq!(guest.say("extra", json!({})).await, "here");
    guest.part().await;
}

#[tokio::test]
async fn dis_14_dkr_39_the_rust_sdk_over_stdio() {
    // DKR-39 as well.
    for (era, version) in ERAS {
        explore(json!({"command": peers::rmcp().unwrap(), "args": [era, "stdio"]}), version).await;
    }
}

#[tokio::test]
async fn dis_14_dis_48_dkr_39_the_rust_sdk_over_http() {
    // DIS-48, DKR-39 as well.
    for (era, version) in ERAS {
        let server = Served::where_it_says(&peers::rmcp().unwrap(), &[era, "http"]).await;
        explore(json!({"url": server.url("/mcp")}), version).await;
    }
}

//! Arguments are checked before a server is called, on every face.

use std::fs;

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{Client, Served};
use crate::Place;
use crate::hosted::scripted;

/// The entry of a server with one tool that takes a number, and logs what it is sent.
fn adder(log: &std::path::Path) -> Value {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tools = json!({"tools": [{"name": "add", "inputSchema": schema}]});
    let script = Script { log: Some(log.to_owned()), ..Script::default() };
    let mut entry = scripted(&script.on("tools/list", [Step::Result(tools)]));
    entry["transport"] = json!("stdio");
    entry
}

/// How many calls the server has seen.
fn calls(log: &std::path::Path) -> usize {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| line.contains("\"tools/call\"")).count()
}

#[tokio::test]
async fn dom_101_dominds_checks_arguments_before_a_call_on_every_face() {
    let place = Place::new();
    let log = place.beside("seen");
    let file = json!({"version": 1, "servers": {"s": adder(&log)}}).to_string();
    let place = place.file(".minds/mcp.yaml", &file);
    let served = Served::start(&place).await;
    let mut client = Client::start(&place).await;
    served.post("/api/v1/dialogs", &json!({"id": "d"})).await;
    for bad in [json!({"n": "three"}), json!({}), json!({"n": 1.5})] {
        let call = json!({"tool": "add", "arguments": bad});
        let answer = served.post("/api/v1/dialogs/d/calls", &call).await;
        assert!(answer.contains("\"invalid_arguments\""), "{answer}"); // DOM-101
        let refused = client.send("tools/call", json!({"name": "add", "arguments": bad})).await;
        let refused = client.answer(refused).await;
        assert!(refused.to_string().contains("invalid arguments for `add`"), "{refused}"); // DOM-101
    }
    assert_eq!(calls(&log), 0, "DOM-101: the server sees nothing");
    let call = json!({"tool": "add", "arguments": {"n": 3}});
    let answer = served.post("/api/v1/dialogs/d/calls", &call).await;
    assert!(answer.contains("\"ok\":true"), "{answer}");
    client.call("add", json!({"n": 3})).await;
    assert_eq!(calls(&log), 2);
}

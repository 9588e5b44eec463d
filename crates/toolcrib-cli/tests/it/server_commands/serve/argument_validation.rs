//! Tests argument validation on every interface.

use std::fs;

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{ServeProcess, StdioClient};
use crate::TestWorkspace;
use crate::server_commands::scripted_server;

/// A server with one tool that takes a number. It logs received messages.
fn adder(log: &std::path::Path) -> Value {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tools = json!({"tools": [{"name": "add", "inputSchema": schema}]});
    let script = Script { log: Some(log.to_owned()), ..Script::default() };
    let mut entry = scripted_server(&script.on("tools/list", [Step::Result(tools)]));
    entry["transport"] = json!("stdio");
    entry
}

/// Number of calls that the server has received.
fn calls(log: &std::path::Path) -> usize {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| line.contains("\"tools/call\"")).count()
}

#[tokio::test]
async fn dom_101_arguments_are_validated_before_call_on_every_interface() {
    let workspace = TestWorkspace::new();
    let log = workspace.sibling_path("seen");
    let file = json!({"version": 1, "servers": {"s": adder(&log)}}).to_string();
    let workspace = workspace.with_file(".minds/mcp.yaml", &file);
    let served = ServeProcess::start(&workspace).await;
    let mut client = StdioClient::start(&workspace).await;
    served.post("/api/v1/dialogs", &json!({"id": "d"})).await;
    for bad in [json!({"n": "three"}), json!({}), json!({"n": 1.5})] {
        let call = json!({"tool": "add", "arguments": bad});
        let answer = served.post("/api/v1/dialogs/d/calls", &call).await;
        assert!(answer.contains("\"invalid_arguments\""), "{answer}"); // DOM-101
        let refused = client.send("tools/call", json!({"name": "add", "arguments": bad})).await;
        let refused = client.response_to(refused).await;
        assert!(refused.to_string().contains("invalid arguments for `add`"), "{refused}"); // DOM-101
    }
    assert_eq!(calls(&log), 0, "DOM-101: the server sees nothing");
    let call = json!({"tool": "add", "arguments": {"n": 3}});
    let answer = served.post("/api/v1/dialogs/d/calls", &call).await;
    assert!(answer.contains("\"ok\":true"), "{answer}");
    client.call("add", json!({"n": 3})).await;
    assert_eq!(calls(&log), 2);
}

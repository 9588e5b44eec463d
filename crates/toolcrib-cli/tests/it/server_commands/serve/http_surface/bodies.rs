//! Tests the nesting limit of request bodies.

use serde_json::{Value, json};

use super::super::{StdioClient, text};
use super::{ServeProcess, demo_server, native_workspace};
use crate::server_commands::server;

const CALLS: &str = "POST /api/v1/dialogs/d/calls";

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

/// A call of `echo` with this many nested levels.
fn deep_call(levels: usize) -> String {
    let nested = nested(levels);
    format!(r#"{{"tool":"demo__echo","arguments":{{"text":"hi","more":{nested}}}}}"#)
}

#[tokio::test]
async fn nesting_is_limited_on_every_interface_and_server_survives() {
    let shared = json!({"session": {"scope": "shared"}});
    let mut entry = demo_server();
    entry["session"] = shared["session"].clone();
    let workspace = native_workspace(&json!({"demo": entry}));
    let served = ServeProcess::start(&workspace).await;
    let json = [("Content-Type", "application/json")];
    let dialog = served.send_json("POST /api/v1/dialogs", None, &json!({"id": "d"})).await;
    assert_eq!(dialog.status, 201, "{dialog:?}");
    let mut client = StdioClient::start(&workspace).await;
    let slow =
        client.send("tools/call", json!({"name": "demo__slow", "arguments": {"seconds": 1}})).await;

    for levels in [126, 3000, 100_000] {
        let refused = served.request(CALLS, &json, &deep_call(levels)).await;
        assert_eq!(refused.failure(), (400, "request.invalid".to_owned()), "{levels}");
        assert!(refused.body.contains("levels"), "{refused:?}");
    }
    // Text that the tool's schema turns into JSON.
    let words = json!({"tool": "demo__add", "words": [["a", nested(3000)], ["b", "1"]]});
    let refused = served.request(CALLS, &json, &words.to_string()).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let answer = format!(r#"{{"result":{{"content":{}}}}}"#, nested(3000));
    let refused = served.request("POST /api/v1/dialogs/d/requests/1", &json, &answer).await;
    assert_eq!(refused.failure(), (400, "request.invalid".to_owned()));

    let message =
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"a":{}}}}}"#, nested(3000));
    for path in ["POST /mcp", "POST /mcp/demo"] {
        let refused = served.request(path, &json, &message).await;
        assert_eq!(refused.status, 400, "{refused:?}");
    }
    client.write_line(&message).await;
    let refused = client.response_to(7).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("levels"), "{refused}");

    assert_eq!(served.request(CALLS, &json, &deep_call(125)).await.status, 200);
    let done = client.response_to(slow).await;
    assert!(done["result"]["isError"] != Value::Bool(true), "{done}");
    assert!(!text(&done["result"]).is_empty());
    let listed = workspace.json(&["servers"]);
    assert_eq!(server(&listed, "demo")["restarts"], 0, "{listed}");
}

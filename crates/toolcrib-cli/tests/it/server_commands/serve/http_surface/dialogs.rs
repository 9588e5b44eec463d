//! Tests ownership of dialogs and sessions: names are per principal, and rights follow the current agent.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::super::{wait_until_async, with_time_limit};
use super::{ApiResponse, ServeProcess, demo_server, native_workspace};
use crate::TestWorkspace;

const TOKEN: &str = "a-secret-that-only-this-test-has";
const SHA256: &str = "860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd";

/// A modern request that names its dialog.
async fn call_named(served: &ServeProcess, dialog: &str) -> ApiResponse {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "demo__echo", "arguments": {"text": "hi"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = [
        ("Content-Type", "application/json"),
        ("Mcp-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "demo__echo"),
        ("Toolcrib-Dialog", dialog),
    ];
    served.request("POST /mcp", &headers, &body.to_string()).await
}

#[tokio::test]
async fn tcp_dialog_names_do_not_block_owner() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    for name in ["command-line", "api:owner:default"] {
        let called = call_named(&served, name).await;
        assert_eq!(called.status, 200, "{called:?}");
        assert!(called.json()["error"].is_null(), "{called:?}");
    }
    let called = workspace.json(&["call", "demo__echo", "-a", "text=hi"]);
    assert_eq!(called["ok"], true, "{called}");
    assert_eq!(workspace.json(&["servers"])["servers"][0]["id"], "demo");
    assert!(workspace.tools().contains(&"demo__echo".to_owned()));
}

#[tokio::test]
async fn dialogs_of_other_principals_are_not_revealed() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    // This call creates the owner's dialog.
    assert_eq!(workspace.json(&["call", "demo__echo", "-a", "text=hi"])["ok"], true);
    let seen = async |name: &str| {
        let mut statuses = Vec::new();
        for (line, body) in [
            (format!("GET /api/v1/dialogs/{name}"), ""),
            (format!("GET /api/v1/dialogs/{name}/tools"), ""),
            (format!("POST /api/v1/dialogs/{name}/calls"), r#"{"tool":"demo__echo"}"#),
            (format!("DELETE /api/v1/dialogs/{name}"), ""),
            (format!("GET /api/v1/tools?dialog={name}"), ""),
            ("POST /api/v1/dialogs".to_owned(), &*json!({"id": name}).to_string()),
            (format!("GET /api/v1/dialogs/{name}"), ""),
        ] {
            let answer = served.request(&line, &[("Content-Type", "application/json")], body).await;
            statuses.push(answer.status);
        }
        statuses
    };
    let unknown = seen("nobody-has-this").await;
    assert_eq!(unknown, [404, 404, 404, 404, 200, 201, 200]);
    assert_eq!(seen("command-line").await, unknown);
    let listed = served.request("GET /api/v1/dialogs", &[], "").await.json();
    let own: Vec<&Value> =
        listed["dialogs"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert!(own.contains(&&json!("command-line")), "{listed}");
    assert!(own.len() == 2, "{listed}");
}

fn file(agent: &str) -> String {
    json!({"version": 1, "servers": {"demo": demo_server()},
        "host": {"grants": {"members": {"a": {"toolsets": ["demo"]}, "b": {"toolsets": []}}}},
        "gateway": {"tokens": [{"sha256": SHA256, "agent": agent}]}})
    .to_string()
}

#[tokio::test]
async fn dialogs_sessions_and_streams_end_when_reload_changes_agent_of_token() {
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &file("a"));
    let served = ServeProcess::start(&workspace).await;
    let bearer = format!("Bearer {TOKEN}");
    let get = async |path: &str| {
        served.request(&format!("GET {path}"), &[("Authorization", &bearer)], "").await
    };
    let post = async |path: &str, session: Option<&str>, body: &Value| {
        let mut headers = vec![("Authorization", &*bearer), ("Content-Type", "application/json")];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        served.request(&format!("POST {path}"), &headers, &body.to_string()).await
    };
    let made = post("/api/v1/dialogs", None, &json!({"id": "d"})).await.json();
    assert_eq!((&made["id"], &made["agent"]), (&json!("d"), &json!("a")));
    let call = json!({"tool": "demo__echo", "arguments": {"text": "hi"}});
    assert_eq!(post("/api/v1/dialogs/d/calls", None, &call).await.status, 200);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "it", "version": "0"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let hello = post("/mcp", None, &hello).await;
    let session = hello.header("mcp-session-id").unwrap().to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    let listed = post("/mcp", Some(&session), &list).await.json();
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 7);
    let mut stream = served.open(&format!("GET /sse HTTP/1.1\r\nAuthorization: {bearer}")).await;
    let mut first = [0; 12];
    with_time_limit(stream.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");

    let workspace = workspace.with_file("toolcrib.yaml", &file("b"));
    wait_until_async(async || get("/api/v1/tools").await.json()["tools"] == json!([])).await;
    assert_eq!(post("/mcp", Some(&session), &list).await.status, 404);
    for path in ["/api/v1/dialogs/d", "/api/v1/dialogs/d/tools", "/api/v1/dialogs/d/leases"] {
        assert_eq!(get(path).await.status, 404, "{path}");
    }
    assert_eq!(post("/api/v1/dialogs/d/calls", None, &call).await.status, 404);
    let anew = post("/api/v1/dialogs", None, &json!({"id": "d"})).await.json();
    assert_eq!((&anew["id"], &anew["agent"]), (&json!("d"), &json!("b")));
    assert_eq!(post("/api/v1/dialogs/d/calls", None, &call).await.status, 404);
    let mut rest = Vec::new();
    with_time_limit(stream.read_to_end(&mut rest)).await.unwrap();
    let owner = served.line["console"].as_str().unwrap().split_once("/#token=").unwrap().1;
    let owner = format!("Bearer {owner}");
    wait_until_async(async || {
        let all = served.request("GET /api/v1/dialogs", &[("Authorization", &owner)], "").await;
        let all = all.json();
        all["dialogs"].as_array().unwrap().iter().all(|it| it["agent"] != "a")
    })
    .await;
    drop(workspace);
}

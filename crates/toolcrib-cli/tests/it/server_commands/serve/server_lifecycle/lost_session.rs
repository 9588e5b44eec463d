//! Tests HTTP sessions that the server has forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, ReceivedRequest, ScriptedResponse};

use super::{DIALECTS, ServerFixture};

/// A legacy server that counts its sessions and calls, and answers 404 for every session except the current one.
#[derive(Default)]
struct ForgetfulServer {
    session: AtomicU64,
    calls: AtomicU64,
}

impl ForgetfulServer {
    /// Forgets the session; the next `initialize` starts another one.
    fn forget(&self) {
        self.session.fetch_add(1, Ordering::SeqCst);
    }

    fn answer(&self, received: &ReceivedRequest) -> ScriptedResponse {
        let message: Value = serde_json::from_str(&received.body).unwrap_or_default();
        let (method, id) = (message["method"].as_str(), &message["id"]);
        let session = self.session.load(Ordering::SeqCst).to_string();
        let is_known = received.header("mcp-session-id") == Some(session.as_str());
        let result = match method {
            None => return ScriptedResponse::status(405),
            Some("initialize") => json!({"protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "far", "version": "1"}}),
            Some("server/discover") => {
                let error = json!({"code": -32601, "message": "no such method"});
                return ScriptedResponse::json(
                    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string(),
                );
            }
            Some(_) if !is_known => return ScriptedResponse::status(404),
            Some("tools/list") => {
                json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
            }
            Some("tools/call") => {
                self.calls.fetch_add(1, Ordering::SeqCst);
                json!({"content": [{"type": "text", "text": "far away"}]})
            }
            Some(_) => return ScriptedResponse::status(202),
        };
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        ScriptedResponse::json(answer).header("mcp-session-id", &session)
    }
}

/// DOM-93. The call that met the 404 is repeated: a server that does not know the session has not run it.
#[tokio::test]
async fn dom_93_forgotten_session_is_reopened_in_every_dialect() {
    for dialect in DIALECTS {
        let far = Arc::new(ForgetfulServer::default());
        let answering = Arc::clone(&far);
        let listening =
            HttpServer::start(move |received: &ReceivedRequest| answering.answer(received)).await;
        let listening = listening.unwrap();
        let fixture = ServerFixture::address(dialect, &listening.url("/mcp"));
        let served = fixture.serve().await;
        served.open_dialog("d").await;
        let echo = fixture.tool("echo");
        assert_eq!(served.call("d", &echo).await["ok"], true, "{dialect}");
        // First the session is young, later it was just reopened.
        for round in 1..4 {
            far.forget();
            let report = served.call("d", &echo).await;
            assert_eq!(report["ok"], true, "{dialect} {round}: {report}");
            assert_eq!(far.calls.load(Ordering::SeqCst), 1 + round, "{dialect}: each ran once");
        }
    }
}

/// MIN-63 concerns lost connections. A forgotten session is reopened even if reconnecting is disabled.
#[tokio::test]
async fn dom_93_forgotten_session_is_reopened_without_auto_reconnect() {
    let far = Arc::new(ForgetfulServer::default());
    let answering = Arc::clone(&far);
    let listening = HttpServer::start(move |received: &ReceivedRequest| answering.answer(received))
        .await
        .unwrap();
    let fixture = ServerFixture::address("minion", &listening.url("/mcp"));
    let file: Value = serde_json::from_str(&fixture.workspace.read("minion.json")).unwrap();
    let file = json!({"servers": file["servers"], "manager": {"EnableAutoReconnect": false}});
    let fixture = ServerFixture {
        workspace: fixture.workspace.with_file("minion.json", &file.to_string()),
        ..fixture
    };
    let served = fixture.serve().await;
    served.open_dialog("d").await;
    for round in 0..3 {
        let report = served.call("d", &fixture.tool("echo")).await;
        assert_eq!(report["ok"], true, "{round}: {report}");
        far.forget();
    }
}

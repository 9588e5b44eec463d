//! An HTTP session that the server no longer knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use toolcrib_testkit::http::{Asked, HttpServer, Reply};

use super::{DIALECTS, Scene};

/// A server of the legacy era that counts its sessions and the calls that it ran, and answers 404 for every session
/// but the newest one that it has not forgotten.
#[derive(Default)]
struct Forgetful {
    session: AtomicU64,
    calls: AtomicU64,
}

impl Forgetful {
    /// Forgets its session: the next `initialize` begins another one.
    fn forget(&self) {
        self.session.fetch_add(1, Ordering::SeqCst);
    }

    fn answer(&self, asked: &Asked) -> Reply {
        let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        let (method, id) = (message["method"].as_str(), &message["id"]);
        let session = self.session.load(Ordering::SeqCst).to_string();
        let is_known = asked.header("mcp-session-id") == Some(session.as_str());
        let result = match method {
            None => return Reply::status(405),
            Some("initialize") => json!({"protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "far", "version": "1"}}),
            Some("server/discover") => {
                let error = json!({"code": -32601, "message": "no such method"});
                return Reply::json(
                    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string(),
                );
            }
            Some(_) if !is_known => return Reply::status(404),
            Some("tools/list") => {
                json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
            }
            Some("tools/call") => {
                self.calls.fetch_add(1, Ordering::SeqCst);
                json!({"content": [{"type": "text", "text": "far away"}]})
            }
            Some(_) => return Reply::status(202),
        };
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        Reply::json(answer).header("mcp-session-id", &session)
    }
}

/// DOM-93. The call that met the 404 is made again: a server that does not know the session has not run it.
#[tokio::test]
async fn dom_93_a_forgotten_session_is_opened_again_in_every_dialect() {
    for dialect in DIALECTS {
        let far = Arc::new(Forgetful::default());
        let answering = Arc::clone(&far);
        let listening = HttpServer::start(move |asked: &Asked| answering.answer(asked)).await;
        let listening = listening.unwrap();
        let scene = Scene::address(dialect, &listening.url("/mcp"));
        let served = scene.serve().await;
        served.open_dialog("d").await;
        let echo = scene.tool("echo");
        assert_eq!(served.call("d", &echo).await["ok"], true, "{dialect}");
        // The first time the session is young, then it was opened a moment ago.
        for round in 1..4 {
            far.forget();
            let told = served.call("d", &echo).await;
            assert_eq!(told["ok"], true, "{dialect} {round}: {told}");
            assert_eq!(far.calls.load(Ordering::SeqCst), 1 + round, "{dialect}: each ran once");
        }
    }
}

/// MIN-63 is about lost connections: a forgotten session is opened again even where those are not made good.
#[tokio::test]
async fn dom_93_a_forgotten_session_is_opened_again_without_auto_reconnect() {
    let far = Arc::new(Forgetful::default());
    let answering = Arc::clone(&far);
    let listening = HttpServer::start(move |asked: &Asked| answering.answer(asked)).await.unwrap();
    let scene = Scene::address("minion", &listening.url("/mcp"));
    let file: Value = serde_json::from_str(&scene.place.read("minion.json")).unwrap();
    let file = json!({"servers": file["servers"], "manager": {"EnableAutoReconnect": false}});
    let scene = Scene { place: scene.place.file("minion.json", &file.to_string()), ..scene };
    let served = scene.serve().await;
    served.open_dialog("d").await;
    for round in 0..3 {
        let told = served.call("d", &scene.tool("echo")).await;
        assert_eq!(told["ok"], true, "{round}: {told}");
        far.forget();
    }
}

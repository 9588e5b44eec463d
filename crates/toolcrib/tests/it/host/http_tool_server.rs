//! An HTTP server with replaceable tools that records its requests and their credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, ReceivedRequest, ScriptedResponse};

pub(crate) struct HttpToolServer {
    pub(crate) server: HttpServer,
    tools: Arc<Mutex<Value>>,
}

impl HttpToolServer {
    pub(crate) async fn start(tools: Value) -> Self {
        let tools = Arc::new(Mutex::new(tools));
        let (known, sessions) = (Arc::clone(&tools), AtomicUsize::new(0));
        let server = HttpServer::start(move |request| {
            let tools = known.lock().unwrap().clone();
            reply(&body(request), &tools, &sessions)
        });
        HttpToolServer { server: server.await.unwrap(), tools }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url("/mcp")
    }

    pub(crate) fn set_tools(&self, tools: Value) {
        *self.tools.lock().unwrap() = tools;
    }

    /// The requests of a method, with their credentials.
    pub(crate) fn requests_of(&self, method: &str) -> Vec<(Value, String)> {
        let all = self.server.requests().into_iter();
        all.filter(|request| body(request)["method"] == method)
            .map(|request| (body(&request), credentials(&request)))
            .collect()
    }

    /// The credentials used in each session.
    pub(crate) fn sessions(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut sessions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for request in self.server.requests() {
            if let Some(session) = request.header("mcp-session-id") {
                sessions.entry(session.to_owned()).or_default().insert(credentials(&request));
            }
        }
        sessions
    }
}

fn reply(message: &Value, tools: &Value, sessions: &AtomicUsize) -> ScriptedResponse {
    let result = match message["method"].as_str() {
        Some("server/discover") => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        Some("initialize") => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})
        }
        Some("tools/list") => json!({"tools": tools}),
        Some("tools/call") => json!({"content": [{"type": "text", "text": "done"}]}),
        _ => return ScriptedResponse::status(202),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    let reply = ScriptedResponse::json(answer.to_string());
    match message["method"].as_str() {
        Some("initialize") => {
            let number = sessions.fetch_add(1, Ordering::SeqCst);
            reply.header("Mcp-Session-Id", &format!("session-{number}"))
        }
        _ => reply,
    }
}

fn body(request: &ReceivedRequest) -> Value {
    serde_json::from_str(&request.body).unwrap_or_default()
}

fn credentials(request: &ReceivedRequest) -> String {
    let header = request.header("authorization").or_else(|| request.header("x-api-key"));
    header.unwrap_or_default().to_owned()
}

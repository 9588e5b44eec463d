//! A server at an address: its tools may become others, and it is told who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcrib_testkit::http::{Asked, HttpServer, Reply};

pub(crate) struct Address {
    pub(crate) server: HttpServer,
    tools: Arc<Mutex<Value>>,
}

impl Address {
    pub(crate) async fn start(tools: Value) -> Self {
        let tools = Arc::new(Mutex::new(tools));
        let (known, sessions) = (Arc::clone(&tools), AtomicUsize::new(0));
        let server = HttpServer::start(move |asked| {
            let tools = known.lock().unwrap().clone();
            reply(&body(asked), &tools, &sessions)
        });
        Address { server: server.await.unwrap(), tools }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url("/mcp")
    }

    pub(crate) fn offer(&self, tools: Value) {
        *self.tools.lock().unwrap() = tools;
    }

    /// Requests of a method: what was sent, and the credentials that were shown.
    pub(crate) fn asked(&self, method: &str) -> Vec<(Value, String)> {
        let all = self.server.requests().into_iter();
        all.filter(|asked| body(asked)["method"] == method)
            .map(|asked| (body(&asked), shown(&asked)))
            .collect()
    }

    /// Who has been in each session.
    pub(crate) fn sessions(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut sessions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for asked in self.server.requests() {
            if let Some(session) = asked.header("mcp-session-id") {
                sessions.entry(session.to_owned()).or_default().insert(shown(&asked));
            }
        }
        sessions
    }
}

fn reply(message: &Value, tools: &Value, sessions: &AtomicUsize) -> Reply {
    let result = match message["method"].as_str() {
        Some("server/discover") => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        Some("initialize") => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})
        }
        Some("tools/list") => json!({"tools": tools}),
        Some("tools/call") => json!({"content": [{"type": "text", "text": "done"}]}),
        _ => return Reply::status(202),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    let reply = Reply::json(answer.to_string());
    match message["method"].as_str() {
        Some("initialize") => {
            let number = sessions.fetch_add(1, Ordering::SeqCst);
            reply.header("Mcp-Session-Id", &format!("session-{number}"))
        }
        _ => reply,
    }
}

fn body(asked: &Asked) -> Value {
    serde_json::from_str(&asked.body).unwrap_or_default()
}

fn shown(asked: &Asked) -> String {
    let header = asked.header("authorization").or_else(|| asked.header("x-api-key"));
    header.unwrap_or_default().to_owned()
}

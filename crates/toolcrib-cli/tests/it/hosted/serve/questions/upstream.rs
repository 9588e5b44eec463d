//! Servers with two tools, `first` and `second`, that each ask `first?` or `second?` when the test says so and give the
//! answer back as their result.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_testkit::http::{HttpServer, Reply, Step as HttpStep};
use toolcrib_testkit::scripted::{Script, Step};

use super::super::super::{native, scripted, until};
use crate::Place;

pub(super) const TOOLS: [&str; 2] = ["first", "second"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Questions are requests on the one stream there is.
    Stdio,
    /// The same, and each names the request that it belongs to.
    StdioNamed,
    /// Questions are requests on the stream of their call.
    LegacyHttp,
    /// Questions are results.
    ModernHttp,
}

impl Kind {
    /// Whether the call of a question is known.
    pub(super) fn tells_call(self) -> bool {
        self != Kind::Stdio
    }
}

pub(super) enum Upstream {
    Stdio { folder: PathBuf },
    Http { server: HttpServer, calls: Calls },
}

/// The calls whose answers are open, by tool.
type Calls = Arc<Mutex<HashMap<String, Open>>>;

pub(super) struct Open {
    /// What the server says when it asks.
    question: String,
    id: Value,
    body: mpsc::Sender<HttpStep>,
}

impl Upstream {
    pub(super) async fn start(kind: Kind) -> (Self, Place) {
        match kind {
            Kind::Stdio | Kind::StdioNamed => Self::stdio(kind == Kind::StdioNamed),
            Kind::LegacyHttp => Self::http(legacy).await,
            Kind::ModernHttp => Self::http(modern).await,
        }
    }

    fn stdio(is_named: bool) -> (Self, Place) {
        let place = Place::new();
        let folder = place.beside("asking");
        std::fs::create_dir_all(&folder).unwrap();
        let mut script = Script { legacy_only: true, ..Script::default() };
        script.log = Some(folder.join("log"));
        for tool in TOOLS {
            let mut params = form(tool);
            if is_named {
                params["_meta"] = json!({"relatedRequestId": "$id"});
            }
            let ask = Step::Ask { method: "elicitation/create".to_owned(), params };
            let steps = [Step::Until(folder.join(tool)), ask, Step::Answer];
            script = script.on(&format!("tools/call {tool}"), steps);
        }
        let file = json!({"version": 1, "servers": {"it": scripted(&script)}});
        (Self::Stdio { folder }, place.file("toolcrib.yaml", &file.to_string()))
    }

    async fn http(answer: fn(&Calls, &Value) -> Reply) -> (Self, Place) {
        let calls = Calls::default();
        let own = Arc::clone(&calls);
        let server = HttpServer::start(move |asked| {
            let message = serde_json::from_str(&asked.body).unwrap_or_default();
            answer(&own, &message)
        });
        let server = server.await.unwrap();
        let place = native(&json!({"it": {"url": server.url("/mcp")}}));
        (Self::Http { server, calls }, place)
    }

    /// Waits until the call of a tool has arrived.
    pub(super) async fn has_call(&self, tool: &str) {
        let called = format!("\"name\":\"{tool}\"");
        match self {
            Self::Stdio { folder } => until("the call arrives", || {
                let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
                log.contains(&called)
            }),
            Self::Http { server, .. } => {
                server.request(|asked| asked.body.contains(&called)).await.unwrap();
            }
        }
    }

    /// The call of a tool asks its question now.
    pub(super) async fn ask(&self, tool: &str) {
        match self {
            Self::Stdio { folder } => std::fs::write(folder.join(tool), "").unwrap(),
            Self::Http { calls, .. } => {
                let (body, question) = {
                    let calls = calls.lock().unwrap();
                    (calls[tool].body.clone(), calls[tool].question.clone())
                };
                body.send(HttpStep::Send(question)).await.unwrap();
            }
        }
    }
}

fn form(tool: &str) -> Value {
    json!({"message": format!("{tool}?"), "requestedSchema": {"type": "object", "properties": {}}})
}

fn result(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}

fn tools() -> Value {
    json!(TOOLS.map(|name| json!({"name": name, "inputSchema": {"type": "object"}})))
}

fn told(answer: &Value) -> Value {
    json!({"content": [{"type": "text", "text": answer.to_string()}], "resultType": "complete"})
}

fn open(calls: &Calls, message: &Value, question: String) -> mpsc::Receiver<HttpStep> {
    let (body, steps) = mpsc::channel(4);
    let tool = message["params"]["name"].as_str().unwrap().to_owned();
    calls.lock().unwrap().insert(tool, Open { question, id: message["id"].clone(), body });
    steps
}

/// A server of the legacy era: a question is a request on the stream of its call.
fn legacy(calls: &Calls, message: &Value) -> Reply {
    let id = &message["id"];
    match message["method"].as_str() {
        Some("initialize") => Reply::json(result(
            id,
            &json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "it", "version": "1"}}),
        ))
        .header("mcp-session-id", "s"),
        Some("tools/list") => Reply::json(result(id, &json!({"tools": tools()}))),
        Some("tools/call") => {
            let tool = message["params"]["name"].as_str().unwrap();
            let asked = json!({"jsonrpc": "2.0", "id": tool, "method": "elicitation/create",
                "params": form(tool)});
            Reply::events().live(open(calls, message, event(&asked.to_string())))
        }
        Some(_) if !id.is_null() => unknown(id),
        // An answer: the result of its call, which then ends.
        None if id.is_string() => {
            if let Some(open) = calls.lock().unwrap().remove(id.as_str().unwrap()) {
                let text = event(&result(&open.id, &told(message)));
                open.body.try_send(HttpStep::Send(text)).unwrap();
            }
            Reply::status(202)
        }
        Some(_) => Reply::status(202),
        None => Reply::status(405),
    }
}

/// A server of the modern era: a question is the result of the first round.
fn modern(calls: &Calls, message: &Value) -> Reply {
    let (id, params) = (&message["id"], &message["params"]);
    let listed = |mut it: Value| {
        it["resultType"] = json!("complete");
        it["ttlMs"] = json!(0);
        it["cacheScope"] = json!("private");
        Reply::json(result(id, &it))
    };
    match message["method"].as_str() {
        Some("server/discover") => listed(json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "it", "version": "1"}})),
        Some("tools/list") => listed(json!({"tools": tools()})),
        Some("tools/call") if params.get("inputResponses").is_some() => {
            let answer = json!({"result": params["inputResponses"]["q"]});
            Reply::json(result(id, &told(&answer)))
        }
        Some("tools/call") => {
            let tool = params["name"].as_str().unwrap();
            let asked = json!({"q": {"method": "elicitation/create", "params": form(tool)}});
            let required = json!({"resultType": "input_required", "inputRequests": asked,
                "requestState": tool});
            let steps = open(calls, message, event(&result(id, &required)));
            Reply::events().live(steps)
        }
        Some(_) if !id.is_null() => unknown(id),
        Some(_) => Reply::status(202),
        None => Reply::status(405),
    }
}

fn unknown(id: &Value) -> Reply {
    let error = json!({"code": -32601, "message": "unknown method"});
    Reply::json(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
}

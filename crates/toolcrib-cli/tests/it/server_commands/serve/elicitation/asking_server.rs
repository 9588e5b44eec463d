//! Servers with the tools `first` and `second`. Each sends an elicitation request when the test says so and returns the
//! answer as its result.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_testkit::http::{BodyStep, HttpServer, ScriptedResponse};
use toolcrib_testkit::scripted::{Script, Step};

use super::super::super::{native_workspace, scripted_server, wait_until};
use crate::TestWorkspace;

pub(super) const TOOLS: [&str; 2] = ["first", "second"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// Requests on the only stream.
    Stdio,
    /// Requests on the only stream, each with the id of its call.
    StdioNamed,
    /// Requests on the stream of their call.
    LegacyHttp,
    /// Requests as `input_required` results.
    ModernHttp,
}

impl ServerKind {
    /// True if a request names its call.
    pub(super) fn tells_call(self) -> bool {
        self != ServerKind::Stdio
    }
}

pub(super) enum AskingServer {
    Stdio { folder: PathBuf },
    Http { server: HttpServer, calls: Calls },
}

/// The open calls by tool.
type Calls = Arc<Mutex<HashMap<String, OpenCall>>>;

pub(super) struct OpenCall {
    /// The message that asks the question.
    question: String,
    id: Value,
    body: mpsc::Sender<BodyStep>,
}

impl AskingServer {
    pub(super) async fn start(kind: ServerKind) -> (Self, TestWorkspace) {
        match kind {
            ServerKind::Stdio | ServerKind::StdioNamed => {
                Self::stdio(kind == ServerKind::StdioNamed)
            }
            ServerKind::LegacyHttp => Self::http(legacy).await,
            ServerKind::ModernHttp => Self::http(modern).await,
        }
    }

    fn stdio(is_named: bool) -> (Self, TestWorkspace) {
        let workspace = TestWorkspace::new();
        let folder = workspace.sibling_path("asking");
        std::fs::create_dir_all(&folder).unwrap();
        let mut script = Script { legacy_only: true, ..Script::default() };
        script.log = Some(folder.join("log"));
        for tool in TOOLS {
            let mut params = elicitation_params(tool);
            if is_named {
                params["_meta"] = json!({"relatedRequestId": "$id"});
            }
            let ask = Step::SendRequest { method: "elicitation/create".to_owned(), params };
            let steps = [Step::WaitForFile(folder.join(tool)), ask, Step::Respond];
            script = script.on(&format!("tools/call {tool}"), steps);
        }
        let file = json!({"version": 1, "servers": {"it": scripted_server(&script)}});
        (Self::Stdio { folder }, workspace.with_file("toolcrib.yaml", &file.to_string()))
    }

    async fn http(answer: fn(&Calls, &Value) -> ScriptedResponse) -> (Self, TestWorkspace) {
        let calls = Calls::default();
        let own = Arc::clone(&calls);
        let server = HttpServer::start(move |received| {
            let message = serde_json::from_str(&received.body).unwrap_or_default();
            answer(&own, &message)
        });
        let server = server.await.unwrap();
        let workspace = native_workspace(&json!({"it": {"url": server.url("/mcp")}}));
        (Self::Http { server, calls }, workspace)
    }

    /// Waits until a tool's call has arrived.
    pub(super) async fn wait_for_call_of(&self, tool: &str) {
        let called = format!("\"name\":\"{tool}\"");
        match self {
            Self::Stdio { folder } => wait_until("the call arrives", || {
                let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
                log.contains(&called)
            }),
            Self::Http { server, .. } => {
                server.wait_for_request(|received| received.body.contains(&called)).await.unwrap();
            }
        }
    }

    /// Lets the tool's call send its request.
    pub(super) async fn send_question(&self, tool: &str) {
        match self {
            Self::Stdio { folder } => std::fs::write(folder.join(tool), "").unwrap(),
            Self::Http { calls, .. } => {
                let (body, question) = {
                    let calls = calls.lock().unwrap();
                    (calls[tool].body.clone(), calls[tool].question.clone())
                };
                body.send(BodyStep::Send(question)).await.unwrap();
            }
        }
    }
}

fn elicitation_params(tool: &str) -> Value {
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

fn tool_result(answer: &Value) -> Value {
    json!({"content": [{"type": "text", "text": answer.to_string()}], "resultType": "complete"})
}

fn open(calls: &Calls, message: &Value, question: String) -> mpsc::Receiver<BodyStep> {
    let (body, steps) = mpsc::channel(4);
    let tool = message["params"]["name"].as_str().unwrap().to_owned();
    calls.lock().unwrap().insert(tool, OpenCall { question, id: message["id"].clone(), body });
    steps
}

/// A legacy server: the request goes out on the stream of its call.
fn legacy(calls: &Calls, message: &Value) -> ScriptedResponse {
    let id = &message["id"];
    match message["method"].as_str() {
        Some("initialize") => ScriptedResponse::json(result(
            id,
            &json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "it", "version": "1"}}),
        ))
        .header("mcp-session-id", "s"),
        Some("tools/list") => ScriptedResponse::json(result(id, &json!({"tools": tools()}))),
        Some("tools/call") => {
            let tool = message["params"]["name"].as_str().unwrap();
            let request = json!({"jsonrpc": "2.0", "id": tool, "method": "elicitation/create",
                "params": elicitation_params(tool)});
            ScriptedResponse::events().then_steps_from(open(
                calls,
                message,
                event(&request.to_string()),
            ))
        }
        Some(_) if !id.is_null() => unknown(id),
        // The answer becomes the result of its call.
        None if id.is_string() => {
            if let Some(open) = calls.lock().unwrap().remove(id.as_str().unwrap()) {
                let text = event(&result(&open.id, &tool_result(message)));
                open.body.try_send(BodyStep::Send(text)).unwrap();
            }
            ScriptedResponse::status(202)
        }
        Some(_) => ScriptedResponse::status(202),
        None => ScriptedResponse::status(405),
    }
}

/// A modern server: the request is the result of the first round.
fn modern(calls: &Calls, message: &Value) -> ScriptedResponse {
    let (id, params) = (&message["id"], &message["params"]);
    let listed = |mut it: Value| {
        it["resultType"] = json!("complete");
        it["ttlMs"] = json!(0);
        it["cacheScope"] = json!("private");
        ScriptedResponse::json(result(id, &it))
    };
    match message["method"].as_str() {
        Some("server/discover") => listed(json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "it", "version": "1"}})),
        Some("tools/list") => listed(json!({"tools": tools()})),
        Some("tools/call") if params.get("inputResponses").is_some() => {
            let answer = json!({"result": params["inputResponses"]["q"]});
            ScriptedResponse::json(result(id, &tool_result(&answer)))
        }
        Some("tools/call") => {
            let tool = params["name"].as_str().unwrap();
            let requests =
                json!({"q": {"method": "elicitation/create", "params": elicitation_params(tool)}});
            let required = json!({"resultType": "input_required", "inputRequests": requests,
                "requestState": tool});
            let steps = open(calls, message, event(&result(id, &required)));
            ScriptedResponse::events().then_steps_from(steps)
        }
        Some(_) if !id.is_null() => unknown(id),
        Some(_) => ScriptedResponse::status(202),
        None => ScriptedResponse::status(405),
    }
}

fn unknown(id: &Value) -> ScriptedResponse {
    let error = json!({"code": -32601, "message": "unknown method"});
    ScriptedResponse::json(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
}

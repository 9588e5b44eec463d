//! Tests two concurrent calls of one dialog with server requests: a request belongs to its call if the call is known,
//! else to the dialog, and an accepted answer reaches the server (DIS-41).

mod asking_server;
mod http_exchange;

use asking_server::{AskingServer, ServerKind, TOOLS};
use http_exchange::HttpExchange;
use serde_json::{Value, json};

use super::{ServeProcess, text, with_time_limit};
use crate::TestWorkspace;

const KINDS: [ServerKind; 4] =
    [ServerKind::Stdio, ServerKind::StdioNamed, ServerKind::LegacyHttp, ServerKind::ModernHttp];

/// Every client accepts JSON and event streams.
const STREAMS: (&str, &str) = ("Accept", "application/json, text/event-stream");

/// A host with one of the servers.
struct AskingGateway {
    upstream: AskingServer,
    served: ServeProcess,
    _workspace: TestWorkspace,
}

/// A request that the client received, and its id.
#[derive(Clone, Debug)]
struct ServerRequest {
    id: Value,
    tool: String,
}

impl AskingGateway {
    async fn new(kind: ServerKind) -> Self {
        let (upstream, workspace) = AskingServer::start(kind).await;
        let served = ServeProcess::start(&workspace).await;
        Self { upstream, served, _workspace: workspace }
    }

    fn address(&self) -> &str {
        self.served.url().strip_prefix("http://").unwrap()
    }

    async fn api(&self, request: &str, body: Option<Value>) -> (u16, Value) {
        let (method, path) = request.split_once(' ').unwrap();
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let start = format!("{method} /api/v1/{path}");
        // A JSON response, because a streamed call would end with its connection.
        let accept = [("Accept", "application/json")];
        let mut sent = HttpExchange::send(self.address(), &start, &accept, &body).await;
        let status = with_time_limit(sent.head()).await.status;
        match status {
            204 => (status, Value::Null),
            _ => (status, with_time_limit(sent.message()).await),
        }
    }

    /// A dialog with both calls in flight: its path and call numbers.
    async fn start_both_calls(&self) -> (String, [u64; 2]) {
        let made = json!({"answers": {"elicitation": true}});
        let (_, dialog) = self.api("POST dialogs", Some(made)).await;
        let path = format!("dialogs/{}", dialog["id"].as_str().unwrap());
        let mut calls = [0; 2];
        for (call, tool) in calls.iter_mut().zip(TOOLS) {
            let new = json!({"tool": format!("it__{tool}"), "arguments": {}});
            let (_, started) = self.api(&format!("POST {path}/calls?wait=false"), Some(new)).await;
            *call = started["call"].as_u64().unwrap_or_else(|| panic!("{started}"));
            self.upstream.wait_for_call_of(tool).await;
        }
        (path, calls)
    }

    /// Waits for this many open requests of a dialog.
    async fn requests(&self, path: &str, count: usize) -> Vec<Value> {
        with_time_limit(async {
            loop {
                let (_, shown) = self.api(&format!("GET {path}/requests"), None).await;
                let shown = shown["requests"].as_array().unwrap().clone();
                if shown.len() == count {
                    return shown;
                }
            }
        })
        .await
    }

    /// Waits for the result of a call.
    async fn wait_for_call(&self, path: &str, call: u64) -> Value {
        with_time_limit(async {
            loop {
                let (status, report) = self.api(&format!("GET {path}/calls/{call}"), None).await;
                if status == 200 {
                    return report;
                }
            }
        })
        .await
    }

    async fn post(&self, session: Option<&str>, message: &Value) -> HttpExchange {
        let session = session.map(|it| ("Mcp-Session-Id", it));
        let headers: Vec<_> = session.into_iter().chain([STREAMS]).collect();
        HttpExchange::send(self.address(), "POST /mcp", &headers, &message.to_string()).await
    }

    /// A legacy session with the elicitation capability.
    async fn open_session(&self) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "it", "version": "0"}});
        let mut opened = self.post(None, &request(1, "initialize", &params)).await;
        let head = with_time_limit(opened.head()).await;
        let session = head.header("mcp-session-id").unwrap().to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(Some(&session), &initialized).await.status().await, 202);
        session
    }

    /// A call of a modern client.
    async fn modern(&self, tool: &str, more: Value) -> HttpExchange {
        let mut params = more;
        let name = format!("it__{tool}");
        params["name"] = json!(name);
        params["arguments"] = json!({});
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "it", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        });
        let headers = [
            STREAMS,
            ("Mcp-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", name.as_str()),
        ];
        let body = request(1, "tools/call", &params).to_string();
        HttpExchange::send(self.address(), "POST /mcp", &headers, &body).await
    }
}

fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn accept(tool: &str) -> Value {
    json!({"action": "accept", "content": {"for": tool}})
}

/// The tool that sent the request.
fn asking_tool(params: &Value) -> String {
    params["message"].as_str().unwrap_or_else(|| panic!("{params}")).replace('?', "")
}

/// The next message of either stream, and the index of the stream.
async fn next(streams: &mut [HttpExchange; 2]) -> (usize, Value) {
    let [one, two] = streams;
    with_time_limit(async {
        tokio::select! {
            message = one.message() => (0, message),
            message = two.message() => (1, message),
        }
    })
    .await
}

#[tokio::test]
async fn dis_41_concurrent_api_calls_get_their_own_answers() {
    for kind in KINDS {
        let gateway = AskingGateway::new(kind).await;
        let (path, calls) = gateway.start_both_calls().await;
        for (at, tool) in TOOLS.iter().enumerate() {
            gateway.upstream.send_question(tool).await;
            gateway.requests(&path, at + 1).await;
        }
        let received_requests = gateway.requests(&path, 2).await;
        for (shown, (tool, call)) in received_requests.iter().zip(TOOLS.iter().zip(calls)) {
            assert_eq!(asking_tool(&shown["params"]), *tool, "{kind:?}");
            match kind.tells_call() {
                true => {
                    assert_eq!((&shown["call"], &shown["calls"]), (&json!(call), &json!([call])))
                }
                false => {
                    assert_eq!((&shown["call"], &shown["calls"]), (&Value::Null, &json!(calls)))
                }
            }
        }
        for shown in received_requests.iter().rev() {
            let tool = asking_tool(&shown["params"]);
            let answer = Some(json!({"result": accept(&tool)}));
            let to = format!("POST {path}/requests/{}", shown["id"]);
            assert_eq!(gateway.api(&to, answer.clone()).await.0, 200, "{kind:?}");
            let (status, twice) = gateway.api(&to, answer).await;
            assert_eq!((status, &twice["error"]["code"]), (404, &json!("request.unknown")));
        }
        for (tool, call) in TOOLS.iter().zip(calls) {
            let report = gateway.wait_for_call(&path, call).await;
            let received: Value = serde_json::from_str(report["text"].as_str().unwrap()).unwrap();
            assert_eq!(received["result"], accept(tool), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn dis_41_cancelling_api_call_keeps_request_of_other_call() {
    for kind in KINDS {
        for cancelled in [0, 1] {
            let gateway = AskingGateway::new(kind).await;
            let (path, calls) = gateway.start_both_calls().await;
            for (at, tool) in TOOLS.iter().enumerate() {
                gateway.upstream.send_question(tool).await;
                gateway.requests(&path, at + 1).await;
            }
            let received_requests = gateway.requests(&path, 2).await;
            let (gone, kept) = (&received_requests[cancelled], &received_requests[1 - cancelled]);
            let cancel = format!("DELETE {path}/calls/{}", calls[cancelled]);
            assert_eq!(gateway.api(&cancel, None).await.0, 204, "{kind:?}");
            let answer = |tool: &str| Some(json!({"result": accept(tool)}));
            if kind.tells_call() {
                let left = gateway.requests(&path, 1).await;
                assert_eq!(left[0]["id"], kept["id"], "{kind:?}");
                let to = format!("POST {path}/requests/{}", gone["id"]);
                let (status, refused) = gateway.api(&to, answer("gone")).await;
                assert_eq!((status, &refused["error"]["code"]), (404, &json!("request.unknown")));
            }
            let to = format!("POST {path}/requests/{}", kept["id"]);
            let tool = TOOLS[1 - cancelled];
            assert_eq!(gateway.api(&to, answer(tool)).await.0, 200, "{kind:?}");
            let report = gateway.wait_for_call(&path, calls[1 - cancelled]).await;
            let received: Value = serde_json::from_str(report["text"].as_str().unwrap()).unwrap();
            assert_eq!(received["result"], accept(tool), "{kind:?}");
        }
    }
}

/// A session in which both calls have received a request: the streams and the requests by tool.
async fn start_both_requests(
    gateway: &AskingGateway,
) -> (String, [HttpExchange; 2], [ServerRequest; 2]) {
    let session = gateway.open_session().await;
    let mut streams = Vec::new();
    for (id, tool) in [11, 12].into_iter().zip(TOOLS) {
        let params = json!({"name": format!("it__{tool}"), "arguments": {}});
        streams.push(gateway.post(Some(&session), &request(id, "tools/call", &params)).await);
        gateway.upstream.wait_for_call_of(tool).await;
    }
    let mut streams: [HttpExchange; 2] = streams.try_into().ok().unwrap();
    let mut questions = Vec::new();
    for tool in TOOLS {
        gateway.upstream.send_question(tool).await;
        let (_, received_requests) = next(&mut streams).await;
        assert_eq!(received_requests["method"], "elicitation/create", "{received_requests}");
        assert_eq!(asking_tool(&received_requests["params"]), tool);
        questions
            .push(ServerRequest { id: received_requests["id"].clone(), tool: tool.to_owned() });
    }
    (session, streams, questions.try_into().unwrap())
}

fn answer(question: &ServerRequest) -> Value {
    json!({"jsonrpc": "2.0", "id": question.id, "result": accept(&question.tool)})
}

#[tokio::test]
async fn dis_41_concurrent_legacy_calls_get_their_own_answers() {
    for kind in KINDS {
        let gateway = AskingGateway::new(kind).await;
        let (session, mut streams, questions) = start_both_requests(&gateway).await;
        for question in questions.iter().rev() {
            let posted = gateway.post(Some(&session), &answer(question)).await;
            assert_eq!(posted.status().await, 202, "{kind:?}");
        }
        for (tool, (stream, id)) in TOOLS.iter().zip(streams.iter_mut().zip([11, 12])) {
            let report = with_time_limit(stream.message()).await;
            assert_eq!(report["id"], id, "{kind:?}: {report}");
            let received: Value = serde_json::from_str(text(&report["result"])).unwrap();
            assert_eq!(received["result"], accept(tool), "{kind:?}");
        }
        for question in &questions {
            let posted = gateway.post(Some(&session), &answer(question)).await;
            assert_eq!(posted.status().await, 409, "{kind:?}: it was answered");
        }
    }
}

#[tokio::test]
async fn dis_41_cancelling_legacy_call_keeps_request_of_other_call() {
    for kind in KINDS {
        for cancelled in [0, 1] {
            let gateway = AskingGateway::new(kind).await;
            let (session, mut streams, questions) = start_both_requests(&gateway).await;
            let params = json!({"requestId": 11 + cancelled});
            let off =
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            assert_eq!(gateway.post(Some(&session), &off).await.status().await, 202);
            if kind.tells_call() {
                // The call of this request was cancelled: the client is notified, and its answer is rejected.
                let report = with_time_limit(streams[cancelled].message()).await;
                assert_eq!(report["method"], "notifications/cancelled", "{kind:?}: {report}");
                assert_eq!(report["params"]["requestId"], questions[cancelled].id);
                let error = json!({"code": 0, "message": "Request cancelled"});
                let off = json!({"jsonrpc": "2.0", "id": questions[cancelled].id, "error": error});
                for (late, status) in [(off, 202), (answer(&questions[cancelled]), 409)] {
                    let posted = gateway.post(Some(&session), &late).await;
                    assert_eq!(posted.status().await, status, "{kind:?}: {late}");
                }
            }
            let kept = &questions[1 - cancelled];
            let posted = gateway.post(Some(&session), &answer(kept)).await;
            assert_eq!(posted.status().await, 202, "{kind:?}");
            let report = with_time_limit(streams[1 - cancelled].message()).await;
            assert_eq!(report["id"], 12 - cancelled, "{kind:?}: {report}");
            let received: Value = serde_json::from_str(text(&report["result"])).unwrap();
            assert_eq!(received["result"], accept(&kept.tool), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn dis_41_concurrent_modern_calls_get_their_own_answers() {
    for kind in KINDS {
        let gateway = AskingGateway::new(kind).await;
        let mut streams = Vec::new();
        for tool in TOOLS {
            streams.push(gateway.modern(tool, json!({})).await);
            gateway.upstream.wait_for_call_of(tool).await;
        }
        for tool in TOOLS {
            gateway.upstream.send_question(tool).await;
        }
        let mut again = Vec::new();
        for (tool, stream) in TOOLS.iter().zip(&mut streams) {
            let first = with_time_limit(stream.message()).await;
            assert_eq!(first["result"]["resultType"], "input_required", "{kind:?}: {first}");
            let received_requests = first["result"]["inputRequests"].as_object().unwrap();
            let responses: serde_json::Map<_, _> = received_requests
                .iter()
                .map(|(key, received_requests)| {
                    (key.clone(), accept(&asking_tool(&received_requests["params"])))
                })
                .collect();
            if kind.tells_call() {
                assert!(
                    received_requests.values().all(|it| asking_tool(&it["params"]) == *tool),
                    "{kind:?}: {first}"
                );
            }
            let more = json!({"requestState": first["result"]["requestState"],
                "inputResponses": responses});
            again.push(gateway.modern(tool, more).await);
        }
        for (tool, stream) in TOOLS.iter().zip(&mut again) {
            let report = with_time_limit(stream.message()).await;
            let received: Value = serde_json::from_str(text(&report["result"])).unwrap();
            assert_eq!(received["result"], accept(tool), "{kind:?}");
        }
    }
}

//! Two calls of one dialog that are asked something at the same time: each question belongs to the call that caused it
//! where that can be known, to the dialog otherwise, and an answer that is accepted reaches the server (DIS-41).

mod exchange;
mod upstream;

use exchange::Exchange;
use serde_json::{Value, json};
use upstream::{Kind, TOOLS, Upstream};

use super::{Served, text, within};
use crate::Place;

const KINDS: [Kind; 4] = [Kind::Stdio, Kind::StdioNamed, Kind::LegacyHttp, Kind::ModernHttp];

/// What every client of the gateway accepts.
const STREAMS: (&str, &str) = ("Accept", "application/json, text/event-stream");

/// A host in front of one of the servers.
struct Scene {
    upstream: Upstream,
    served: Served,
    _place: Place,
}

/// A question that a client was asked, and the id to answer it by.
#[derive(Clone, Debug)]
struct Question {
    id: Value,
    tool: String,
}

impl Scene {
    async fn new(kind: Kind) -> Self {
        let (upstream, place) = Upstream::start(kind).await;
        let served = Served::start(&place).await;
        Self { upstream, served, _place: place }
    }

    fn address(&self) -> &str {
        self.served.url().strip_prefix("http://").unwrap()
    }

    async fn api(&self, request: &str, body: Option<Value>) -> (u16, Value) {
        let (method, path) = request.split_once(' ').unwrap();
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let start = format!("{method} /api/v1/{path}");
        // A call that is followed as a stream ends with it.
        let accept = [("Accept", "application/json")];
        let mut sent = Exchange::send(self.address(), &start, &accept, &body).await;
        let status = within(sent.head()).await.status;
        match status {
            204 => (status, Value::Null),
            _ => (status, within(sent.message()).await),
        }
    }

    /// A dialog with both calls under way; its path and their numbers.
    async fn both_called(&self) -> (String, [u64; 2]) {
        let made = json!({"answers": {"elicitation": true}});
        let (_, dialog) = self.api("POST dialogs", Some(made)).await;
        let path = format!("dialogs/{}", dialog["id"].as_str().unwrap());
        let mut calls = [0; 2];
        for (call, tool) in calls.iter_mut().zip(TOOLS) {
            let new = json!({"tool": format!("it__{tool}"), "arguments": {}});
            let (_, begun) = self.api(&format!("POST {path}/calls?wait=false"), Some(new)).await;
            *call = begun["call"].as_u64().unwrap_or_else(|| panic!("{begun}"));
            self.upstream.has_call(tool).await;
        }
        (path, calls)
    }

    /// The open requests of a dialog, once there are so many.
    async fn requests(&self, path: &str, count: usize) -> Vec<Value> {
        within(async {
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

    /// How a call ended.
    async fn ended(&self, path: &str, call: u64) -> Value {
        within(async {
            loop {
                let (status, told) = self.api(&format!("GET {path}/calls/{call}"), None).await;
                if status == 200 {
                    return told;
                }
            }
        })
        .await
    }

    async fn post(&self, session: Option<&str>, message: &Value) -> Exchange {
        let session = session.map(|it| ("Mcp-Session-Id", it));
        let headers: Vec<_> = session.into_iter().chain([STREAMS]).collect();
        Exchange::send(self.address(), "POST /mcp", &headers, &message.to_string()).await
    }

    /// A session of the legacy era whose client can be asked.
    async fn open(&self) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "it", "version": "0"}});
        let mut opened = self.post(None, &request(1, "initialize", &params)).await;
        let head = within(opened.head()).await;
        let session = head.header("mcp-session-id").unwrap().to_owned();
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(Some(&session), &told).await.status().await, 202);
        session
    }

    /// A call of a client of the modern era.
    async fn modern(&self, tool: &str, more: Value) -> Exchange {
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
        Exchange::send(self.address(), "POST /mcp", &headers, &body).await
    }
}

fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn accept(tool: &str) -> Value {
    json!({"action": "accept", "content": {"for": tool}})
}

/// Which tool asks.
fn asker(params: &Value) -> String {
    params["message"].as_str().unwrap_or_else(|| panic!("{params}")).replace('?', "")
}

/// The next message of either of two streams, and of which.
async fn next(streams: &mut [Exchange; 2]) -> (usize, Value) {
    let [one, two] = streams;
    within(async {
        tokio::select! {
            message = one.message() => (0, message),
            message = two.message() => (1, message),
        }
    })
    .await
}

#[tokio::test]
async fn dis_41_each_of_two_concurrent_calls_gets_its_own_answer_over_the_api() {
    for kind in KINDS {
        let scene = Scene::new(kind).await;
        let (path, calls) = scene.both_called().await;
        for (at, tool) in TOOLS.iter().enumerate() {
            scene.upstream.ask(tool).await;
            scene.requests(&path, at + 1).await;
        }
        let asked = scene.requests(&path, 2).await;
        for (shown, (tool, call)) in asked.iter().zip(TOOLS.iter().zip(calls)) {
            assert_eq!(asker(&shown["params"]), *tool, "{kind:?}");
            match kind.tells_call() {
                true => {
                    assert_eq!((&shown["call"], &shown["calls"]), (&json!(call), &json!([call])))
                }
                false => {
                    assert_eq!((&shown["call"], &shown["calls"]), (&Value::Null, &json!(calls)))
                }
            }
        }
        for shown in asked.iter().rev() {
            let tool = asker(&shown["params"]);
            let answer = Some(json!({"result": accept(&tool)}));
            let to = format!("POST {path}/requests/{}", shown["id"]);
            assert_eq!(scene.api(&to, answer.clone()).await.0, 200, "{kind:?}");
            let (status, twice) = scene.api(&to, answer).await;
            assert_eq!((status, &twice["error"]["code"]), (404, &json!("request.unknown")));
        }
        for (tool, call) in TOOLS.iter().zip(calls) {
            let told = scene.ended(&path, call).await;
            let heard: Value = serde_json::from_str(told["text"].as_str().unwrap()).unwrap();
            assert_eq!(heard["result"], accept(tool), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn dis_41_cancelling_a_call_keeps_the_question_of_the_other_over_the_api() {
    for kind in KINDS {
        for cancelled in [0, 1] {
            let scene = Scene::new(kind).await;
            let (path, calls) = scene.both_called().await;
            for (at, tool) in TOOLS.iter().enumerate() {
                scene.upstream.ask(tool).await;
                scene.requests(&path, at + 1).await;
            }
            let asked = scene.requests(&path, 2).await;
            let (gone, kept) = (&asked[cancelled], &asked[1 - cancelled]);
            let cancel = format!("DELETE {path}/calls/{}", calls[cancelled]);
            assert_eq!(scene.api(&cancel, None).await.0, 204, "{kind:?}");
            let answer = |tool: &str| Some(json!({"result": accept(tool)}));
            if kind.tells_call() {
                let left = scene.requests(&path, 1).await;
                assert_eq!(left[0]["id"], kept["id"], "{kind:?}");
                let to = format!("POST {path}/requests/{}", gone["id"]);
                let (status, refused) = scene.api(&to, answer("gone")).await;
                assert_eq!((status, &refused["error"]["code"]), (404, &json!("request.unknown")));
            }
            let to = format!("POST {path}/requests/{}", kept["id"]);
            let tool = TOOLS[1 - cancelled];
            assert_eq!(scene.api(&to, answer(tool)).await.0, 200, "{kind:?}");
            let told = scene.ended(&path, calls[1 - cancelled]).await;
            let heard: Value = serde_json::from_str(told["text"].as_str().unwrap()).unwrap();
            assert_eq!(heard["result"], accept(tool), "{kind:?}");
        }
    }
}

/// A session with both calls under way and both asked: the streams, and the questions by tool.
async fn both_asked(scene: &Scene) -> (String, [Exchange; 2], [Question; 2]) {
    let session = scene.open().await;
    let mut streams = Vec::new();
    for (id, tool) in [11, 12].into_iter().zip(TOOLS) {
        let params = json!({"name": format!("it__{tool}"), "arguments": {}});
        streams.push(scene.post(Some(&session), &request(id, "tools/call", &params)).await);
        scene.upstream.has_call(tool).await;
    }
    let mut streams: [Exchange; 2] = streams.try_into().ok().unwrap();
    let mut questions = Vec::new();
    for tool in TOOLS {
        scene.upstream.ask(tool).await;
        let (_, asked) = next(&mut streams).await;
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        assert_eq!(asker(&asked["params"]), tool);
        questions.push(Question { id: asked["id"].clone(), tool: tool.to_owned() });
    }
    (session, streams, questions.try_into().unwrap())
}

fn answer(question: &Question) -> Value {
    json!({"jsonrpc": "2.0", "id": question.id, "result": accept(&question.tool)})
}

#[tokio::test]
async fn dis_41_each_of_two_concurrent_calls_of_a_legacy_client_gets_its_own_answer() {
    for kind in KINDS {
        let scene = Scene::new(kind).await;
        let (session, mut streams, questions) = both_asked(&scene).await;
        for question in questions.iter().rev() {
            let posted = scene.post(Some(&session), &answer(question)).await;
            assert_eq!(posted.status().await, 202, "{kind:?}");
        }
        for (tool, (stream, id)) in TOOLS.iter().zip(streams.iter_mut().zip([11, 12])) {
            let told = within(stream.message()).await;
            assert_eq!(told["id"], id, "{kind:?}: {told}");
            let heard: Value = serde_json::from_str(text(&told["result"])).unwrap();
            assert_eq!(heard["result"], accept(tool), "{kind:?}");
        }
        for question in &questions {
            let posted = scene.post(Some(&session), &answer(question)).await;
            assert_eq!(posted.status().await, 409, "{kind:?}: it was answered");
        }
    }
}

#[tokio::test]
async fn dis_41_cancelling_a_call_of_a_legacy_client_keeps_the_question_of_the_other() {
    for kind in KINDS {
        for cancelled in [0, 1] {
            let scene = Scene::new(kind).await;
            let (session, mut streams, questions) = both_asked(&scene).await;
            let params = json!({"requestId": 11 + cancelled});
            let off =
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            assert_eq!(scene.post(Some(&session), &off).await.status().await, 202);
            if kind.tells_call() {
                // Its own call is gone: the client is told, and its answer is refused.
                let told = within(streams[cancelled].message()).await;
                assert_eq!(told["method"], "notifications/cancelled", "{kind:?}: {told}");
                assert_eq!(told["params"]["requestId"], questions[cancelled].id);
                let error = json!({"code": 0, "message": "Request cancelled"});
                let off = json!({"jsonrpc": "2.0", "id": questions[cancelled].id, "error": error});
                for (late, status) in [(off, 202), (answer(&questions[cancelled]), 409)] {
                    let posted = scene.post(Some(&session), &late).await;
                    assert_eq!(posted.status().await, status, "{kind:?}: {late}");
                }
            }
            let kept = &questions[1 - cancelled];
            let posted = scene.post(Some(&session), &answer(kept)).await;
            assert_eq!(posted.status().await, 202, "{kind:?}");
            let told = within(streams[1 - cancelled].message()).await;
            assert_eq!(told["id"], 12 - cancelled, "{kind:?}: {told}");
            let heard: Value = serde_json::from_str(text(&told["result"])).unwrap();
            assert_eq!(heard["result"], accept(&kept.tool), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn dis_41_each_of_two_concurrent_calls_of_a_modern_client_gets_its_own_answer() {
    for kind in KINDS {
        let scene = Scene::new(kind).await;
        let mut streams = Vec::new();
        for tool in TOOLS {
            streams.push(scene.modern(tool, json!({})).await);
            scene.upstream.has_call(tool).await;
        }
        for tool in TOOLS {
            scene.upstream.ask(tool).await;
        }
        let mut again = Vec::new();
        for (tool, stream) in TOOLS.iter().zip(&mut streams) {
            let first = within(stream.message()).await;
            assert_eq!(first["result"]["resultType"], "input_required", "{kind:?}: {first}");
            let asked = first["result"]["inputRequests"].as_object().unwrap();
            let responses: serde_json::Map<_, _> = asked
                .iter()
                .map(|(key, asked)| (key.clone(), accept(&asker(&asked["params"]))))
                .collect();
            if kind.tells_call() {
                assert!(
                    asked.values().all(|it| asker(&it["params"]) == *tool),
                    "{kind:?}: {first}"
                );
            }
            let more = json!({"requestState": first["result"]["requestState"],
                "inputResponses": responses});
            again.push(scene.modern(tool, more).await);
        }
        for (tool, stream) in TOOLS.iter().zip(&mut again) {
            let told = within(stream.message()).await;
            let heard: Value = serde_json::from_str(text(&told["result"])).unwrap();
            assert_eq!(heard["result"], accept(tool), "{kind:?}");
        }
    }
}

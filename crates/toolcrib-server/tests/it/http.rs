//! The gateway over Streamable HTTP, HTTP+SSE and WebSocket, for clients of both eras.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use toolcrib_testkit::foreign::{self, Verdict};
use toolcrib_testkit::scripted::{Script, Step};

use crate::scene::{Scene, until, within};
use crate::web::{Served, request};

fn ask() -> Step {
    Step::Ask {
        method: "elicitation/create".to_owned(),
        params: json!({"message": "your name?", "requestedSchema": {"type": "object", "properties": {}}}),
    }
}

fn log(level: &str) -> Step {
    let params = json!({"level": level, "data": format!("a {level}")});
    Step::Notify { method: "notifications/message".to_owned(), params, times: 1 }
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|it| it["name"].as_str().unwrap()).collect()
}

async fn end(scene: Scene, served: Served) {
    served.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_session_of_the_legacy_era_is_opened_used_and_ended() {
    let scene = Scene::new(&[("one", Script::default(), json!({}))]).await;
    let served = Served::new(&scene).await;
    let list = request(2, "tools/list", json!({}));
    assert_eq!(served.post("/mcp", None, &list).await.status(), 400);
    assert_eq!(served.post("/mcp", Some("guessed"), &list).await.status(), 404);
    let session = served.open("/mcp", json!({})).await;
    assert_eq!(session.len(), 32);
    let listed = served.post("/mcp", Some(&session), &list).await.json().await;
    assert_eq!(names(&listed).len(), 3);
    let call = request(3, "tools/call", json!({"name": "one__echo", "arguments": {"a": 1}}));
    let called = served.post("/mcp", Some(&session), &call).await.json().await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"a":1}"#);
    assert_eq!(scene.host.dialogs().len(), 1, "a session is a dialog");
    let ended = served.send("DELETE", "/mcp", &[("mcp-session-id", &session)], "").await;
    assert_eq!(ended.status(), 204);
    assert_eq!(served.post("/mcp", Some(&session), &list).await.status(), 404);
    assert!(scene.host.dialogs().is_empty());
    end(scene, served).await;
}

#[tokio::test]
async fn a_request_of_the_modern_era_stands_for_itself() {
    let scene = Scene::new(&[("one", Script::default(), json!({}))]).await;
    let served = Served::new(&scene).await;
    let none = json!({});
    let listed = served.ask("/mcp", &[], "tools/list", json!({}), &none).await.json().await;
    assert_eq!((names(&listed).len(), &listed["result"]["resultType"]), (3, &json!("complete")));
    let call = json!({"name": "one__echo", "arguments": {}});
    let lies = [("mcp-name", "one__other")];
    let lied = served.ask("/mcp", &lies, "tools/call", call.clone(), &none).await;
    assert_eq!(lied.status(), 400);
    let gone = served.ask("/mcp", &[], "resources/read", json!({"uri": "no://such"}), &none).await;
    let gone = gone.json().await;
    assert_eq!(gone["error"]["code"], -32602);
    assert_eq!(gone["error"]["data"]["uri"], "no://such");
    let unknown = served.ask("/mcp", &[], "no/such", json!({}), &none).await;
    assert_eq!(unknown.status(), 404);
    assert_eq!(served.send("GET", "/mcp", &[], "").await.status(), 405);
    end(scene, served).await;
}

#[tokio::test]
async fn a_dialog_of_the_modern_era_is_named_by_a_header_or_in_the_body() {
    let script = Script::default().on("tools/call count", [Step::Count]);
    let scene = Scene::new(&[("one", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let call = json!({"name": "one__count", "arguments": {}});
    let count = async |name: &str, in_body: bool| {
        let (mut call, mut headers) = (call.clone(), Vec::new());
        match in_body {
            true => call["_meta"] = json!({"toolcrib/dialog": name}),
            false => headers.push(("toolcrib-dialog", name)),
        }
        let called = served.ask("/mcp", &headers, "tools/call", call, &json!({})).await;
        let text = called.json().await["result"]["content"][0]["text"].clone();
        serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap()
    };
    let first = count("a", false).await;
    let second = count("a", true).await;
    assert_eq!((&first["count"], &second["count"]), (&json!(1), &json!(2)));
    assert_eq!(first["pid"], second["pid"]);
    let other = count("b", false).await;
    assert_eq!(other["count"], 1);
    assert_ne!(other["pid"], first["pid"], "another dialog, another instance");
    // Its id begins with the namespace of its principal.
    let all = scene.host.dialogs();
    let named = all.iter().find(|dialog| dialog.id().ends_with(":a")).unwrap();
    assert_eq!(named.leases().len(), 1);
    // A dialog that somebody else ended begins anew.
    within(named.end()).await;
    let anew = count("a", false).await;
    assert_eq!(anew["count"], 1);
    assert_ne!(anew["pid"], first["pid"]);
    end(scene, served).await;
}

#[tokio::test]
async fn dkr_39_progress_makes_a_stream_of_an_answer_and_comes_before_it() {
    let script = Script::default()
        .on("tools/call slow", [Step::Progress { times: 3, every: 5 }, Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let params = json!({"name": "it__slow", "arguments": {}, "_meta": {"progressToken": "mine"}});
    let mut stream = served.post("/mcp", Some(&session), &request(9, "tools/call", params)).await;
    assert!(stream.is_stream());
    for step in 1..=3 {
        let told = stream.message().await;
        assert_eq!(told["params"]["progressToken"], "mine");
        assert_eq!(told["params"]["progress"], step);
    }
    let answer = stream.message().await;
    assert_eq!(answer["id"], 9);
    assert!(answer["result"]["content"].is_array());
    assert_eq!(stream.event().await, None, "the answer is the last");
    // Whoever takes no events gets the answer alone.
    let params = json!({"name": "it__slow", "arguments": {}, "_meta": {"progressToken": 1}});
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("mcp-session-id", &*session),
    ];
    let body = request(10, "tools/call", params).to_string();
    let plain = served.send("POST", "/mcp", &headers, body).await;
    assert_eq!(plain.json().await["id"], 10);
    end(scene, served).await;
}

#[tokio::test]
async fn a_question_reaches_the_client_over_http_in_the_way_of_its_era() {
    let legacy = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [ask(), Step::Answer]);
    let scene = Scene::new(&[("it", legacy, json!({}))]).await;
    let served = Served::new(&scene).await;
    let can = json!({"elicitation": {"form": {}}});
    let said = json!({"action": "accept", "content": {"name": "Ada"}});
    let call = json!({"name": "it__greet", "arguments": {}});

    let session = served.open("/mcp", can.clone()).await;
    let body = request(5, "tools/call", call.clone());
    let mut stream = served.post("/mcp", Some(&session), &body).await;
    let asked = stream.message().await;
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": said});
    assert_eq!(served.post("/mcp", Some(&session), &answer).await.status(), 202);
    assert_eq!(stream.message().await["id"], 5);

    let first = served.ask("/mcp", &[], "tools/call", call.clone(), &can).await.json().await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let key = first["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut again = call;
    again["inputResponses"] = json!({key: said});
    again["requestState"] = first["result"]["requestState"].clone();
    // Another dialog cannot go on with it.
    let other = [("toolcrib-dialog", "other")];
    let stolen = served.ask("/mcp", &other, "tools/call", again.clone(), &can).await.json().await;
    assert_eq!(stolen["error"]["code"], -32602);
    let second = served.ask("/mcp", &[], "tools/call", again.clone(), &can).await.json().await;
    assert_eq!(second["result"]["resultType"], "complete", "{second}");
    let third = served.ask("/mcp", &[], "tools/call", again, &can).await.json().await;
    assert_eq!(third["error"]["code"], -32602, "a state is good for once");
    let calls = scene.log("it").iter().filter(|it| it["method"] == "tools/call").count();
    assert_eq!(calls, 2, "each client's call was made once");
    end(scene, served).await;
}

#[tokio::test]
async fn a_question_that_its_server_calls_off_is_called_off_at_the_client() {
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}});
    let off = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q", "reason": "never mind"}});
    let script = Script { legacy_only: true, ..Script::default() }.on(
        "tools/call greet",
        [
            Step::Message(question.to_string()),
            Step::Sleep(200),
            Step::Message(off.to_string()),
            Step::Answer,
        ],
    );
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({"elicitation": {}})).await;
    let call = request(2, "tools/call", json!({"name": "it__greet", "arguments": {}}));
    let mut stream = served.post("/mcp", Some(&session), &call).await;
    let asked = stream.message().await;
    assert_eq!(asked["method"], "elicitation/create");
    let told = stream.message().await;
    assert_eq!(told["method"], "notifications/cancelled", "{told}");
    assert_eq!(told["params"], json!({"requestId": asked["id"], "reason": "never mind"}));
    assert!(stream.message().await.get("result").is_some());
    end(scene, served).await;
}

#[tokio::test]
async fn many_log_messages_at_once_all_come_in_order() {
    let many = (0..1000).map(|number| {
        let params = json!({"level": "info", "data": number});
        Step::Notify { method: "notifications/message".to_owned(), params, times: 1 }
    });
    let script = Script::default().on("tools/call work", many.chain([Step::Answer]));
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let call = json!({"name": "it__work", "arguments": {}});
    let mut stream = served.post("/mcp", Some(&session), &request(2, "tools/call", call)).await;
    for number in 0..1000 {
        assert_eq!(stream.message().await["params"]["data"], number);
    }
    assert_eq!(stream.message().await["id"], 2);
    end(scene, served).await;
}

#[tokio::test]
async fn log_messages_come_on_the_stream_of_their_call_and_only_as_severe_as_wanted() {
    let script = Script::default().on("tools/call work", [log("info"), log("error"), Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let call = json!({"name": "it__work", "arguments": {}});
    let mut stream =
        served.post("/mcp", Some(&session), &request(2, "tools/call", call.clone())).await;
    assert_eq!(stream.message().await["params"]["data"], "a info");
    assert_eq!(stream.message().await["params"]["data"], "a error");
    assert_eq!(stream.message().await["id"], 2);
    let level = request(3, "logging/setLevel", json!({"level": "warning"}));
    let set = served.post("/mcp", Some(&session), &level).await.json().await;
    assert_eq!(set["result"], json!({}));
    let mut stream =
        served.post("/mcp", Some(&session), &request(4, "tools/call", call.clone())).await;
    assert_eq!(stream.message().await["params"]["data"], "a error");
    assert_eq!(stream.message().await["id"], 4);
    let bad = request(5, "logging/setLevel", json!({"level": "loud"}));
    let bad = served.post("/mcp", Some(&session), &bad).await.json().await;
    assert_eq!(bad["error"]["code"], -32602);
    // In the modern era a request that does not ask for them is told none.
    let quiet = served.ask("/mcp", &[], "tools/call", call.clone(), &json!({})).await;
    assert!(!quiet.is_stream());
    let mut wanted = call;
    wanted["_meta"] = json!({"io.modelcontextprotocol/logLevel": "error"});
    let mut stream = served.ask("/mcp", &[], "tools/call", wanted, &json!({})).await;
    assert_eq!(stream.message().await["params"]["data"], "a error");
    assert_eq!(stream.message().await["id"], 1);
    end(scene, served).await;
}

#[tokio::test]
async fn changes_come_on_the_stream_that_a_client_has_open_for_them() {
    let one = || ("one", Script::default(), json!({}));
    let scene = Scene::new(&[one()]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    served.post("/mcp", Some(&session), &request(2, "tools/list", json!({}))).await.json().await;
    let headers = [("mcp-session-id", &*session), ("accept", "text/event-stream")];
    let mut legacy = served.send("GET", "/mcp", &headers, "").await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut modern = served.ask("/mcp", &[], "subscriptions/listen", listen, &json!({})).await;
    let acknowledged = modern.message().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    served.ask("/mcp", &[], "tools/list", json!({}), &json!({})).await.json().await;
    scene.servers(&[one(), ("two", Script::default(), json!({}))]);
    within(scene.host.reload()).await.unwrap();
    assert_eq!(legacy.message().await["method"], "notifications/tools/list_changed");
    let told = modern.message().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    // What changed while nobody listened is told when somebody does.
    drop(legacy);
    scene.servers(&[one()]);
    within(scene.host.reload()).await.unwrap();
    let mut legacy = served.send("GET", "/mcp", &headers, "").await;
    let listed = served.post("/mcp", Some(&session), &request(3, "tools/list", json!({}))).await;
    assert_eq!(names(&listed.json().await).len(), 3);
    scene.servers(&[one(), ("two", Script::default(), json!({}))]);
    within(scene.host.reload()).await.unwrap();
    assert_eq!(legacy.message().await["method"], "notifications/tools/list_changed");
    // Streams on which nobody is answered end with the front.
    served.end().await;
    assert_eq!(legacy.event().await, None);
    within(scene.host.close()).await;
}

#[tokio::test]
async fn one_server_is_offered_under_its_own_names() {
    let scene =
        Scene::new(&[("one", Script::default(), json!({})), ("two", Script::default(), json!({}))])
            .await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp/two", json!({})).await;
    let list = request(2, "tools/list", json!({}));
    let listed = served.post("/mcp/two", Some(&session), &list).await.json().await;
    assert!(names(&listed).contains(&"echo") && names(&listed).len() == 3, "{listed}");
    let call = request(3, "tools/call", json!({"name": "echo", "arguments": {"b": 2}}));
    let called = served.post("/mcp/two", Some(&session), &call).await.json().await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"b":2}"#);
    let foreign = request(4, "tools/call", json!({"name": "one__echo", "arguments": {}}));
    let foreign = served.post("/mcp/two", Some(&session), &foreign).await.json().await;
    assert_eq!(foreign["error"]["code"], -32602);
    assert_eq!(served.post("/mcp", Some(&session), &list).await.status(), 404, "another address");
    assert_eq!(served.post("/mcp/three", None, &list).await.status(), 404);
    assert!(scene.log("one").iter().all(|it| it["method"] != "tools/call"));
    end(scene, served).await;
}

#[tokio::test]
async fn a_call_whose_client_hangs_up_is_cancelled_at_the_server() {
    let script = Script::default().on(
        "tools/call stuck",
        [Step::Progress { times: 1, every: 1 }, Step::Sleep(60_000), Step::Answer],
    );
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let call = json!({"name": "it__stuck", "arguments": {}, "_meta": {"progressToken": 1}});
    let mut stream = served.ask("/mcp", &[], "tools/call", call.clone(), &json!({})).await;
    stream.message().await;
    drop(stream);
    let cancelled = |times: usize| {
        let log = scene.log("it");
        log.iter().filter(|it| it["method"] == "notifications/cancelled").count() == times
    };
    // The server is a process of its own.
    let until = async |times| {
        while !cancelled(times) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await
        }
    };
    within(until(1)).await;
    // A client of the legacy era says so, and may break off before or not.
    let session = served.open("/mcp", json!({})).await;
    let mut stream =
        served.post("/mcp", Some(&session), &request(6, "tools/call", call.clone())).await;
    stream.message().await;
    drop(stream);
    // Nothing tells that nothing comes but time.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(cancelled(1), "it was called off although nobody said so");
    let off =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}});
    assert_eq!(served.post("/mcp", Some(&session), &off).await.status(), 202);
    within(until(2)).await;
    let mut stream = served.post("/mcp", Some(&session), &request(7, "tools/call", call)).await;
    stream.message().await;
    let off =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(served.post("/mcp", Some(&session), &off).await.status(), 202);
    assert_eq!(stream.event().await, None);
    within(until(3)).await;
    end(scene, served).await;
}

#[tokio::test]
async fn the_old_sse_and_a_websocket_carry_the_same() {
    let legacy = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [ask(), Step::Answer]);
    let scene = Scene::new(&[("it", legacy, json!({}))]).await;
    let served = Served::new(&scene).await;
    let opening = json!({
        "protocolVersion": "2024-11-05", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "old", "version": "1"},
    });
    let said = json!({"action": "accept", "content": {}});
    let call = request(2, "tools/call", json!({"name": "it__greet", "arguments": {}}));

    let mut stream = served.send("GET", "/sse", &[], "").await;
    let (name, endpoint) = stream.event().await.unwrap();
    assert_eq!(name, "endpoint");
    let post = async |message: Value| {
        assert_eq!(served.post(&endpoint, None, &message).await.status(), 202);
    };
    post(request(1, "initialize", opening.clone())).await;
    assert_eq!(stream.message().await["result"]["protocolVersion"], "2024-11-05");
    post(call.clone()).await;
    let asked = stream.message().await;
    assert_eq!(asked["method"], "elicitation/create");
    post(json!({"jsonrpc": "2.0", "id": asked["id"], "result": said})).await;
    assert_eq!(stream.message().await["id"], 2);
    drop(stream);
    // The session ends with its stream.
    let gone = async || {
        while served.post(&endpoint, None, &call).await.status() != 404 {}
    };
    within(gone()).await;

    let mut request = format!("ws://{}/ws", served.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let (mut socket, answer) =
        within(tokio_tungstenite::client_async(request, stream)).await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "mcp");
    let mut say = async |message: Value| -> Value {
        socket.send(Frame::text(message.to_string())).await.unwrap();
        loop {
            if let Frame::Text(text) = within(socket.next()).await.unwrap().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    };
    let opened = say(crate::web::request(1, "initialize", opening)).await;
    assert_eq!(opened["id"], 1);
    let asked = say(call).await;
    assert_eq!(asked["method"], "elicitation/create");
    let answer = say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": said})).await;
    assert_eq!(answer["id"], 2);
    assert_eq!(say(json!([])).await["error"]["code"], -32600);
    end(scene, served).await;
}

#[tokio::test]
async fn each_request_counts_on_whichever_way_it_comes_and_the_connection_stays() {
    let limits = json!({"gateway": {"limits": {"rate": 4}}});
    let scene = Scene::with(&limits, &[]).await;
    let served = Served::new(&scene).await;
    let ping = |id: i64| request(id, "ping", json!({}));

    let address = format!("ws://{}/ws", served.address).into_client_request().unwrap();
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let (mut socket, _) = within(tokio_tungstenite::client_async(address, stream)).await.unwrap();
    let mut next = async |say: &[Value]| -> Vec<Value> {
        for message in say {
            socket.send(Frame::text(message.to_string())).await.unwrap();
        }
        let mut answers = Vec::new();
        while answers.len() < say.len() {
            if let Frame::Text(text) = within(socket.next()).await.unwrap().unwrap() {
                answers.push(serde_json::from_str::<Value>(&text).unwrap());
            }
        }
        answers
    };
    let answers = next(&(0..200).map(ping).collect::<Vec<_>>()).await;
    let refused: Vec<_> = answers.iter().filter(|it| it.get("error").is_some()).collect();
    assert!(!refused.is_empty() && refused.len() < 200, "{}", refused.len());
    for answer in &refused {
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("gateway.limits.rate"), "{message}");
    }
    let wait = refused.last().unwrap()["error"]["data"]["retryAfterMs"].as_u64().unwrap();
    assert!((1..=250).contains(&wait), "a fourth of a second at most: {wait}");
    // Whoever does as he is told is heard again, on the same connection.
    tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
    assert_eq!(next(&[ping(200)]).await[0]["result"], json!({}));

    // The messages of one post count one by one; the post itself is within the limit by now.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let all: Vec<Value> = (0..50).map(ping).collect();
    let answer = served.post("/mcp", Some("any"), &json!(all)).await;
    let said = (answer.status().as_u16(), answer.header("retry-after"));
    assert_eq!(said, (429, Some("1".to_owned())));

    // The person at this machine is not counted on his own streams.
    let mut local = scene.client();
    for _ in 0..20 {
        assert_eq!(local.request("ping", json!({})).await["result"], json!({}));
    }
    local.end().await;
    end(scene, served).await;
}

/// What foreign programs may send: nothing of it may be taken, and nothing may break.
#[tokio::test]
async fn what_is_malformed_is_refused_and_everything_goes_on() {
    let scene = Scene::new(&[("one", Script::default(), json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let json = ("content-type", "application/json");
    let own = ("mcp-session-id", &*session);
    for (path, bytes) in foreign::known().unwrap() {
        let answer = foreign::check(served.address, &session, &bytes).await;
        let answer = answer.unwrap_or_else(|wrong| panic!("{}: {wrong}", path.display()));
        let is_bad = path.file_name().unwrap().to_str().unwrap().starts_with("bad-");
        assert!(!is_bad || answer == Verdict::Refused, "{}: {answer:?}", path.display());
    }
    let list = request(2, "tools/list", serde_json::json!({})).to_string();
    for (headers, status) in [
        (vec![("content-type", "text/plain"), own], 415),
        (vec![json, own, ("mcp-protocol-version", "1999-01-01")], 400),
        (vec![json, ("mcp-protocol-version", "2026-07-28")], 400),
        (vec![json, own, ("host", "evil.example")], 403),
        (vec![json, own, ("origin", "http://evil.example")], 403),
    ] {
        let answer = served.send("POST", "/mcp", &headers, list.clone()).await;
        assert_eq!(answer.status(), status, "{headers:?}");
    }
    assert_eq!(served.send("PUT", "/mcp", &[own], "").await.status(), 405);
    assert_eq!(served.send("GET", "/ws", &[], "").await.status(), 426);
    assert_eq!(served.send("POST", "/sse", &[json], list.clone()).await.status(), 400);
    let listed = served.post("/mcp", Some(&session), &request(2, "tools/list", json!({}))).await;
    assert_eq!(names(&listed.json().await).len(), 3);
    end(scene, served).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_slows_nobody_else() {
    let script = Script::default()
        .on("tools/call chatty", [Step::Progress { times: 20_000, every: 0 }, Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({"session": {"scope": "shared"}}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let params = json!({"name": "it__chatty", "arguments": {}, "_meta": {"progressToken": 1}});
    let mut slow = served.post("/mcp", Some(&session), &request(1, "tools/call", params)).await;
    slow.message().await;
    for number in 0..50 {
        let call = json!({"name": "it__echo", "arguments": {"number": number}});
        let called = served.ask("/mcp", &[], "tools/call", call, &json!({})).await.json().await;
        assert!(!called["result"]["isError"].as_bool().unwrap_or_default(), "{called}");
    }
    drop(slow);
    end(scene, served).await;
}

#[tokio::test]
async fn what_a_prompt_or_a_template_may_be_filled_with_is_asked_of_its_server() {
    let completed = json!({"completion": {"values": ["Paris"], "total": 1, "hasMore": false}});
    let prompts = json!({"prompts": [{"name": "trip", "arguments": [{"name": "city"}]}]});
    let script = Script::default()
        .on("prompts/list", [Step::Result(prompts)])
        .on("completion/complete", [Step::Result(completed.clone())]);
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let listed = served.ask("/mcp", &[], "prompts/list", json!({}), &json!({})).await.json().await;
    let name = listed["result"]["prompts"][0]["name"].as_str().expect("a prompt").to_owned();
    let asked = json!({
        "ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "city", "value": "P"},
    });
    let answer =
        served.ask("/mcp", &[], "completion/complete", asked, &json!({})).await.json().await;
    assert_eq!(answer["result"]["completion"], completed["completion"], "{answer}");
    let sent = scene.log("it");
    let sent = sent.iter().find(|it| it["method"] == "completion/complete").unwrap();
    assert_eq!(sent["params"]["ref"]["name"], "trip", "the server's own name");
    let unknown = json!({"ref": {"type": "ref/prompt", "name": "none"}, "argument": {}});
    let unknown =
        served.ask("/mcp", &[], "completion/complete", unknown, &json!({})).await.json().await;
    assert_eq!(unknown["error"]["code"], -32602);
    end(scene, served).await;
}

#[tokio::test]
async fn min_72_a_subscribed_resource_is_told_of_over_http_in_both_eras() {
    let updated = |uri: &str| Step::Notify {
        method: "notifications/resources/updated".to_owned(),
        params: json!({"uri": uri}),
        times: 1,
    };
    let resources =
        json!({"resources": [{"uri": "doc://a", "name": "a"}, {"uri": "doc://b", "name": "b"}]});
    let opened = json!({
        "protocolVersion": "2025-11-25", "serverInfo": {"name": "library", "version": "1"},
        "capabilities": {"resources": {"subscribe": true}, "tools": {}},
    });
    let script = Script { legacy_only: true, ..Script::default() }
        .on("resources/list", [Step::Result(resources)])
        .on("initialize", [Step::Result(opened)])
        .on("resources/subscribe", [Step::Result(json!({}))])
        .on("resources/unsubscribe", [Step::Result(json!({}))])
        .on("tools/call touch", [updated("doc://b"), updated("doc://a"), Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({"session": {"scope": "shared"}}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let post = async |id, method: &str, params: Value| {
        served.post("/mcp", Some(&session), &request(id, method, params)).await.json().await
    };
    let subscribed = post(2, "resources/subscribe", json!({"uri": "doc://a"})).await;
    assert_eq!(subscribed["result"], json!({})); // MIN-72
    let headers = [("mcp-session-id", &*session), ("accept", "text/event-stream")];
    let mut legacy = served.send("GET", "/mcp", &headers, "").await;
    let wanted = json!({"notifications": {"resourceSubscriptions": ["doc://a"]}});
    let mut modern = served.ask("/mcp", &[], "subscriptions/listen", wanted, &json!({})).await;
    assert_eq!(
        modern.message().await["params"]["notifications"]["resourceSubscriptions"],
        json!(["doc://a"])
    );
    let call = json!({"name": "it__touch", "arguments": {}});
    served
        .ask("/mcp", &[("toolcrib-dialog", "other")], "tools/call", call.clone(), &json!({}))
        .await;
    for stream in [&mut legacy, &mut modern] {
        let told = stream.message().await;
        assert_eq!(told["method"], "notifications/resources/updated"); // MIN-72
        assert_eq!(told["params"]["uri"], "doc://a"); // MIN-72: not the other one
    }
    drop(modern);
    post(3, "resources/unsubscribe", json!({"uri": "doc://a"})).await;
    let asked = |method: &str| scene.log("it").iter().filter(|it| it["method"] == method).count();
    // Who listened in the modern era says so by going.
    let over = async {
        while asked("resources/unsubscribe") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within(over).await; // MIN-72
    end(scene, served).await;
}

#[tokio::test]
async fn each_request_is_asked_only_what_it_says_itself_whatever_others_of_its_dialog_said() {
    let twice = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [ask(), ask(), Step::Answer]);
    let scene = Scene::new(&[("it", twice, json!({}))]).await;
    let served = Served::new(&scene).await;
    let (can, none) = (json!({"elicitation": {"form": {}}}), json!({}));
    let call = json!({"name": "it__greet", "arguments": {}});
    let named = [("toolcrib-dialog", "mine")];
    for extra in [&[][..], &named] {
        for (says, asked) in [(&none, false), (&can, true), (&none, false), (&can, true)] {
            let called =
                served.ask("/mcp", extra, "tools/call", call.clone(), says).await.json().await;
            assert_eq!(called["result"]["resultType"] == "input_required", asked, "{called}");
            if !asked {
                continue;
            }
            // It comes back saying less, and is not asked again.
            let key = called["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
            let mut again = call.clone();
            again["inputResponses"] = json!({key: {"action": "decline"}});
            again["requestState"] = called["result"]["requestState"].clone();
            let done = served.ask("/mcp", extra, "tools/call", again, &none).await.json().await;
            assert_eq!(done["result"]["resultType"], "complete", "{done}");
            assert!(done.to_string().contains("-32601"), "{done}");
        }
    }
    end(scene, served).await;
}

#[tokio::test]
async fn a_call_that_nobody_comes_back_for_does_not_hold_up_the_end() {
    let legacy = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [ask(), Step::Answer]);
    let scene = Scene::new(&[("it", legacy, json!({}))]).await;
    let served = Served::new(&scene).await;
    let can = json!({"elicitation": {"form": {}}});
    let call = json!({"name": "it__greet", "arguments": {}});
    let first = served.ask("/mcp", &[], "tools/call", call, &can).await.json().await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let begun = std::time::Instant::now();
    served.front.close();
    assert_eq!(served.front.calls_under_way(), 0);
    let is_cancelled = |it: &Value| it["method"] == "notifications/cancelled";
    until(|| scene.log("it").iter().any(is_cancelled)).await;
    end(scene, served).await;
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

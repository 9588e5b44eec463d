//! Streamable HTTP, HTTP+SSE and WebSocket for clients of both eras.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use toolcrib_testkit::gateway_input::{self, InputOutcome};
use toolcrib_testkit::scripted::{Script, Step};

use super::HTTP_MODE;
use crate::fixture::{TestHost, wait_until, with_timeout};
use crate::http_client::{TestServer, request};

fn elicitation_step() -> Step {
    Step::SendRequest {
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

async fn close(host_fixture: TestHost, server: TestServer) {
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn legacy_session_opens_serves_and_ends() {
    let host_fixture = TestHost::start(HTTP_MODE, &[("one", Script::default(), json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let list = request(2, "tools/list", json!({}));
    assert_eq!(server.post("/mcp", None, &list).await.status(), 400);
    assert_eq!(server.post("/mcp", Some("guessed"), &list).await.status(), 404);
    let session = server.open_session("/mcp", json!({})).await;
    assert_eq!(session.len(), 32);
    let listed = server.post("/mcp", Some(&session), &list).await.json().await;
    assert_eq!(names(&listed).len(), 3);
    let call = request(3, "tools/call", json!({"name": "one__echo", "arguments": {"a": 1}}));
    let called = server.post("/mcp", Some(&session), &call).await.json().await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"a":1}"#);
    assert_eq!(host_fixture.host.dialogs().len(), 1, "a session is a dialog");
    let ended = server.send("DELETE", "/mcp", &[("mcp-session-id", &session)], "").await;
    assert_eq!(ended.status(), 204);
    assert_eq!(server.post("/mcp", Some(&session), &list).await.status(), 404);
    assert!(host_fixture.host.dialogs().is_empty());
    close(host_fixture, server).await;
}

#[tokio::test]
async fn modern_request_needs_no_session() {
    let host_fixture = TestHost::start(HTTP_MODE, &[("one", Script::default(), json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let none = json!({});
    let listed = server.post_modern("/mcp", &[], "tools/list", json!({}), &none).await.json().await;
    assert_eq!((names(&listed).len(), &listed["result"]["resultType"]), (3, &json!("complete")));
    let call = json!({"name": "one__echo", "arguments": {}});
    let lies = [("mcp-name", "one__other")];
    let lied = server.post_modern("/mcp", &lies, "tools/call", call.clone(), &none).await;
    assert_eq!(lied.status(), 400);
    let gone =
        server.post_modern("/mcp", &[], "resources/read", json!({"uri": "no://such"}), &none).await;
    let gone = gone.json().await;
    assert_eq!(gone["error"]["code"], -32602);
    assert_eq!(gone["error"]["data"]["uri"], "no://such");
    let unknown = server.post_modern("/mcp", &[], "no/such", json!({}), &none).await;
    assert_eq!(unknown.status(), 404);
    assert_eq!(server.send("GET", "/mcp", &[], "").await.status(), 405);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn modern_dialog_is_named_by_header_or_meta() {
    let script = Script::default().on("tools/call count", [Step::CountCalls]);
    let host_fixture = TestHost::start(HTTP_MODE, &[("one", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let call = json!({"name": "one__count", "arguments": {}});
    let count = async |name: &str, in_body: bool| {
        let (mut call, mut headers) = (call.clone(), Vec::new());
        match in_body {
            true => call["_meta"] = json!({"toolcrib/dialog": name}),
            false => headers.push(("toolcrib-dialog", name)),
        }
        let called = server.post_modern("/mcp", &headers, "tools/call", call, &json!({})).await;
        let text = called.json().await["result"]["content"][0]["text"].clone();
        serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap()
    };
    let first = count("a", false).await;
    let second = count("a", true).await;
    assert_eq!((&first["count"], &second["count"]), (&json!(1), &json!(2)));
    assert_eq!(first["pid"], second["pid"]);
    let other = count("b", false).await;
    assert_eq!(other["count"], 1);
    assert_ne!(other["pid"], first["pid"], "dialogs have separate instances");
    // The dialog id starts with the principal's namespace.
    let all = host_fixture.host.dialogs();
    let named = all.iter().find(|dialog| dialog.id().ends_with(":a")).unwrap();
    assert_eq!(named.leases().len(), 1);
    // A dialog that was ended elsewhere is created again.
    with_timeout(named.close()).await;
    let anew = count("a", false).await;
    assert_eq!(anew["count"], 1);
    assert_ne!(anew["pid"], first["pid"]);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn dkr_39_progress_turns_the_response_into_a_stream() {
    let script = Script::default()
        .on("tools/call slow", [Step::Progress { times: 3, every: 5 }, Step::Respond]);
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let params = json!({"name": "it__slow", "arguments": {}, "_meta": {"progressToken": "mine"}});
    let mut stream = server.post("/mcp", Some(&session), &request(9, "tools/call", params)).await;
    assert!(stream.is_stream());
    for step in 1..=3 {
        let told = stream.next_message().await;
        assert_eq!(told["params"]["progressToken"], "mine");
        assert_eq!(told["params"]["progress"], step);
    }
    let answer = stream.next_message().await;
    assert_eq!(answer["id"], 9);
    assert!(answer["result"]["content"].is_array());
    assert_eq!(stream.next_event().await, None, "no event follows the response");
    // Clients without event streams get only the response.
    let params = json!({"name": "it__slow", "arguments": {}, "_meta": {"progressToken": 1}});
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("mcp-session-id", &*session),
    ];
    let body = request(10, "tools/call", params).to_string();
    let plain = server.send("POST", "/mcp", &headers, body).await;
    assert_eq!(plain.json().await["id"], 10);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn elicitation_over_http_matches_the_client_era() {
    let legacy = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [elicitation_step(), Step::Respond]);
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", legacy, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let can = json!({"elicitation": {"form": {}}});
    let said = json!({"action": "accept", "content": {"name": "Ada"}});
    let call = json!({"name": "it__greet", "arguments": {}});

    let session = server.open_session("/mcp", can.clone()).await;
    let body = request(5, "tools/call", call.clone());
    let mut stream = server.post("/mcp", Some(&session), &body).await;
    let asked = stream.next_message().await;
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": said});
    assert_eq!(server.post("/mcp", Some(&session), &answer).await.status(), 202);
    assert_eq!(stream.next_message().await["id"], 5);

    let first =
        server.post_modern("/mcp", &[], "tools/call", call.clone(), &can).await.json().await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let key = first["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut again = call;
    again["inputResponses"] = json!({key: said});
    again["requestState"] = first["result"]["requestState"].clone();
    // Another dialog cannot use the state.
    let other = [("toolcrib-dialog", "other")];
    let stolen =
        server.post_modern("/mcp", &other, "tools/call", again.clone(), &can).await.json().await;
    assert_eq!(stolen["error"]["code"], -32602);
    let second =
        server.post_modern("/mcp", &[], "tools/call", again.clone(), &can).await.json().await;
    assert_eq!(second["result"]["resultType"], "complete", "{second}");
    let third = server.post_modern("/mcp", &[], "tools/call", again, &can).await.json().await;
    assert_eq!(third["error"]["code"], -32602, "a state is valid once");
    let calls = host_fixture.log("it").iter().filter(|it| it["method"] == "tools/call").count();
    assert_eq!(calls, 2, "each client's call reached the server once");
    close(host_fixture, server).await;
}

#[tokio::test]
async fn server_request_cancellation_reaches_the_client() {
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}});
    let off = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q", "reason": "never mind"}});
    let script = Script { legacy_only: true, ..Script::default() }.on(
        "tools/call greet",
        [
            Step::Message(question.to_string()),
            Step::Sleep(200),
            Step::Message(off.to_string()),
            Step::Respond,
        ],
    );
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({"elicitation": {}})).await;
    let call = request(2, "tools/call", json!({"name": "it__greet", "arguments": {}}));
    let mut stream = server.post("/mcp", Some(&session), &call).await;
    let asked = stream.next_message().await;
    assert_eq!(asked["method"], "elicitation/create");
    let told = stream.next_message().await;
    assert_eq!(told["method"], "notifications/cancelled", "{told}");
    assert_eq!(told["params"], json!({"requestId": asked["id"], "reason": "never mind"}));
    assert!(stream.next_message().await.get("result").is_some());
    close(host_fixture, server).await;
}

#[tokio::test]
async fn log_message_burst_arrives_in_order() {
    let many = (0..1000).map(|number| {
        let params = json!({"level": "info", "data": number});
        Step::Notify { method: "notifications/message".to_owned(), params, times: 1 }
    });
    let script = Script::default().on("tools/call work", many.chain([Step::Respond]));
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let call = json!({"name": "it__work", "arguments": {}});
    let mut stream = server.post("/mcp", Some(&session), &request(2, "tools/call", call)).await;
    for number in 0..1000 {
        assert_eq!(stream.next_message().await["params"]["data"], number);
    }
    assert_eq!(stream.next_message().await["id"], 2);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn log_messages_follow_their_call_and_the_log_level() {
    let script =
        Script::default().on("tools/call work", [log("info"), log("error"), Step::Respond]);
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let call = json!({"name": "it__work", "arguments": {}});
    let mut stream =
        server.post("/mcp", Some(&session), &request(2, "tools/call", call.clone())).await;
    assert_eq!(stream.next_message().await["params"]["data"], "a info");
    assert_eq!(stream.next_message().await["params"]["data"], "a error");
    assert_eq!(stream.next_message().await["id"], 2);
    let level = request(3, "logging/setLevel", json!({"level": "warning"}));
    let set = server.post("/mcp", Some(&session), &level).await.json().await;
    assert_eq!(set["result"], json!({}));
    let mut stream =
        server.post("/mcp", Some(&session), &request(4, "tools/call", call.clone())).await;
    assert_eq!(stream.next_message().await["params"]["data"], "a error");
    assert_eq!(stream.next_message().await["id"], 4);
    let bad = request(5, "logging/setLevel", json!({"level": "loud"}));
    let bad = server.post("/mcp", Some(&session), &bad).await.json().await;
    assert_eq!(bad["error"]["code"], -32602);
    // A modern request without a log level gets no log messages.
    let quiet = server.post_modern("/mcp", &[], "tools/call", call.clone(), &json!({})).await;
    assert!(!quiet.is_stream());
    let mut wanted = call;
    wanted["_meta"] = json!({"io.modelcontextprotocol/logLevel": "error"});
    let mut stream = server.post_modern("/mcp", &[], "tools/call", wanted, &json!({})).await;
    assert_eq!(stream.next_message().await["params"]["data"], "a error");
    assert_eq!(stream.next_message().await["id"], 1);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn list_changes_arrive_on_the_open_event_stream() {
    let one = || ("one", Script::default(), json!({}));
    let host_fixture = TestHost::start(HTTP_MODE, &[one()]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    server.post("/mcp", Some(&session), &request(2, "tools/list", json!({}))).await.json().await;
    let headers = [("mcp-session-id", &*session), ("accept", "text/event-stream")];
    let mut legacy = server.send("GET", "/mcp", &headers, "").await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut modern =
        server.post_modern("/mcp", &[], "subscriptions/listen", listen, &json!({})).await;
    let acknowledged = modern.next_message().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    server.post_modern("/mcp", &[], "tools/list", json!({}), &json!({})).await.json().await;
    host_fixture.servers(&[one(), ("two", Script::default(), json!({}))]);
    with_timeout(host_fixture.host.reload()).await.unwrap();
    assert_eq!(legacy.next_message().await["method"], "notifications/tools/list_changed");
    let told = modern.next_message().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    // Changes between two streams are sent on the next one.
    drop(legacy);
    host_fixture.servers(&[one()]);
    with_timeout(host_fixture.host.reload()).await.unwrap();
    let mut legacy = server.send("GET", "/mcp", &headers, "").await;
    let listed = server.post("/mcp", Some(&session), &request(3, "tools/list", json!({}))).await;
    assert_eq!(names(&listed.json().await).len(), 3);
    host_fixture.servers(&[one(), ("two", Script::default(), json!({}))]);
    with_timeout(host_fixture.host.reload()).await.unwrap();
    assert_eq!(legacy.next_message().await["method"], "notifications/tools/list_changed");
    // Notification streams end with the front.
    server.close().await;
    assert_eq!(legacy.next_event().await, None);
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn single_server_endpoint_uses_original_names() {
    let host_fixture = TestHost::start(
        HTTP_MODE,
        &[("one", Script::default(), json!({})), ("two", Script::default(), json!({}))],
    )
    .await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp/two", json!({})).await;
    let list = request(2, "tools/list", json!({}));
    let listed = server.post("/mcp/two", Some(&session), &list).await.json().await;
    assert!(names(&listed).contains(&"echo") && names(&listed).len() == 3, "{listed}");
    let call = request(3, "tools/call", json!({"name": "echo", "arguments": {"b": 2}}));
    let called = server.post("/mcp/two", Some(&session), &call).await.json().await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"b":2}"#);
    let foreign = request(4, "tools/call", json!({"name": "one__echo", "arguments": {}}));
    let foreign = server.post("/mcp/two", Some(&session), &foreign).await.json().await;
    assert_eq!(foreign["error"]["code"], -32602);
    assert_eq!(server.post("/mcp", Some(&session), &list).await.status(), 404, "another address");
    assert_eq!(server.post("/mcp/three", None, &list).await.status(), 404);
    assert!(host_fixture.log("one").iter().all(|it| it["method"] != "tools/call"));
    close(host_fixture, server).await;
}

#[tokio::test]
async fn client_disconnect_cancels_modern_calls_only() {
    let script = Script::default().on(
        "tools/call stuck",
        [Step::Progress { times: 1, every: 1 }, Step::Sleep(60_000), Step::Respond],
    );
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let call = json!({"name": "it__stuck", "arguments": {}, "_meta": {"progressToken": 1}});
    let mut stream = server.post_modern("/mcp", &[], "tools/call", call.clone(), &json!({})).await;
    stream.next_message().await;
    drop(stream);
    let cancelled = |times: usize| {
        let log = host_fixture.log("it");
        log.iter().filter(|it| it["method"] == "notifications/cancelled").count() == times
    };
    // The server is another process.
    let until = async |times| {
        while !cancelled(times) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await
        }
    };
    with_timeout(until(1)).await;
    // In the legacy era only a notification cancels, not a disconnect.
    let session = server.open_session("/mcp", json!({})).await;
    let mut stream =
        server.post("/mcp", Some(&session), &request(6, "tools/call", call.clone())).await;
    stream.next_message().await;
    drop(stream);
    // Only time can show that no cancellation comes.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(cancelled(1), "cancelled without a notification");
    let off =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}});
    assert_eq!(server.post("/mcp", Some(&session), &off).await.status(), 202);
    with_timeout(until(2)).await;
    let mut stream = server.post("/mcp", Some(&session), &request(7, "tools/call", call)).await;
    stream.next_message().await;
    let off =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(server.post("/mcp", Some(&session), &off).await.status(), 202);
    assert_eq!(stream.next_event().await, None);
    with_timeout(until(3)).await;
    close(host_fixture, server).await;
}

#[tokio::test]
async fn legacy_sse_and_websocket_carry_calls_and_elicitation() {
    let legacy = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [elicitation_step(), Step::Respond]);
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", legacy, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let opening = json!({
        "protocolVersion": "2024-11-05", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "old", "version": "1"},
    });
    let said = json!({"action": "accept", "content": {}});
    let call = request(2, "tools/call", json!({"name": "it__greet", "arguments": {}}));

    let mut stream = server.send("GET", "/sse", &[], "").await;
    let (name, endpoint) = stream.next_event().await.unwrap();
    assert_eq!(name, "endpoint");
    let post = async |message: Value| {
        assert_eq!(server.post(&endpoint, None, &message).await.status(), 202);
    };
    post(request(1, "initialize", opening.clone())).await;
    assert_eq!(stream.next_message().await["result"]["protocolVersion"], "2024-11-05");
    post(call.clone()).await;
    let asked = stream.next_message().await;
    assert_eq!(asked["method"], "elicitation/create");
    post(json!({"jsonrpc": "2.0", "id": asked["id"], "result": said})).await;
    assert_eq!(stream.next_message().await["id"], 2);
    drop(stream);
    // The session ends with its stream.
    let gone = async || {
        while server.post(&endpoint, None, &call).await.status() != 404 {}
    };
    with_timeout(gone()).await;

    let mut request = format!("ws://{}/ws", server.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (mut socket, answer) =
        with_timeout(tokio_tungstenite::client_async(request, stream)).await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "mcp");
    let mut say = async |message: Value| -> Value {
        socket.send(Frame::text(message.to_string())).await.unwrap();
        loop {
            if let Frame::Text(text) = with_timeout(socket.next()).await.unwrap().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    };
    let opened = say(crate::http_client::request(1, "initialize", opening)).await;
    assert_eq!(opened["id"], 1);
    let asked = say(call).await;
    assert_eq!(asked["method"], "elicitation/create");
    let answer = say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": said})).await;
    assert_eq!(answer["id"], 2);
    assert_eq!(say(json!([])).await["error"]["code"], -32600);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn rate_limit_counts_requests_on_every_transport() {
    let limits = json!({"gateway": {"limits": {"rate": 4}}});
    let host_fixture = TestHost::start_with(HTTP_MODE, &limits, &[]).await;
    let server = TestServer::new(&host_fixture).await;
    let ping = |id: i64| request(id, "ping", json!({}));

    let address = format!("ws://{}/ws", server.address).into_client_request().unwrap();
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (mut socket, _) =
        with_timeout(tokio_tungstenite::client_async(address, stream)).await.unwrap();
    let mut next = async |say: &[Value]| -> Vec<Value> {
        for message in say {
            socket.send(Frame::text(message.to_string())).await.unwrap();
        }
        let mut answers = Vec::new();
        while answers.len() < say.len() {
            if let Frame::Text(text) = with_timeout(socket.next()).await.unwrap().unwrap() {
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
    assert!((1..=250).contains(&wait), "at most 250 ms: {wait}");
    // A client that waits as told is served again on the same connection.
    tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
    assert_eq!(next(&[ping(200)]).await[0]["result"], json!({}));

    // Each message of a batch counts, although the POST itself is within the limit.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let all: Vec<Value> = (0..50).map(ping).collect();
    let answer = server.post("/mcp", Some("any"), &json!(all)).await;
    let said = (answer.status().as_u16(), answer.header("retry-after"));
    assert_eq!(said, (429, Some("1".to_owned())));

    // The local user's own streams are not limited.
    let mut local = host_fixture.client();
    for _ in 0..20 {
        assert_eq!(local.request("ping", json!({})).await["result"], json!({}));
    }
    local.close().await;
    close(host_fixture, server).await;
}

/// Malformed input of foreign programs must be rejected without damage.
#[tokio::test]
async fn malformed_requests_are_rejected_and_service_continues() {
    let host_fixture = TestHost::start(HTTP_MODE, &[("one", Script::default(), json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let json = ("content-type", "application/json");
    let own = ("mcp-session-id", &*session);
    for (path, bytes) in gateway_input::load_seeds().unwrap() {
        let answer = gateway_input::send_input(server.address, &session, &bytes).await;
        let answer = answer.unwrap_or_else(|wrong| panic!("{}: {wrong}", path.display()));
        let is_bad = path.file_name().unwrap().to_str().unwrap().starts_with("bad-");
        assert!(!is_bad || answer == InputOutcome::Rejected, "{}: {answer:?}", path.display());
    }
    let list = request(2, "tools/list", serde_json::json!({})).to_string();
    for (headers, status) in [
        (vec![("content-type", "text/plain"), own], 415),
        (vec![json, own, ("mcp-protocol-version", "1999-01-01")], 400),
        (vec![json, ("mcp-protocol-version", "2026-07-28")], 400),
        (vec![json, own, ("host", "evil.example")], 403),
        (vec![json, own, ("origin", "http://evil.example")], 403),
    ] {
        let answer = server.send("POST", "/mcp", &headers, list.clone()).await;
        assert_eq!(answer.status(), status, "{headers:?}");
    }
    assert_eq!(server.send("PUT", "/mcp", &[own], "").await.status(), 405);
    assert_eq!(server.send("GET", "/ws", &[], "").await.status(), 426);
    assert_eq!(server.send("POST", "/sse", &[json], list.clone()).await.status(), 400);
    let listed = server.post("/mcp", Some(&session), &request(2, "tools/list", json!({}))).await;
    assert_eq!(names(&listed.json().await).len(), 3);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn non_reading_client_does_not_delay_other_clients() {
    let script = Script::default()
        .on("tools/call chatty", [Step::Progress { times: 20_000, every: 0 }, Step::Respond]);
    let host_fixture =
        TestHost::start(HTTP_MODE, &[("it", script, json!({"session": {"scope": "shared"}}))])
            .await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let params = json!({"name": "it__chatty", "arguments": {}, "_meta": {"progressToken": 1}});
    let mut slow = server.post("/mcp", Some(&session), &request(1, "tools/call", params)).await;
    slow.next_message().await;
    for number in 0..50 {
        let call = json!({"name": "it__echo", "arguments": {"number": number}});
        let called =
            server.post_modern("/mcp", &[], "tools/call", call, &json!({})).await.json().await;
        assert!(!called["result"]["isError"].as_bool().unwrap_or_default(), "{called}");
    }
    drop(slow);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn completion_is_forwarded_with_the_original_prompt_name() {
    let completed = json!({"completion": {"values": ["Paris"], "total": 1, "hasMore": false}});
    let prompts = json!({"prompts": [{"name": "trip", "arguments": [{"name": "city"}]}]});
    let script = Script::default()
        .on("prompts/list", [Step::Result(prompts)])
        .on("completion/complete", [Step::Result(completed.clone())]);
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let listed =
        server.post_modern("/mcp", &[], "prompts/list", json!({}), &json!({})).await.json().await;
    let name = listed["result"]["prompts"][0]["name"].as_str().expect("a prompt").to_owned();
    let asked = json!({
        "ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "city", "value": "P"},
    });
    let answer = server
        .post_modern("/mcp", &[], "completion/complete", asked, &json!({}))
        .await
        .json()
        .await;
    assert_eq!(answer["result"]["completion"], completed["completion"], "{answer}");
    let sent = host_fixture.log("it");
    let sent = sent.iter().find(|it| it["method"] == "completion/complete").unwrap();
    assert_eq!(sent["params"]["ref"]["name"], "trip", "the server's own prompt name");
    let unknown = json!({"ref": {"type": "ref/prompt", "name": "none"}, "argument": {}});
    let unknown = server
        .post_modern("/mcp", &[], "completion/complete", unknown, &json!({}))
        .await
        .json()
        .await;
    assert_eq!(unknown["error"]["code"], -32602);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn min_72_resource_update_reaches_subscribers_of_both_eras() {
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
        .on("tools/call touch", [updated("doc://b"), updated("doc://a"), Step::Respond]);
    let host_fixture =
        TestHost::start(HTTP_MODE, &[("it", script, json!({"session": {"scope": "shared"}}))])
            .await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let post = async |id, method: &str, params: Value| {
        server.post("/mcp", Some(&session), &request(id, method, params)).await.json().await
    };
    let subscribed = post(2, "resources/subscribe", json!({"uri": "doc://a"})).await;
    assert_eq!(subscribed["result"], json!({})); // MIN-72
    let headers = [("mcp-session-id", &*session), ("accept", "text/event-stream")];
    let mut legacy = server.send("GET", "/mcp", &headers, "").await;
    let wanted = json!({"notifications": {"resourceSubscriptions": ["doc://a"]}});
    let mut modern =
        server.post_modern("/mcp", &[], "subscriptions/listen", wanted, &json!({})).await;
    assert_eq!(
        modern.next_message().await["params"]["notifications"]["resourceSubscriptions"],
        json!(["doc://a"])
    );
    let call = json!({"name": "it__touch", "arguments": {}});
    server
        .post_modern(
            "/mcp",
            &[("toolcrib-dialog", "other")],
            "tools/call",
            call.clone(),
            &json!({}),
        )
        .await;
    for stream in [&mut legacy, &mut modern] {
        let told = stream.next_message().await;
        assert_eq!(told["method"], "notifications/resources/updated"); // MIN-72
        assert_eq!(told["params"]["uri"], "doc://a"); // MIN-72: not the other one
    }
    drop(modern);
    post(3, "resources/unsubscribe", json!({"uri": "doc://a"})).await;
    let asked =
        |method: &str| host_fixture.log("it").iter().filter(|it| it["method"] == method).count();
    // A modern client unsubscribes by disconnecting.
    let over = async {
        while asked("resources/unsubscribe") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    with_timeout(over).await; // MIN-72
    close(host_fixture, server).await;
}

#[tokio::test]
async fn capabilities_are_per_request_not_per_dialog() {
    let twice = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [elicitation_step(), elicitation_step(), Step::Respond]);
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", twice, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let (can, none) = (json!({"elicitation": {"form": {}}}), json!({}));
    let call = json!({"name": "it__greet", "arguments": {}});
    let named = [("toolcrib-dialog", "mine")];
    for extra in [&[][..], &named] {
        for (says, asked) in [(&none, false), (&can, true), (&none, false), (&can, true)] {
            let called = server
                .post_modern("/mcp", extra, "tools/call", call.clone(), says)
                .await
                .json()
                .await;
            assert_eq!(called["result"]["resultType"] == "input_required", asked, "{called}");
            if !asked {
                continue;
            }
            // The client returns with fewer capabilities and gets no further request.
            let key = called["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
            let mut again = call.clone();
            again["inputResponses"] = json!({key: {"action": "decline"}});
            again["requestState"] = called["result"]["requestState"].clone();
            let done =
                server.post_modern("/mcp", extra, "tools/call", again, &none).await.json().await;
            assert_eq!(done["result"]["resultType"], "complete", "{done}");
            assert!(done.to_string().contains("-32601"), "{done}");
        }
    }
    close(host_fixture, server).await;
}

#[tokio::test]
async fn abandoned_parked_call_does_not_delay_shutdown() {
    let legacy = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [elicitation_step(), Step::Respond]);
    let host_fixture = TestHost::start(HTTP_MODE, &[("it", legacy, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let can = json!({"elicitation": {"form": {}}});
    let call = json!({"name": "it__greet", "arguments": {}});
    let first = server.post_modern("/mcp", &[], "tools/call", call, &can).await.json().await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let begun = std::time::Instant::now();
    server.front.close();
    assert_eq!(server.front.calls_in_flight(), 0);
    let is_cancelled = |it: &Value| it["method"] == "notifications/cancelled";
    wait_until(|| host_fixture.log("it").iter().any(is_cancelled)).await;
    close(host_fixture, server).await;
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

//! Connections over HTTP: headers, lost sessions, diagnosis and HTTP+SSE.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_testkit::http::{BodyStep, HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_upstream::conn::{Conn, Demand, ServerState, SessionPermit};

use crate::test_host::{TestHost, call_tool, result_text, tool_names, with_time_limit};

/// Response of a server that supports both eras. `None` for notifications.
fn answer(message: &Value) -> Option<Value> {
    let schema = |property| json!({"type": "object", "properties": {"where": property}});
    let result = match message["method"].as_str()? {
        "server/discover" => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": [
            {"name": "größe", "inputSchema": schema(json!({"type": "string", "x-mcp-header": "Where"}))},
            {"name": "bad", "inputSchema": schema(json!({"type": "object", "x-mcp-header": "Where"}))},
        ]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "done"}]}),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

/// Response of a legacy-only server.
fn legacy_answer(message: &Value) -> Option<Value> {
    let unknown = json!({"code": -32601, "message": "Method not found"});
    match message["method"].as_str()? {
        "server/discover" => Some(json!({"jsonrpc": "2.0", "id": message["id"], "error": unknown})),
        _ => answer(message),
    }
}

fn body(request: &ReceivedRequest) -> Value {
    serde_json::from_str(&request.body).unwrap_or_default()
}

fn reply(answer: Option<Value>) -> ScriptedResponse {
    answer.map_or_else(
        || ScriptedResponse::status(202),
        |answer| ScriptedResponse::json(answer.to_string()),
    )
}

async fn connect(host: &TestHost, entry: &Value) -> (Conn, SessionPermit) {
    let conn = host.start(host.server(entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    (conn, permit)
}

async fn done(permit: &SessionPermit) {
    let result = call_tool(&permit.session, "größe", &json!({"where": " Köln"})).await.unwrap();
    assert_eq!(result_text(&result), "done");
}

#[tokio::test]
async fn modern_requests_repeat_their_body_in_headers() {
    let server = HttpServer::start(|request| reply(answer(&body(request)))).await.unwrap();
    let host = TestHost::new();
    let (conn, permit) = connect(&host, &json!({"url": server.url("/mcp")})).await;
    // A tool with an impossible header is left out and reported.
    let catalog = conn.view().catalog.unwrap();
    assert_eq!((tool_names(&catalog), catalog.defects.len()), (vec!["größe"], 1));
    done(&permit).await;
    let requests = server.requests();
    let methods: Vec<_> =
        requests.iter().map(|request| request.header("mcp-method").unwrap()).collect();
    assert_eq!(methods, ["server/discover", "tools/list", "tools/call"]);
    for request in &requests {
        assert_eq!((request.method.as_str(), request.header("mcp-session-id")), ("POST", None));
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(body(request)["method"], request.header("mcp-method").unwrap());
    }
    let header = |at: usize, name| requests[at].header(name);
    assert_eq!((header(1, "mcp-name"), header(1, "mcp-param-where")), (None, None));
    assert_eq!(header(2, "mcp-name"), Some("=?base64?Z3LDtsOfZQ==?="));
    assert_eq!(header(2, "mcp-param-where"), Some("=?base64?IEvDtmxu?="));
    drop((permit, conn));
    host.close().await;
}

/// Some servers refuse a header that differs from the `initialize` params.
#[tokio::test]
async fn initialize_does_not_carry_the_version_of_discover() {
    let server = HttpServer::start(|request| reply(legacy_answer(&body(request)))).await.unwrap();
    let host = TestHost::new();
    let (conn, permit) = connect(&host, &json!({"url": server.url("/mcp")})).await;
    done(&permit).await;
    let requests = server.requests();
    let posts = requests.iter().filter(|request| request.method == "POST");
    let sent = posts.map(|request| {
        let method = body(request)["method"].as_str().unwrap().to_owned();
        (method, request.header("mcp-protocol-version").map(str::to_owned))
    });
    let expected = [
        ("server/discover", Some("2026-07-28")),
        ("initialize", None),
        ("notifications/initialized", Some("2025-11-25")),
        ("tools/list", Some("2025-11-25")),
        ("tools/call", Some("2025-11-25")),
    ];
    let expected =
        expected.map(|(method, version)| (method.to_owned(), version.map(str::to_owned)));
    assert_eq!(sent.collect::<Vec<_>>(), expected);
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn forgotten_session_is_reopened_without_repeating_calls() {
    let sessions = AtomicUsize::new(0);
    let server = HttpServer::start(move |request| {
        let message = body(request);
        if message["method"] == "initialize" {
            let session = format!("s-{}", sessions.fetch_add(1, Ordering::SeqCst) + 1);
            return reply(answer(&message)).header("Mcp-Session-Id", &session);
        }
        let forgotten = request.header("mcp-session-id") == Some("s-1");
        match request.method.as_str() {
            "GET" => ScriptedResponse::status(405),
            _ if forgotten && message["method"] == "tools/call" => ScriptedResponse::status(404),
            _ => reply(legacy_answer(&message)),
        }
    });
    let server = server.await.unwrap();
    let host = TestHost::new();
    let entry = json!({
        "url": server.url("/mcp"), "protocol": "legacy", "lifecycle": {"reconnect": {"auto": false}},
    });
    let (conn, permit) = connect(&host, &entry).await;
    // A session that is forgotten at once is an ordinary failure, so wait past the minimum lifetime.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let error = call_tool(&permit.session, "größe", &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "the request failed");
    drop(permit);
    host.updates.wait_for(2, "state ready").await;
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    done(&permit).await;
    let calls = server.requests().into_iter().filter(|request| request.body.contains("tools/call"));
    let sessions: Vec<_> =
        calls.map(|request| request.header("mcp-session-id").unwrap().to_owned()).collect();
    assert_eq!(sessions, ["s-1", "s-2"]);
    assert_eq!(conn.view().lifecycle.state(), ServerState::Ready);
    drop((permit, conn));
    host.close().await;
}

/// Message and fix of a failed connect to this URL.
async fn failure(kind: &str, url: &str) -> (String, String) {
    let host = TestHost::new();
    let entry = json!({
        "transport": {"kind": kind, "url": url}, "lifecycle": {"retry": {"max": 0}},
    });
    let conn = host.start(host.server(&entry));
    let failure = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
    drop(conn);
    host.close().await;
    (failure.message, failure.fix.unwrap())
}

#[tokio::test]
async fn ext_07_failed_connect_names_the_likely_cause_and_a_fix() {
    let healthy = HttpServer::start(|request| match request.path.as_str() {
        "/health" => ScriptedResponse::status(200),
        _ => ScriptedResponse::status(404),
    });
    let healthy = healthy.await.unwrap();
    let web =
        HttpServer::start(|_| ScriptedResponse::status(200).header("content-type", "text/html"));
    let web = web.await.unwrap();
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}/mcp", port.local_addr().unwrap());
    drop(port);
    let secure = web.url("/mcp").replace("http:", "https:");
    for kind in ["streamable_http", "sse"] {
        for (url, cause, step) in [
            (closed.as_str(), "nothing listens", "start the server"),
            (&healthy.url("/wrong"), "accepts no messages at this path", "`/mcp`"),
            (&web.url("/"), "not of an MCP server", "belongs to an MCP server"),
            (&secure, "no trusted TLS connection", "`http://`"),
        ] {
            let (message, fix) = failure(kind, url).await;
            assert!(message.contains(cause), "{kind} {url}: {message}");
            assert!(fix.contains(step), "{kind} {url}: {fix}");
        }
    }
}

/// HTTP+SSE server with its stream at `/sse`.
async fn event_stream(answer: fn(&Value) -> Option<Value>) -> HttpServer {
    let (says, steps) = mpsc::channel(16);
    let steps = Mutex::new(Some(steps));
    let server =
        HttpServer::start(move |request| match (request.method.as_str(), &*request.path) {
            ("GET", "/sse") => {
                let steps = steps.lock().unwrap().take().unwrap();
                ScriptedResponse::events()
                    .send("event: endpoint\ndata: /messages\n\n")
                    .then_steps_from(steps)
            }
            ("POST", "/messages") => {
                if let Some(answer) = answer(&body(request)) {
                    says.try_send(BodyStep::Send(format!("data: {answer}\n\n"))).unwrap();
                }
                ScriptedResponse::status(202)
            }
            _ => ScriptedResponse::status(405),
        });
    server.await.unwrap()
}

#[tokio::test]
async fn hol_27_http_and_sse_carries_either_era() {
    for (answer, version) in [
        (answer as fn(&Value) -> Option<Value>, "2026-07-28"),
        (legacy_answer as fn(&Value) -> Option<Value>, "2025-11-25"),
    ] {
        // Configured and detected.
        for kind in ["sse", "streamable_http"] {
            let server = event_stream(answer).await;
            let host = TestHost::new();
            let entry = json!({"transport": {"kind": kind, "url": server.url("/sse")}});
            let (conn, permit) = connect(&host, &entry).await;
            assert_eq!(permit.session.agreed().version.as_str(), version, "{kind}");
            // Stream transports have no tool headers, so both tools are callable.
            assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["größe", "bad"]);
            done(&permit).await;
            drop((permit, conn));
            host.close().await;
        }
    }
}

#[tokio::test]
async fn dkr_09_bearer_token_is_sent_and_a_401_is_not_retried() {
    let server = HttpServer::start(|request| match request.header("authorization") {
        Some("Bearer s3cret") => reply(answer(&body(request))),
        _ => ScriptedResponse::status(401).header("www-authenticate", "Bearer"),
    });
    let server = server.await.unwrap();
    let host = TestHost::with(Default::default(), &[("TOKEN", "s3cret")]);
    let url = server.url("/mcp");
    let entry = json!({"url": url, "auth": {"kind": "bearer", "token": "${TOKEN}"}});
    let (conn, permit) = connect(&host, &entry).await;
    done(&permit).await;
    drop((permit, conn));
    let before = server.requests().len();
    let conn = host.start(host.server(&json!({"url": url})));
    let failure = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
    assert_eq!(failure.kind, toolcrib_upstream::conn::FailureKind::Authentication);
    // A retry would end the same way.
    assert_eq!(
        (conn.view().lifecycle.state(), conn.view().lifecycle.attempts()),
        (ServerState::Failed, 1)
    );
    assert!(server.requests().len() - before <= 3);
    drop(conn);
    host.close().await;
}

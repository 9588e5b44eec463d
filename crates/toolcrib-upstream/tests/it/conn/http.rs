//! Connections to servers at an address: headers, lost sessions, and HTTP+SSE of either era.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_testkit::http::{Asked, HttpServer, Reply, Step};
use toolcrib_upstream::conn::{Conn, State, Ticket, Want};

use crate::scene::{Scene, names, text, tool, within};

/// What a server answers to a message in whichever era it is asked; nothing where nothing is due.
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

/// The same of a server that has never heard of the modern era.
fn legacy_answer(message: &Value) -> Option<Value> {
    let unknown = json!({"code": -32601, "message": "Method not found"});
    match message["method"].as_str()? {
        "server/discover" => Some(json!({"jsonrpc": "2.0", "id": message["id"], "error": unknown})),
        _ => answer(message),
    }
}

fn body(asked: &Asked) -> Value {
    serde_json::from_str(&asked.body).unwrap_or_default()
}

fn reply(answer: Option<Value>) -> Reply {
    answer.map_or_else(|| Reply::status(202), |answer| Reply::json(answer.to_string()))
}

async fn connect(scene: &Scene, entry: &Value) -> (Conn, Ticket) {
    let conn = scene.start(scene.server(entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    (conn, ticket)
}

async fn done(ticket: &Ticket) {
    let result = tool(&ticket.session, "größe", &json!({"where": " Köln"})).await.unwrap();
    assert_eq!(text(&result), "done");
}

#[tokio::test]
async fn requests_of_the_modern_era_repeat_in_headers_what_they_say() {
    let server = HttpServer::start(|asked| reply(answer(&body(asked)))).await.unwrap();
    let scene = Scene::new();
    let (conn, ticket) = connect(&scene, &json!({"url": server.url("/mcp")})).await;
    // What cannot be said in a header cannot be called, and is told of.
    let catalog = conn.view().catalog.unwrap();
    assert_eq!((names(&catalog), catalog.oddities.len()), (vec!["größe"], 1));
    done(&ticket).await;
    let asked = server.requests();
    let methods: Vec<_> = asked.iter().map(|asked| asked.header("mcp-method").unwrap()).collect();
    assert_eq!(methods, ["server/discover", "tools/list", "tools/call"]);
    for asked in &asked {
        assert_eq!((asked.method.as_str(), asked.header("mcp-session-id")), ("POST", None));
        assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(body(asked)["method"], asked.header("mcp-method").unwrap());
    }
    let header = |at: usize, name| asked[at].header(name);
    assert_eq!((header(1, "mcp-name"), header(1, "mcp-param-where")), (None, None));
    assert_eq!(header(2, "mcp-name"), Some("=?base64?Z3LDtsOfZQ==?="));
    assert_eq!(header(2, "mcp-param-where"), Some("=?base64?IEvDtmxu?="));
    drop((ticket, conn));
    scene.close().await;
}

/// Some servers compare the header with what `initialize` says, and refuse it where they differ.
#[tokio::test]
async fn initialize_does_not_carry_the_version_of_the_question_before_it() {
    let server = HttpServer::start(|asked| reply(legacy_answer(&body(asked)))).await.unwrap();
    let scene = Scene::new();
    let (conn, ticket) = connect(&scene, &json!({"url": server.url("/mcp")})).await;
    done(&ticket).await;
    let asked = server.requests();
    let asked = asked.iter().filter(|asked| asked.method == "POST");
    let said = asked.map(|asked| {
        let method = body(asked)["method"].as_str().unwrap().to_owned();
        (method, asked.header("mcp-protocol-version").map(str::to_owned))
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
    assert_eq!(said.collect::<Vec<_>>(), expected);
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_opened_anew_and_no_call_is_made_twice() {
    let sessions = AtomicUsize::new(0);
    let server = HttpServer::start(move |asked| {
        let message = body(asked);
        if message["method"] == "initialize" {
            let session = format!("s-{}", sessions.fetch_add(1, Ordering::SeqCst) + 1);
            return reply(answer(&message)).header("Mcp-Session-Id", &session);
        }
        let forgotten = asked.header("mcp-session-id") == Some("s-1");
        match asked.method.as_str() {
            "GET" => Reply::status(405),
            _ if forgotten && message["method"] == "tools/call" => Reply::status(404),
            _ => reply(legacy_answer(&message)),
        }
    });
    let server = server.await.unwrap();
    let scene = Scene::new();
    let entry = json!({
        "url": server.url("/mcp"), "protocol": "legacy", "lifecycle": {"reconnect": {"auto": false}},
    });
    let (conn, ticket) = connect(&scene, &entry).await;
    // A session that is forgotten as soon as it is made is a failure like any other.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let error = tool(&ticket.session, "größe", &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "the request got no answer");
    drop(ticket);
    scene.heard.times(2, "state ready").await;
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    done(&ticket).await;
    let calls = server.requests().into_iter().filter(|asked| asked.body.contains("tools/call"));
    let sessions: Vec<_> =
        calls.map(|asked| asked.header("mcp-session-id").unwrap().to_owned()).collect();
    assert_eq!(sessions, ["s-1", "s-2"]);
    assert_eq!(conn.view().life.state(), State::Ready);
    drop((ticket, conn));
    scene.close().await;
}

/// Why a server at this address cannot be connected to, and what to do.
async fn failure(kind: &str, url: &str) -> (String, String) {
    let scene = Scene::new();
    let entry = json!({
        "transport": {"kind": kind, "url": url}, "lifecycle": {"retry": {"max": 0}},
    });
    let conn = scene.start(scene.server(&entry));
    let failure = within(conn.ready(Want::Call)).await.unwrap_err();
    drop(conn);
    scene.close().await;
    (failure.message, failure.fix.unwrap())
}

#[tokio::test]
async fn ext_07_a_failed_connect_says_the_likely_cause_and_what_to_do() {
    let healthy = HttpServer::start(|asked| match asked.path.as_str() {
        "/health" => Reply::status(200),
        _ => Reply::status(404),
    });
    let healthy = healthy.await.unwrap();
    let web = HttpServer::start(|_| Reply::status(200).header("content-type", "text/html"));
    let web = web.await.unwrap();
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}/mcp", port.local_addr().unwrap());
    drop(port);
    let secure = web.url("/mcp").replace("http:", "https:");
    for kind in ["streamable_http", "sse"] {
        for (url, cause, step) in [
            (closed.as_str(), "nothing listens", "start the server"),
            (&healthy.url("/wrong"), "takes no messages at this path", "`/mcp`"),
            (&web.url("/"), "not of an MCP server", "is that of an MCP server"),
            (&secure, "no encryption that can be trusted", "`http://`"),
        ] {
            let (message, fix) = failure(kind, url).await;
            assert!(message.contains(cause), "{kind} {url}: {message}");
            assert!(fix.contains(step), "{kind} {url}: {fix}");
        }
    }
}

/// A server of HTTP+SSE at `/sse`, which takes messages at another place.
async fn event_stream(answer: fn(&Value) -> Option<Value>) -> HttpServer {
    let (says, steps) = mpsc::channel(16);
    let steps = Mutex::new(Some(steps));
    let server = HttpServer::start(move |asked| match (asked.method.as_str(), &*asked.path) {
        ("GET", "/sse") => {
            let steps = steps.lock().unwrap().take().unwrap();
            Reply::events().send("event: endpoint\ndata: /messages\n\n").live(steps)
        }
        ("POST", "/messages") => {
            if let Some(answer) = answer(&body(asked)) {
                says.try_send(Step::Send(format!("data: {answer}\n\n"))).unwrap();
            }
            Reply::status(202)
        }
        _ => Reply::status(405),
    });
    server.await.unwrap()
}

#[tokio::test]
async fn hol_27_either_era_travels_on_http_and_sse() {
    for (answer, version) in [
        (answer as fn(&Value) -> Option<Value>, "2026-07-28"),
        (legacy_answer as fn(&Value) -> Option<Value>, "2025-11-25"),
    ] {
        // Whether it is said or has to be found out.
        for kind in ["sse", "streamable_http"] {
            let server = event_stream(answer).await;
            let scene = Scene::new();
            let entry = json!({"transport": {"kind": kind, "url": server.url("/sse")}});
            let (conn, ticket) = connect(&scene, &entry).await;
            assert_eq!(ticket.session.agreed().version.as_str(), version, "{kind}");
            // The name of a tool is no header here, so both can be called.
            assert_eq!(names(&conn.view().catalog.unwrap()), ["größe", "bad"]);
            done(&ticket).await;
            drop((ticket, conn));
            scene.close().await;
        }
    }
}

#[tokio::test]
async fn dkr_09_a_server_that_asks_for_a_token_gets_the_configured_one_and_nobody_else_is_tried_again()
 {
    let server = HttpServer::start(|asked| match asked.header("authorization") {
        Some("Bearer s3cret") => reply(answer(&body(asked))),
        _ => Reply::status(401).header("www-authenticate", "Bearer"),
    });
    let server = server.await.unwrap();
    let scene = Scene::with(Default::default(), &[("TOKEN", "s3cret")]);
    let url = server.url("/mcp");
    let entry = json!({"url": url, "auth": {"kind": "bearer", "token": "${TOKEN}"}});
    let (conn, ticket) = connect(&scene, &entry).await;
    done(&ticket).await;
    drop((ticket, conn));
    let before = server.requests().len();
    let conn = scene.start(scene.server(&json!({"url": url})));
    let failure = within(conn.ready(Want::Call)).await.unwrap_err();
    assert_eq!(failure.kind, toolcrib_upstream::conn::FailureKind::Authentication);
    // Nothing that is sent again would end otherwise.
    assert_eq!((conn.view().life.state(), conn.view().life.attempts()), (State::Failed, 1));
    assert!(server.requests().len() - before <= 3);
    drop(conn);
    scene.close().await;
}

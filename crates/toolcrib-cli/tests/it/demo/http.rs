//! Tests raw HTTP requests to the demo server: access control, headers and sessions.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{HttpServer, with_time_limit};

/// A server, and a client that sends requests with chosen headers.
struct RawHttpClient {
    _server: HttpServer,
    address: String,
}

#[derive(Debug)]
struct RawResponse {
    status: u16,
    head: String,
    body: String,
}

impl RawResponse {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn code(&self) -> (u16, i64) {
        (self.status, self.json()["error"]["code"].as_i64().unwrap())
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl RawHttpClient {
    async fn start() -> Self {
        let server = HttpServer::start().await;
        let address = server.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        Self { address: address.to_owned(), _server: server }
    }

    async fn send(&self, start: &str, headers: &[(&str, &str)], body: &str) -> RawResponse {
        let mut all = vec![("Connection", "close"), ("Host", self.address.as_str())];
        all.extend([
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ]);
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other == name));
        all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
        let head: String = all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request =
            format!("{start} HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let mut stream = with_time_limit(TcpStream::connect(&self.address)).await.unwrap();
        with_time_limit(stream.write_all(request.as_bytes())).await.unwrap();
        let mut answer = String::new();
        with_time_limit(stream.read_to_string(&mut answer)).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        RawResponse { status, head: head.to_owned(), body: body.to_owned() }
    }

    async fn post(&self, headers: &[(&str, &str)], body: &Value) -> RawResponse {
        self.send("POST /mcp", headers, &body.to_string()).await
    }

    /// Opens a session and returns its id.
    async fn initialize(&self) -> String {
        let answer = self.post(&[], &initialize_request()).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25");
        answer.header("mcp-session-id").unwrap().to_owned()
    }
}

fn initialize_request() -> Value {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "hand", "version": "0"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn ping_request() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
}

/// A modern request.
fn modern_request(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

#[tokio::test]
async fn foreign_origins_and_hosts_are_rejected() {
    let client = RawHttpClient::start().await;
    for (header, value, status) in [
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "http://localhost:3000", 403),
        ("Host", "evil.example", 403),
        ("Host", "localhost:1", 200),
    ] {
        assert_eq!(
            client.post(&[(header, value)], &initialize_request()).await.status,
            status,
            "{header} {value}"
        );
    }
    for start in ["GET /mcp", "DELETE /mcp", "GET /"] {
        let refused = client.send(start, &[("Origin", "http://evil.example")], "").await;
        assert_eq!(refused.status, 403, "{start}");
    }
}

#[tokio::test]
async fn endpoint_accepts_only_json_posts() {
    let client = RawHttpClient::start().await;
    for (start, headers, status) in [
        ("POST /", vec![], 404),
        ("POST /mcp/", vec![], 404),
        ("GET /mcp", vec![], 405),
        ("PUT /mcp", vec![], 405),
        ("DELETE /mcp", vec![], 405),
        ("POST /mcp", vec![("Content-Type", "text/plain")], 415),
        ("POST /mcp", vec![("Content-Type", "application/json; charset=utf-8")], 200),
    ] {
        let answer = client.send(start, &headers, &initialize_request().to_string()).await;
        assert_eq!(answer.status, status, "{start} {headers:?}");
    }
    let large = format!("\"{}\"", "x".repeat(5 << 20));
    assert_eq!(client.send("POST /mcp", &[], &large).await.status, 413);
    assert_eq!(client.send("POST /mcp", &[], "{nonsense").await.code(), (400, -32700));
    assert_eq!(client.send("POST /mcp", &[], "[]").await.code(), (400, -32600));
    client.initialize().await;
}

#[tokio::test]
async fn session_is_required_and_ends_on_delete() {
    let client = RawHttpClient::start().await;
    assert_eq!(client.post(&[], &ping_request()).await.status, 400);
    assert_eq!(client.post(&[("Mcp-Session-Id", "made-up")], &ping_request()).await.status, 404);
    let (one, other) = (client.initialize().await, client.initialize().await);
    assert!(one != other && one.len() >= 32);
    let session = [("Mcp-Session-Id", one.as_str()), ("Mcp-Protocol-Version", "2025-11-25")];
    assert_eq!(client.post(&session, &ping_request()).await.json()["result"], json!({}));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepted = client.post(&session, &initialized).await;
    assert_eq!((accepted.status, accepted.body.as_str()), (202, ""));
    let wrong = [session[0], ("Mcp-Protocol-Version", "1999-01-01")];
    assert_eq!(client.post(&wrong, &ping_request()).await.status, 400);
    // A JSON-RPC error does not end the session.
    let unknown = json!({"jsonrpc": "2.0", "id": 1, "method": "no/such"});
    assert_eq!(client.post(&session, &unknown).await.code(), (200, -32601));
    assert_eq!(client.send("DELETE /mcp", &session, "").await.status, 204);
    assert_eq!(client.post(&session, &ping_request()).await.status, 404);
    assert_eq!(client.send("DELETE /mcp", &session, "").await.status, 404);
    assert_eq!(client.post(&[("Mcp-Session-Id", &other)], &ping_request()).await.status, 200);
    let bad = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let refused = client.post(&[], &bad).await;
    assert_eq!(refused.header("mcp-session-id"), None, "a failed handshake opens no session");
}

#[tokio::test]
async fn batch_is_answered_on_one_event_stream() {
    let client = RawHttpClient::start().await;
    let session = client.initialize().await;
    let batch = json!([ping_request(), {"jsonrpc": "2.0", "id": 2, "method": "no/such"}, {"jsonrpc": "2.0", "method": "notifications/x"}]);
    let answer = client.post(&[("Mcp-Session-Id", &session)], &batch).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.body.matches("data: ").count(), 2, "{answer:?}");
    let notifications = json!([{"jsonrpc": "2.0", "method": "notifications/x"}]);
    assert_eq!(client.post(&[("Mcp-Session-Id", &session)], &notifications).await.status, 202);
}

#[tokio::test]
async fn modern_headers_must_match_body() {
    let client = RawHttpClient::start().await;
    let call = modern_request("tools/call", json!({"name": "echo", "arguments": {"text": "a"}}));
    let version = ("Mcp-Protocol-Version", "2026-07-28");
    let (method, name) = (("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"));
    let good = client.post(&[version, method, name], &call).await;
    assert_eq!((good.status, good.header("mcp-session-id")), (200, None));
    let encoded = ("Mcp-Name", "=?base64?ZWNobw==?=");
    assert_eq!(client.post(&[version, method, encoded], &call).await.status, 200);
    for headers in [
        vec![],
        vec![method, name],
        vec![version, name],
        vec![version, method],
        vec![version, method, ("Mcp-Name", "add")],
        vec![version, ("Mcp-Method", "tools/list"), name],
        vec![("Mcp-Protocol-Version", "2025-11-25"), method, name],
    ] {
        assert_eq!(client.post(&headers, &call).await.code(), (400, -32020), "{headers:?}");
    }
}

#[tokio::test]
async fn modern_errors_have_matching_http_status() {
    let client = RawHttpClient::start().await;
    let version = ("Mcp-Protocol-Version", "2026-07-28");
    let list = ("Mcp-Method", "tools/list");
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    assert_eq!(client.post(&[version, list], &bare).await.code(), (400, -32602));
    let mut later = modern_request("tools/list", json!({}));
    later["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let output = ("Mcp-Protocol-Version", "2031-01-01");
    assert_eq!(client.post(&[output, list], &later).await.code(), (400, -32022));
    let unknown = modern_request("no/such", json!({}));
    assert_eq!(
        client.post(&[version, ("Mcp-Method", "no/such")], &unknown).await.code(),
        (404, -32601)
    );
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    assert_eq!(client.post(&[version], &notification).await.status, 202);
    let answered = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    assert_eq!(client.post(&[version], &answered).await.status, 400);
}

#[tokio::test]
async fn slow_call_is_answered_as_event_stream() {
    let client = RawHttpClient::start().await;
    let mut call =
        modern_request("tools/call", json!({"name": "slow", "arguments": {"seconds": 0}}));
    call["params"]["_meta"]["progressToken"] = json!("p");
    let headers = [
        ("Mcp-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "slow"),
    ];
    let answer = client.post(&headers, &call).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let events: Vec<Value> = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(events.len(), 5);
    assert_eq!(events[0]["params"]["progressToken"], "p");
    assert_eq!(
        (&events[4]["id"], &events[4]["result"]["resultType"]),
        (&json!(1), &json!("complete"))
    );
}

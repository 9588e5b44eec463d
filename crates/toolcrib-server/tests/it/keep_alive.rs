//! Requests on persistent connections, byte by byte: responses, their order, and when the connection closes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;
use toolcrib_testkit::scripted::{Script, Step};

use crate::fixture::{TestClient, TestHost, with_timeout};
use crate::http_client::{TestServer, request};

const ALIVE: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A connection for raw bytes.
struct RawConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response as received.
#[derive(Debug, PartialEq, Eq)]
struct RawResponse {
    status: u16,
    head: String,
    body: String,
}

impl RawResponse {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|connection| connection.split_once(": "));
        lines.find_map(|(key, value)| (key == name).then_some(value))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

impl RawConnection {
    async fn open(server: &TestServer) -> Self {
        let stream = with_timeout(TcpStream::connect(server.address)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        RawConnection { stream, buffer: Vec::new() }
    }

    async fn send(&mut self, text: &str) {
        with_timeout(self.stream.write_all(text.as_bytes())).await.unwrap();
    }

    /// Reads once. Returns `false` at the end of the stream.
    async fn read_more(&mut self) -> bool {
        with_timeout(self.stream.read_buf(&mut self.buffer)).await.unwrap_or_default() > 0
    }

    /// Reads up to and including a text.
    async fn read_until(&mut self, end: &str) -> String {
        loop {
            let found = self.buffer.windows(end.len()).position(|it| it == end.as_bytes());
            if let Some(found) = found {
                return self.read_bytes(found + end.len()).await;
            }
            assert!(
                self.read_more().await,
                "connection closed after {:?}",
                String::from_utf8_lossy(&self.buffer)
            );
        }
    }

    async fn read_bytes(&mut self, length: usize) -> String {
        while self.buffer.len() < length {
            assert!(
                self.read_more().await,
                "connection closed after {:?}",
                String::from_utf8_lossy(&self.buffer)
            );
        }
        String::from_utf8(self.buffer.drain(..length).collect()).unwrap()
    }

    async fn read_response(&mut self) -> RawResponse {
        let head = self.read_until("\r\n\r\n").await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut response = RawResponse { status, head, body: String::new() };
        if response.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = self.read_until("\r\n").await;
                let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
                let chunk = self.read_bytes(size + 2).await;
                response.body += chunk.strip_suffix("\r\n").unwrap();
                if size == 0 {
                    return response;
                }
            }
        }
        let length = response.header("content-length").map_or(0, |length| length.parse().unwrap());
        response.body = self.read_bytes(length).await;
        response
    }

    async fn is_closed(&mut self) -> bool {
        !self.read_more().await && self.buffer.is_empty()
    }
}

fn posted(session: &str, extra: &str, message: &Value) -> String {
    let body = message.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{extra}\
         Mcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn ping(session: &str, id: i64) -> String {
    posted(session, "", &request(id, "ping", json!({})))
}

fn call(session: &str, id: i64, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "mine"}});
    posted(session, "", &request(id, "tools/call", params))
}

/// A modern call, which a disconnect cancels.
fn modern_call(tool: &str) -> String {
    let params = TestClient::modern_params(json!({"name": tool, "arguments": {}}), &json!({}));
    let body = request(1, "tools/call", params).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn close(host_fixture: TestHost, server: TestServer) {
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn ambiguous_origin_is_rejected_on_every_path() {
    let host_fixture = TestHost::new(&[("it", Script::default(), json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    for (origin, status) in [
        ("Origin: http://localhost\r\n", 200),
        ("Origin: http://evil.example\r\n", 403),
        ("Origin: http://localhost\r\nOrigin: http://evil.example\r\n", 403),
        ("Origin: http://évil.example\r\n", 403),
        ("Host: evil.example\r\n", 403),
    ] {
        let mut connection = RawConnection::open(&server).await;
        connection.send(&posted(&session, origin, &request(1, "ping", json!({})))).await;
        assert_eq!(connection.read_response().await.status, status, "{origin}");
        let mut connection = RawConnection::open(&server).await;
        connection
            .send(&format!("GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n{origin}\r\n"))
            .await;
        assert_eq!(connection.read_response().await.status, status, "{origin}");
    }
    close(host_fixture, server).await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let script = Script::default().on("tools/call slow", [Step::Sleep(100), Step::Respond]);
    let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let mut connection = RawConnection::open(&server).await;
    // More input than the read-ahead buffer.
    let pings: String = (1..200).map(|id| ping(&session, id)).collect();
    let all = call(&session, 0, "it__slow") + &pings + ALIVE + &ping(&session, 200);
    connection.send(&all).await;
    for id in 0..200 {
        let response = connection.read_response().await;
        assert_eq!((response.status, &response.json()["id"]), (200, &json!(id)));
        assert!(response.header("date").is_some_and(|date| date.ends_with(" GMT")), "{response:?}");
    }
    assert_eq!(connection.read_response().await.status, 204, "hyper serves other requests");
    assert_eq!(connection.read_response().await.json()["id"], 200);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn request_split_at_any_byte_gets_the_same_response() {
    let host_fixture = TestHost::new(&[]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let whole = ping(&session, 7);
    let mut connection = RawConnection::open(&server).await;
    connection.send(&whole).await;
    let wanted = connection.read_response().await;
    assert_eq!((wanted.status, &wanted.json()["result"]), (200, &json!({})));
    for cut in 1..whole.len() {
        let (first, second) = whole.split_at(cut);
        connection.send(first).await;
        sleep(Duration::from_millis(1)).await;
        connection.send(second).await;
        let response = connection.read_response().await;
        assert_eq!((response.status, &response.body), (wanted.status, &wanted.body), "{cut}");
    }
    for byte in whole.as_bytes().chunks(1) {
        connection.send(str::from_utf8(byte).unwrap()).await;
    }
    assert_eq!(connection.read_response().await.body, wanted.body);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn other_requests_are_served_on_the_same_connection() {
    let host_fixture = TestHost::new(&[]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let mut connection = RawConnection::open(&server).await;
    connection.send(&ping(&session, 1)).await;
    assert_eq!(connection.read_response().await.json()["id"], 1);
    connection.send("GET /heal").await;
    sleep(Duration::from_millis(20)).await;
    connection.send("thz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(connection.read_response().await.status, 204);
    connection.send(&ping(&session, 2)).await;
    assert_eq!(connection.read_response().await.json()["id"], 2);
    // The body is sent after `100 Continue`.
    let mut connection = RawConnection::open(&server).await;
    let asks = posted(&session, "Expect: 100-continue\r\n", &request(3, "ping", json!({})));
    let (head, body) = asks.split_at(asks.find("{\"jsonrpc").unwrap());
    connection.send(head).await;
    assert_eq!(connection.read_until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    connection.send(body).await;
    assert_eq!(connection.read_response().await.json()["id"], 3);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn ambiguous_content_length_closes_the_connection() {
    let host_fixture = TestHost::new(&[]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let hidden = ping(&session, 666);
    for (extra, status) in [
        ("Content-Length: 5\r\n", 400),
        ("Content-Length: +5\r\n", 400),
        ("Content-Length : 5\r\n", 400),
        ("X: y\r\n Content-Length: 5\r\n", 400),
        ("Transfer-Encoding: identity\r\n", 400),
    ] {
        let mut connection = RawConnection::open(&server).await;
        let message = posted(&session, extra, &request(1, "ping", json!({})));
        connection.send(&(message + &hidden)).await;
        assert_eq!(connection.read_response().await.status, status, "{extra}");
        assert!(connection.is_closed().await, "{extra}");
    }
    close(host_fixture, server).await;
}

#[tokio::test]
async fn silent_modern_call_is_cancelled_on_disconnect() {
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Respond]);
    let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let reached = async |method: &str, times: usize| {
        while host_fixture.log("it").iter().filter(|it| it["method"] == method).count() < times {
            sleep(Duration::from_millis(20)).await;
        }
    };
    // The second client has pipelined a request before it disconnects.
    for (times, extra) in [(1, String::new()), (2, ping(&session, 2))] {
        let mut connection = RawConnection::open(&server).await;
        connection.send(&(modern_call("it__stuck") + &extra)).await;
        with_timeout(reached("tools/call", times)).await;
        drop(connection);
        with_timeout(reached("notifications/cancelled", times)).await;
    }
    close(host_fixture, server).await;
}

#[tokio::test]
async fn slow_or_oversized_body_closes_the_connection() {
    let limits = json!({"gateway": {"limits": {"read": "300ms", "body": 1000}}});
    let host_fixture = TestHost::with(&limits, &[]).await;
    let server = TestServer::new(&host_fixture).await;
    let head = |extra: &str, length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{extra}Content-Length: {length}\r\n\r\n{{"
        )
    };
    let json = "Content-Type: application/json\r\n";
    for (sent, status) in [
        (head(json, 100), 408),
        (head(json, 1001), 413),
        (head("", 100), 415),
        // The origin is rejected before the body is read.
        (head("Origin: http://evil.example\r\n", 100), 403),
    ] {
        let mut connection = RawConnection::open(&server).await;
        connection.send(&sent).await;
        let response = connection.read_response().await;
        assert_eq!(
            (response.status, response.header("connection")),
            (status, Some("close")),
            "{sent}"
        );
        assert!(connection.is_closed().await);
    }
    // A client that is still sending gets the response, too.
    let mut connection = RawConnection::open(&server).await;
    connection.send(&(head(json, 2 << 20) + &"x".repeat(2 << 20))).await;
    assert_eq!(connection.read_response().await.status, 413);
    // A truncated body.
    let mut connection = RawConnection::open(&server).await;
    connection.send(&head(json, 100)).await;
    with_timeout(connection.stream.shutdown()).await.unwrap();
    assert_eq!(connection.read_response().await.status, 400);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn streamed_response_is_chunked_and_keeps_the_connection() {
    let steps = [Step::Progress { times: 3, every: 20 }, Step::Respond];
    let script = Script::default().on("tools/call slow", steps);
    let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let mut connection = RawConnection::open(&server).await;
    for id in 1..4 {
        connection.send(&call(&session, id, "it__slow")).await;
        let response = connection.read_response().await;
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        let events: Vec<Value> = (response.body.lines())
            .filter_map(|text| serde_json::from_str(text.strip_prefix("data:")?.trim()).ok())
            .collect();
        let progress = events.iter().filter(|it| it["method"] == "notifications/progress");
        assert_eq!((progress.count(), events.len()), (3, 4), "{response:?}");
        assert_eq!(events[3]["id"], id);
        connection.send(&ping(&session, 100 + id)).await;
        assert_eq!(connection.read_response().await.json()["id"], 100 + id);
    }
    close(host_fixture, server).await;
}

#[tokio::test]
async fn connection_closes_on_request_or_read_timeout() {
    let limits = json!({"gateway": {"limits": {"read": "300ms"}}});
    let host_fixture = TestHost::with(&limits, &[]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let mut connection = RawConnection::open(&server).await;
    let last = posted(&session, "Connection: close\r\n", &request(1, "ping", json!({})));
    connection.send(&(last + &ping(&session, 2))).await;
    let response = connection.read_response().await;
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    assert!(connection.is_closed().await);
    let mut connection = RawConnection::open(&server).await;
    for id in 0..5 {
        // Each request has its own timeout.
        sleep(Duration::from_millis(100)).await;
        connection.send(&ping(&session, id)).await;
        assert_eq!(connection.read_response().await.header("connection"), None);
    }
    assert!(connection.is_closed().await);
    close(host_fixture, server).await;
}

#[tokio::test]
async fn running_request_is_answered_during_shutdown() {
    let script = Script::default().on("tools/call slow", [Step::Sleep(300), Step::Respond]);
    let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let (mut busy, mut idle) =
        (RawConnection::open(&server).await, RawConnection::open(&server).await);
    idle.send(&ping(&session, 1)).await;
    assert_eq!(idle.read_response().await.status, 200);
    busy.send(&call(&session, 2, "it__slow")).await;
    while !host_fixture.log("it").iter().any(|it| it["method"] == "tools/call") {
        sleep(Duration::from_millis(10)).await;
    }
    let (response, is_closed, ()) =
        tokio::join!(busy.read_response(), idle.is_closed(), server.close());
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    assert!(is_closed && busy.is_closed().await);
    with_timeout(host_fixture.host.close()).await;
}

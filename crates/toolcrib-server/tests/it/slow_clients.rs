//! Clients that send or read slowly are disconnected after the configured timeouts.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use toolcrib_testkit::scripted::Script;

use super::HTTP_MODE;
use crate::fixture::{TestHost, with_timeout};
use crate::http_client::{TestServer, request};

async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    // An aborted connection may return an error.
    let _ = with_timeout(stream.read_to_end(&mut answer)).await;
    answer
}

#[tokio::test]
async fn incomplete_head_or_body_times_out() {
    let limits = json!({"gateway": {"limits": {"read": "300ms"}}});
    let host_fixture = TestHost::start_with(HTTP_MODE, &limits, &[]).await;
    let server = TestServer::new(&host_fixture).await;
    let head = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: 100\r\n\r\n{{"
        )
    };
    for (sent, status) in [
        ("POST /mcp HTTP/1.1\r\nHost: loc".to_owned(), ""),
        (head("/mcp"), "HTTP/1.1 408"),
        (head("/api/v1/dialogs"), "HTTP/1.1 408"),
        // No second request after an answered one.
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "HTTP/1.1 204"),
    ] {
        let mut stream = with_timeout(TcpStream::connect(server.address)).await.unwrap();
        with_timeout(stream.write_all(sent.as_bytes())).await.unwrap();
        let answer = String::from_utf8(read_to_end(&mut stream).await).unwrap();
        assert!(answer.starts_with(status), "{sent}: {answer}");
    }
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn connections_per_address_are_limited() {
    const ALIVE: &[u8] = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let limits = json!({"gateway": {"limits": {"connections": 3}}});
    let host_fixture = TestHost::start_with(HTTP_MODE, &limits, &[]).await;
    let server = TestServer::new(&host_fixture).await;
    // The connection if it was admitted.
    let try_connect = async || {
        let mut stream = with_timeout(TcpStream::connect(server.address)).await.unwrap();
        let mut first = [0; 12];
        // A refused client may get a write error.
        let _ = with_timeout(stream.write_all(ALIVE)).await;
        let is_in = with_timeout(stream.read_exact(&mut first)).await.is_ok();
        is_in.then_some(stream)
    };
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(try_connect().await.expect("the limit is not reached"));
    }
    assert!(try_connect().await.is_none() && try_connect().await.is_none());
    connections.pop();
    // The server notices closed connections with a delay.
    let again = async || loop {
        if let Some(stream) = try_connect().await {
            return stream;
        }
    };
    connections.push(with_timeout(again()).await);
    assert!(try_connect().await.is_none());
    drop(connections);
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn write_timeout_closes_a_non_reading_client() {
    const LARGE: usize = 24 << 20;
    let limits = json!({"gateway": {"limits": {"write": "500ms"}}});
    let host_fixture =
        TestHost::start_with(HTTP_MODE, &limits, &[("one", Script::default(), json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let call = json!({"name": "one__echo", "arguments": {"text": "x".repeat(LARGE)}});
    let body = request(1, "tools/call", call).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Mcp-Session-Id: {session}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    for (rests, is_whole) in [(Duration::ZERO, true), (Duration::from_secs(3), false)] {
        let socket = TcpSocket::new_v4().unwrap();
        // A small kernel buffer makes the server's write block.
        socket.set_recv_buffer_size(16 << 10).unwrap();
        let mut stream = with_timeout(socket.connect(server.address)).await.unwrap();
        with_timeout(stream.write_all(head.as_bytes())).await.unwrap();
        with_timeout(stream.write_all(body.as_bytes())).await.unwrap();
        let mut first = [0; 12];
        with_timeout(stream.read_exact(&mut first)).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        // Longer than the write timeout.
        tokio::time::sleep(rests).await;
        assert_eq!(read_to_end(&mut stream).await.len() > LARGE, is_whole);
    }
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}

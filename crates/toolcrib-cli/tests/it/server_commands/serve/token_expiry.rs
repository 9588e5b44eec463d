//! Tests that idle streams end soon after their token is revoked or mapped to another agent.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::tokens::create_token;
use super::{ServeProcess, with_time_limit};
use crate::server_commands::{demo_server, native_workspace};

/// Longest allowed life of a stream after its token.
const LONGEST: Duration = Duration::from_secs(2);

/// An open stream on a reusable connection.
struct OpenStream {
    name: &'static str,
    connection: TcpStream,
}

/// Sends a request on a new connection and waits for the response head.
async fn open(
    served: &ServeProcess,
    name: &'static str,
    head: &str,
    token: &str,
    body: &str,
) -> (OpenStream, String) {
    let mut connection = served.connect().await;
    let (address, length) = (served.address(), body.len());
    let text = format!(
        "{head} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    connection.write_all(text.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(with_time_limit(connection.read_u8()).await.unwrap());
    }
    (OpenStream { name, connection }, String::from_utf8(head).unwrap())
}

/// Opens every kind of stream, all of them idle.
async fn open_all(served: &ServeProcess, token: &str) -> Vec<OpenStream> {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "it", "version": "0"}}})
    .to_string();
    let mut streams = Vec::new();
    for (path, name) in [("/mcp", "GET /mcp"), ("/mcp/demo", "GET /mcp/demo")] {
        let (_, head) = open(served, name, &format!("POST {path}"), token, &hello).await;
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nMcp-Session-Id: {session}\r\nX-Rest:");
        streams.push(open(served, name, &head, token, "").await);
    }
    for (path, name) in [("/sse", "/sse"), ("/api/v1/events", "/api/v1/events")] {
        streams.push(open(served, name, &format!("GET {path}"), token, "").await);
    }
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "it", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
        "params": {"_meta": meta, "notifications": {"toolsListChanged": true}}});
    let modern = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nX-Rest:";
    let head = format!("POST /mcp HTTP/1.1\r\n{modern}");
    streams.push(open(served, "subscriptions/listen", &head, token, &listen.to_string()).await);
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Rest:";
    streams.push(open(served, "/ws", &format!("GET /ws HTTP/1.1\r\n{upgrade}"), token, "").await);
    for (stream, head) in &streams {
        let status = head.split(' ').nth(1).unwrap();
        assert!(matches!(status, "200" | "101"), "{}: {head}", stream.name);
    }
    streams.into_iter().map(|(stream, _)| stream).collect()
}

/// Duration of each stream until the end of its connection. HTTP responses must be complete.
async fn lifetimes(streams: Vec<OpenStream>, since: Instant) -> Vec<(&'static str, Duration)> {
    let each = streams.into_iter().map(|mut stream| async move {
        let mut report = Vec::new();
        with_time_limit(async {
            let mut part = [0; 4096];
            loop {
                match stream.connection.read(&mut part).await {
                    Ok(length) if length > 0 => report.extend_from_slice(&part[..length]),
                    _ => break,
                }
            }
        })
        .await;
        let is_whole = report.ends_with(b"0\r\n\r\n") || stream.name == "/ws";
        assert!(is_whole, "{}: {}", stream.name, String::from_utf8_lossy(&report));
        (stream.name, since.elapsed())
    });
    futures_util::future::join_all(each).await
}

#[track_caller]
fn check(lifetimes: &[(&str, Duration)]) {
    let late: Vec<_> = lifetimes.iter().filter(|(_, lasted)| *lasted > LONGEST).collect();
    assert!(late.is_empty(), "{late:?}");
}

#[tokio::test]
async fn silent_streams_end_within_two_seconds_of_revocation() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    let token =
        create_token(&workspace, &["--name", "doomed"])["token"].as_str().unwrap().to_owned();
    let streams = open_all(&served, &token).await;
    // Another process revokes the token in the store.
    assert_eq!(workspace.run(&["token", "revoke", "doomed"]).code, 0);
    check(&lifetimes(streams, Instant::now()).await);
}

#[tokio::test]
async fn silent_streams_end_within_two_seconds_of_agent_change() {
    let (token, hash) = (
        "a-secret-that-only-this-test-has",
        "860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd",
    );
    let file = |agent: &str| {
        json!({"version": 1, "servers": {"demo": demo_server()},
            "gateway": {"tokens": [{"sha256": hash, "agent": agent}]},
            "host": {"grants": {"members": {"one": {"toolsets": ["demo"]}}}}})
        .to_string()
    };
    let workspace = native_workspace(&json!({})).with_file("toolcrib.yaml", &file("one"));
    let served = ServeProcess::start(&workspace).await;
    let streams = open_all(&served, token).await;
    std::fs::write(workspace.root().join("toolcrib.yaml"), file("two")).unwrap();
    workspace.json(&["reload"]);
    check(&lifetimes(streams, Instant::now()).await);
}

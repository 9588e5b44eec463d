//! Clients that are slow in what they send or read: each is waited for as long as the configuration says.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use toolcrib_testkit::scripted::Script;

use crate::scene::{Scene, within};
use crate::web::{Served, request};

async fn said(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    // A connection that is cut off may say so, or not.
    let _ = within(stream.read_to_end(&mut answer)).await;
    answer
}

#[tokio::test]
async fn a_head_or_a_body_that_does_not_come_is_waited_for_only_so_long() {
    let limits = json!({"gateway": {"limits": {"read": "300ms"}}});
    let scene = Scene::with(&limits, &[]).await;
    let served = Served::new(&scene).await;
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
        // Nothing at all, after one request that was answered.
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "HTTP/1.1 204"),
    ] {
        let mut stream = within(TcpStream::connect(served.address)).await.unwrap();
        within(stream.write_all(sent.as_bytes())).await.unwrap();
        let answer = String::from_utf8(said(&mut stream).await).unwrap();
        assert!(answer.starts_with(status), "{sent}: {answer}");
    }
    served.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn one_address_has_only_so_many_connections_and_what_ends_makes_room() {
    const ALIVE: &[u8] = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let limits = json!({"gateway": {"limits": {"connections": 3}}});
    let scene = Scene::with(&limits, &[]).await;
    let served = Served::new(&scene).await;
    // Whether it is let in, and the connection.
    let knock = async || {
        let mut stream = within(TcpStream::connect(served.address)).await.unwrap();
        let mut first = [0; 12];
        // Whoever is hung up on may notice it at once.
        let _ = within(stream.write_all(ALIVE)).await;
        let is_in = within(stream.read_exact(&mut first)).await.is_ok();
        is_in.then_some(stream)
    };
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(knock().await.expect("there is room"));
    }
    assert!(knock().await.is_none() && knock().await.is_none());
    held.pop();
    // The other end notices in its own time.
    let again = async || loop {
        if let Some(stream) = knock().await {
            return stream;
        }
    };
    held.push(within(again()).await);
    assert!(knock().await.is_none());
    drop(held);
    served.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn who_does_not_read_his_answer_is_cut_off() {
    const LARGE: usize = 24 << 20;
    let limits = json!({"gateway": {"limits": {"write": "500ms"}}});
    let scene = Scene::with(&limits, &[("one", Script::default(), json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let call = json!({"name": "one__echo", "arguments": {"text": "x".repeat(LARGE)}});
    let body = request(1, "tools/call", call).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Mcp-Session-Id: {session}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    for (rests, is_whole) in [(Duration::ZERO, true), (Duration::from_secs(3), false)] {
        let socket = TcpSocket::new_v4().unwrap();
        // What the kernel keeps is no concern of ours, so that it is little.
        socket.set_recv_buffer_size(16 << 10).unwrap();
        let mut stream = within(socket.connect(served.address)).await.unwrap();
        within(stream.write_all(head.as_bytes())).await.unwrap();
        within(stream.write_all(body.as_bytes())).await.unwrap();
        let mut first = [0; 12];
        within(stream.read_exact(&mut first)).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        // Long enough for somebody's patience to end.
        tokio::time::sleep(rests).await;
        assert_eq!(said(&mut stream).await.len() > LARGE, is_whole);
    }
    served.end().await;
    within(scene.host.close()).await;
}

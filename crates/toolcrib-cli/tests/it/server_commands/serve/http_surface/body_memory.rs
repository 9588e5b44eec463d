//! Tests the shared memory limit of request bodies (`gateway.limits.bodies`).

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::{StdioClient, wait_until_async, with_time_limit};
use super::{ServeProcess, demo_server, new_token};
use crate::TestWorkspace;

const LARGE: usize = 700 << 10;

fn workspace() -> TestWorkspace {
    let file = json!({"version": 1, "servers": {"demo": demo_server()},
        "host": {"grants": {"members": {"coder": {"toolsets": ["demo"]}}}},
        "gateway": {"limits": {"bodies": "1MiB"}}});
    TestWorkspace::new().with_file("toolcrib.yaml", &file.to_string())
}

/// A message of about this size.
fn large_ping(size: usize) -> String {
    let meta = json!({"filler": "x".repeat(size)});
    json!({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"_meta": meta}}).to_string()
}

/// The currently counted bytes.
async fn counted_body_bytes(served: &ServeProcess) -> usize {
    let metrics = served.request("GET /metrics", &[], "").await.body;
    let line = metrics.lines().find_map(|it| it.strip_prefix("toolcrib_request_body_bytes "));
    line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

/// Sends a request except for its last byte and waits until it is counted.
async fn send_all_but_last_byte(served: &ServeProcess, body: &str) -> TcpStream {
    let head = "POST /mcp HTTP/1.1\r\nContent-Type: application/json";
    let mut stream = served.open(&format!("{head}\r\nContent-Length: {}", body.len())).await;
    with_time_limit(stream.write_all(&body.as_bytes()[..body.len() - 1])).await.unwrap();
    wait_until_async(async || counted_body_bytes(served).await > LARGE - (64 << 10)).await;
    stream
}

/// Sends a request as far as the host reads it, and returns the response.
async fn send_and_read(served: &ServeProcess, head: &str, body: &[u8]) -> String {
    let mut stream = served.open(head).await;
    let (mut input, mut output) = stream.split();
    let mut answer = Vec::new();
    let sending = async {
        // The host may close the connection early.
        let _ = output.write_all(body).await;
    };
    let reading = input.read_to_end(&mut answer);
    let _ = with_time_limit(async { tokio::join!(sending, reading) }).await;
    String::from_utf8_lossy(&answer).to_lowercase()
}

#[tokio::test]
async fn request_bodies_share_one_memory_limit_on_every_interface() {
    let workspace = workspace();
    let served = ServeProcess::start(&workspace).await;
    let mut sse = served.open("GET /sse HTTP/1.1").await;
    let endpoint = read_until(&mut sse, "sessionId=").await;
    let session = &endpoint[..32];
    let mut socket = websocket(&served).await;
    let mut client = StdioClient::start(&workspace).await;
    let body = large_ping(LARGE);
    let mut held = send_all_but_last_byte(&served, &body).await;

    let json = "Content-Type: application/json";
    let length = format!("Content-Length: {}", body.len());
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let dialog = json!({"id": "d".repeat(LARGE)}).to_string();
    for (head, body) in [
        (format!("POST /mcp HTTP/1.1\r\n{json}\r\n{length}"), &body),
        (format!("POST /mcp HTTP/1.1\r\n{json}\r\nTransfer-Encoding: chunked"), &chunked),
        (format!("POST /mcp/demo HTTP/1.1\r\n{json}\r\n{length}"), &body),
        (format!("POST /sse?sessionId={session} HTTP/1.1\r\n{json}\r\n{length}"), &body),
        (
            format!("POST /api/v1/dialogs HTTP/1.1\r\n{json}\r\nContent-Length: {}", dialog.len()),
            &dialog,
        ),
    ] {
        let answer = send_and_read(&served, &head, body.as_bytes()).await;
        assert!(answer.starts_with("http/1.1 503"), "{head}: {answer}");
        assert!(answer.contains("retry-after: 1\r\n"), "{head}: {answer}");
        assert!(answer.contains("gateway.limits.bodies"), "{head}: {answer}");
    }
    // The close code is 1013, "try again later". Its arrival depends on how far the client has sent.
    let report = over_websocket(&mut socket, &body).await;
    assert!(!String::from_utf8_lossy(&report).contains("result"), "{report:?}");
    client.write_line(&body).await;
    let refused = client.response_to(5).await;
    let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(message.contains("gateway.limits.bodies"), "{message}");

    // Small requests still succeed, and the held request is answered when it is complete.
    assert_eq!(client.request("ping", json!({})).await, json!({}));
    let made = served.send_json("POST /api/v1/dialogs", None, &json!({"id": "d"})).await;
    assert_eq!(made.status, 201, "{made:?}");
    with_time_limit(held.write_all(b"}")).await.unwrap();
    let answer = read_until(&mut held, "HTTP/1.1 ").await;
    assert!(!answer.starts_with("503"), "{answer}");
    wait_until_async(async || counted_body_bytes(&served).await == 0).await;
    client.write_line(&body).await;
    assert_eq!(client.response_to(5).await["result"], json!({}));
    wait_until_async(async || counted_body_bytes(&served).await == 0).await;
}

#[tokio::test]
async fn principals_without_grants_have_smaller_body_limit() {
    let workspace = workspace();
    let served = ServeProcess::start(&workspace).await;
    let body = large_ping(200 << 10);
    for (agent, is_refused) in [("coder", false), ("stranger", true)] {
        let token = new_token(&workspace, &["--agent", agent, "--name", agent]);
        for path in ["/mcp", "/mcp/demo"] {
            let head = format!(
                "POST {path} HTTP/1.1\r\nContent-Type: application/json\r\n\
                 Authorization: Bearer {token}\r\nContent-Length: {}",
                body.len()
            );
            let answer = send_and_read(&served, &head, body.as_bytes()).await;
            match path {
                "/mcp" => {
                    assert_eq!(answer.starts_with("http/1.1 503"), is_refused, "{agent} {answer}");
                }
                // Without a grant the server is unknown.
                _ => assert_eq!(answer.starts_with("http/1.1 404"), is_refused, "{agent} {answer}"),
            }
        }
        let small = served.send_json("POST /api/v1/dialogs", Some(&token), &Value::Null).await;
        assert_ne!(small.status, 503, "{agent} {small:?}");
    }
}

/// A WebSocket after its handshake.
async fn websocket(served: &ServeProcess) -> TcpStream {
    let mut stream = served.connect().await;
    let head = format!(
        "GET /ws HTTP/1.1\r\nHost: {}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        served.address()
    );
    with_time_limit(stream.write_all(head.as_bytes())).await.unwrap();
    read_until(&mut stream, "HTTP/1.1 101 ").await;
    stream
}

/// Sends one text frame with a zero mask, and returns all bytes until the end.
async fn over_websocket(stream: &mut TcpStream, text: &str) -> Vec<u8> {
    let mut frame = vec![0x81, 0xff];
    frame.extend((text.len() as u64).to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    let (mut input, mut output) = stream.split();
    let mut answer = Vec::new();
    let sending = async {
        // The host may close the connection early.
        let _ = output.write_all(&frame).await;
    };
    let _ = with_time_limit(async { tokio::join!(sending, input.read_to_end(&mut answer)) }).await;
    answer
}

/// Reads until the text, and returns what follows it.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    loop {
        let whole = String::from_utf8_lossy(&read).into_owned();
        if let Some((_, rest)) = whole.split_once(text)
            && rest.contains('\n')
        {
            return rest.to_owned();
        }
        assert!(with_time_limit(stream.read_buf(&mut read)).await.unwrap() > 0, "{whole}");
    }
}

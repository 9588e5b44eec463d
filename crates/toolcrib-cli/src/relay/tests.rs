//! Tests of the relay on in-memory streams.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::time::timeout;

use super::{EndedBy, Relay};

/// The far end of a stream.
struct TestPeer(BufReader<DuplexStream>);

impl TestPeer {
    async fn read_line(&mut self) -> String {
        let mut line = String::new();
        timeout(Duration::from_secs(10), self.0.read_line(&mut line)).await.unwrap().unwrap();
        line
    }

    async fn read_message(&mut self) -> Value {
        serde_json::from_str(&self.read_line().await).unwrap()
    }

    async fn write_text(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    async fn send_message(&mut self, message: Value) {
        self.write_text(&format!("{message}\n")).await;
    }
}

/// Returns a relay with the client's input and output.
fn relay() -> (Relay<DuplexStream>, TestPeer, TestPeer) {
    let ((there, input), (output, here)) = (duplex(1 << 20), duplex(1 << 20));
    let end = |stream| TestPeer(BufReader::new(stream));
    (Relay::new(input, output), end(there), end(here))
}

/// Relays the client to a host that runs `act` and then ends.
async fn relay_to_host<F: Future<Output = ()>>(
    relay: &mut Relay<DuplexStream>,
    act: impl FnOnce(TestPeer) -> F,
) -> EndedBy {
    let (here, there) = duplex(1 << 20);
    let (left, ()) = tokio::join!(relay.relay_to(here), act(TestPeer(BufReader::new(there))));
    left
}

fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

#[tokio::test]
async fn messages_are_forwarded_byte_for_byte() {
    let (mut relay, mut client, mut output) = relay();
    let lines = [
        "{\"jsonrpc\":\"2.0\", \"id\":1,\"method\":\"x\",\"params\":{\"a\": 1.0,\"b\":\"\\u00e9\"}}\n",
        "{\"jsonrpc\":\"1.0\",\"id\":2}\n",
        "{\"id\": nonsense}\n",
        "[{\"jsonrpc\":\"2.0\",\"method\":\"n\"}, 7]\n",
    ];
    client.write_text(&lines.concat()).await;
    client
        .write_text("Content-Length: 35\r\n\r\n{\"jsonrpc\":\"2.0\",\n \"method\":\"n\"   }")
        .await;
    client.write_text("no message\n").await;
    let left = relay_to_host(&mut relay, async |mut host| {
        for line in lines {
            assert_eq!(host.read_line().await, line);
        }
        assert_eq!(host.read_line().await, "Content-Length: 35\r\n");
        host.read_line().await;
        let mut body = [0; 35];
        host.0.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"{\"jsonrpc\":\"2.0\",\n \"method\":\"n\"   }");
        host.write_text("{\"jsonrpc\":\"2.0\",  \"id\":1,\"result\":{\"x\":[1.50]}}\n{\"cut").await;
    });
    assert_eq!(left.await, EndedBy::Host);
    let no_message = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"invalid message frame\"}}\n";
    assert_eq!(output.read_line().await, no_message);
    assert_eq!(
        output.read_line().await,
        "{\"jsonrpc\":\"2.0\",  \"id\":1,\"result\":{\"x\":[1.50]}}\n"
    );
    relay.close().await;
    assert_eq!(output.read_line().await, "", "the truncated frame is dropped");
}

#[tokio::test]
async fn replay_precedes_messages_buffered_between_hosts() {
    let (mut relay, mut client, mut output) = relay();
    client.send_message(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}})).await;
    client.send_message(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    client
        .send_message(
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "t"}}),
        )
        .await;
    relay_to_host(&mut relay, async |mut host| {
        let request = host.read_message().await;
        host.send_message(answer(&request["id"], json!({"first": true}))).await;
        assert_eq!(host.read_message().await["method"], "notifications/initialized");
        assert_eq!(host.read_message().await["method"], "tools/call");
    })
    .await;
    assert_eq!(output.read_message().await["result"], json!({"first": true}));
    assert_eq!(output.read_message().await["error"]["code"], -32603);
    client.send_message(json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"})).await;
    // There is no host, and the client is still open.
    assert!(timeout(Duration::from_millis(50), relay.buffer_client()).await.is_err());
    relay_to_host(&mut relay, async |mut host| {
        let opening = host.read_message().await;
        assert_eq!(opening["method"], "initialize");
        host.send_message(json!({"jsonrpc": "2.0", "method": "notifications/message"})).await;
        host.send_message(answer(&opening["id"], json!({"second": true}))).await;
        assert_eq!(host.read_message().await["method"], "notifications/initialized");
        let list = host.read_message().await;
        assert_eq!(list["id"], 3);
        host.send_message(answer(&list["id"], json!({"tools": []}))).await;
    })
    .await;
    assert_eq!(output.read_message().await["method"], "notifications/message");
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(
            output.read_message().await["method"],
            format!("notifications/{list}/list_changed")
        );
    }
    assert_eq!(output.read_message().await["result"], json!({"tools": []}));
}

#[tokio::test]
async fn closing_client_gets_its_responses_and_needs_no_next_host() {
    let (mut relay, mut client, mut output) = relay();
    client.send_message(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    client.send_message(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    client.0.get_mut().shutdown().await.unwrap();
    let left = relay_to_host(&mut relay, async |mut host| {
        let request = host.read_message().await;
        host.send_message(answer(&request["id"], json!({}))).await;
        host.read_message().await;
        assert_eq!(host.read_line().await, "", "the end is forwarded");
    });
    assert_eq!(left.await, EndedBy::Client);
    assert_eq!(output.read_message().await["id"], 1);
    assert_eq!(output.read_message().await["error"]["code"], -32603, "unanswered requests fail");
    timeout(Duration::from_secs(1), relay.buffer_client()).await.unwrap();
}

#[tokio::test]
async fn client_closed_between_hosts_needs_a_host_only_for_responses() {
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let answer = answer(&json!(1), json!({})).to_string();
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for (sent, needs) in [
        (String::new(), false),
        (format!("{notification}\n{answer}\n"), false),
        (format!("[{notification},{answer}]\n"), false),
        (format!("{notification}\n{request}\n{notification}\n"), true),
        (format!("[{notification},{request}]\n"), true),
        ("[{}]\n".to_owned(), true),
        ("{\n".to_owned(), true),
        ("no message\n".to_owned(), true),
    ] {
        let (mut relay, mut client, _heard) = relay();
        client.write_text(&sent).await;
        drop(client);
        let output = timeout(Duration::from_millis(50), relay.buffer_client()).await;
        assert_eq!(output.is_err(), needs, "{sent}");
    }
}

#[tokio::test]
async fn buffer_between_hosts_is_bounded() {
    let (mut relay, mut client, _heard) = relay();
    let long = json!({"jsonrpc": "2.0", "method": "n", "params": {"x": "y".repeat(400 << 10)}});
    let much = async {
        for _ in 0..10 {
            client.send_message(long.clone()).await;
        }
    };
    tokio::select! {
        () = much => panic!("the buffer is unbounded"),
        () = relay.buffer_client() => panic!("the client is still open"),
        () = tokio::time::sleep(Duration::from_millis(300)) => {}
    }
}

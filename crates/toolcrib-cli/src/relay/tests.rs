//! Tests of a client that goes from host to host, on streams in memory.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::time::timeout;

use super::{Left, Relay};

/// The other end of a stream.
struct End(BufReader<DuplexStream>);

impl End {
    async fn line(&mut self) -> String {
        let mut line = String::new();
        timeout(Duration::from_secs(10), self.0.read_line(&mut line)).await.unwrap().unwrap();
        line
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    async fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    async fn tell(&mut self, message: Value) {
        self.say(&format!("{message}\n")).await;
    }
}

/// A relay, what the client writes to, and what it reads.
fn relay() -> (Relay<DuplexStream>, End, End) {
    let ((there, input), (output, here)) = (duplex(1 << 20), duplex(1 << 20));
    let end = |stream| End(BufReader::new(stream));
    (Relay::new(input, output), end(there), end(here))
}

/// Serves the client through a host that does what it is told to and ends then.
async fn host<F: Future<Output = ()>>(
    relay: &mut Relay<DuplexStream>,
    act: impl FnOnce(End) -> F,
) -> Left {
    let (here, there) = duplex(1 << 20);
    let (left, ()) = tokio::join!(relay.through(here), act(End(BufReader::new(there))));
    left
}

fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

#[tokio::test]
async fn every_byte_of_a_message_is_passed_on_whatever_it_is() {
    let (mut relay, mut client, mut heard) = relay();
    let lines = [
        "{\"jsonrpc\":\"2.0\", \"id\":1,\"method\":\"x\",\"params\":{\"a\": 1.0,\"b\":\"\\u00e9\"}}\n",
        "{\"jsonrpc\":\"1.0\",\"id\":2}\n",
        "{\"id\": nonsense}\n",
        "[{\"jsonrpc\":\"2.0\",\"method\":\"n\"}, 7]\n",
    ];
    client.say(&lines.concat()).await;
    client.say("Content-Length: 35\r\n\r\n{\"jsonrpc\":\"2.0\",\n \"method\":\"n\"   }").await;
    client.say("no message\n").await;
    let left = host(&mut relay, async |mut host| {
        for line in lines {
            assert_eq!(host.line().await, line);
        }
        assert_eq!(host.line().await, "Content-Length: 35\r\n");
        host.line().await;
        let mut body = [0; 35];
        host.0.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"{\"jsonrpc\":\"2.0\",\n \"method\":\"n\"   }");
        host.say("{\"jsonrpc\":\"2.0\",  \"id\":1,\"result\":{\"x\":[1.50]}}\n{\"cut").await;
    });
    assert_eq!(left.await, Left::Host);
    let no_message = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"this is no message\"}}\n";
    assert_eq!(heard.line().await, no_message);
    assert_eq!(heard.line().await, "{\"jsonrpc\":\"2.0\",  \"id\":1,\"result\":{\"x\":[1.50]}}\n");
    relay.end().await;
    assert_eq!(heard.line().await, "", "what was cut off is nobody's");
}

#[tokio::test]
async fn the_next_host_is_told_before_what_came_meanwhile() {
    let (mut relay, mut client, mut heard) = relay();
    client.tell(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}})).await;
    client.tell(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    client
        .tell(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "t"}}))
        .await;
    host(&mut relay, async |mut host| {
        let asked = host.hear().await;
        host.tell(answer(&asked["id"], json!({"first": true}))).await;
        assert_eq!(host.hear().await["method"], "notifications/initialized");
        assert_eq!(host.hear().await["method"], "tools/call");
    })
    .await;
    assert_eq!(heard.hear().await["result"], json!({"first": true}));
    assert_eq!(heard.hear().await["error"]["code"], -32603);
    client.tell(json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"})).await;
    // There is no host, and the client has not ended.
    assert!(timeout(Duration::from_millis(50), relay.hear()).await.is_err());
    host(&mut relay, async |mut host| {
        let opening = host.hear().await;
        assert_eq!(opening["method"], "initialize");
        host.tell(json!({"jsonrpc": "2.0", "method": "notifications/message"})).await;
        host.tell(answer(&opening["id"], json!({"second": true}))).await;
        assert_eq!(host.hear().await["method"], "notifications/initialized");
        let list = host.hear().await;
        assert_eq!(list["id"], 3);
        host.tell(answer(&list["id"], json!({"tools": []}))).await;
    })
    .await;
    assert_eq!(heard.hear().await["method"], "notifications/message");
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(heard.hear().await["method"], format!("notifications/{list}/list_changed"));
    }
    assert_eq!(heard.hear().await["result"], json!({"tools": []}));
}

#[tokio::test]
async fn a_client_that_ends_is_answered_and_needs_no_other_host() {
    let (mut relay, mut client, mut heard) = relay();
    client.tell(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    client.tell(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    client.0.get_mut().shutdown().await.unwrap();
    let left = host(&mut relay, async |mut host| {
        let asked = host.hear().await;
        host.tell(answer(&asked["id"], json!({}))).await;
        host.hear().await;
        assert_eq!(host.line().await, "", "the end is passed on");
    });
    assert_eq!(left.await, Left::Client);
    assert_eq!(heard.hear().await["id"], 1);
    assert_eq!(heard.hear().await["error"]["code"], -32603, "what is not answered is told");
    timeout(Duration::from_secs(1), relay.hear()).await.unwrap();
}

#[tokio::test]
async fn a_client_that_ends_while_it_has_no_host_needs_one_only_for_an_answer() {
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let answer = answer(&json!(1), json!({})).to_string();
    let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for (said, needs) in [
        (String::new(), false),
        (format!("{told}\n{answer}\n"), false),
        (format!("[{told},{answer}]\n"), false),
        (format!("{told}\n{asked}\n{told}\n"), true),
        (format!("[{told},{asked}]\n"), true),
        ("[{}]\n".to_owned(), true),
        ("{\n".to_owned(), true),
        ("no message\n".to_owned(), true),
    ] {
        let (mut relay, mut client, _heard) = relay();
        client.say(&said).await;
        drop(client);
        let heard = timeout(Duration::from_millis(50), relay.hear()).await;
        assert_eq!(heard.is_err(), needs, "{said}");
    }
}

#[tokio::test]
async fn a_client_that_says_much_while_it_has_no_host_is_not_read_without_end() {
    let (mut relay, mut client, _heard) = relay();
    let long = json!({"jsonrpc": "2.0", "method": "n", "params": {"x": "y".repeat(400 << 10)}});
    let much = async {
        for _ in 0..10 {
            client.tell(long.clone()).await;
        }
    };
    tokio::select! {
        () = much => panic!("all of it was read"),
        () = relay.hear() => panic!("it has not ended"),
        () = tokio::time::sleep(Duration::from_millis(300)) => {}
    }
}

//! The standard streams by hand: what is no message gets an error, and the server goes on.

use std::process::Stdio as Pipe;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{PROGRAM, within};

/// A server whose streams the test holds.
pub(super) struct Hand {
    pub(super) child: Child,
    pub(super) stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Hand {
    pub(super) fn start() -> Self {
        let mut child = Command::new(PROGRAM)
            .arg("demo-server")
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), child, lines }
    }

    pub(super) async fn write(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        within(stdin.write_all(text.as_bytes())).await.unwrap();
    }

    /// The next message; none at the end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        let line = within(self.lines.next_line()).await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn ask(&mut self, text: &str) -> Value {
        self.write(&format!("{text}\n")).await;
        self.next().await.unwrap()
    }

    pub(super) async fn open(&mut self) {
        let params = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "hand", "version": "0"}});
        let opening =
            json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params});
        let hello = self.ask(&opening.to_string()).await;
        assert_eq!(hello["result"]["protocolVersion"], "2025-03-26");
        self.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await;
    }
}

#[tokio::test]
async fn what_is_no_message_gets_an_error_and_the_server_goes_on() {
    let mut hand = Hand::start();
    hand.open().await;
    let large =
        format!(r#"{{"jsonrpc":"2.0","id":9,"method":"ping","x":"{}"}}"#, "x".repeat(5 << 20));
    for (sent, code, id) in [
        ("garbage", -32700, json!(null)),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,", -32700, json!(1)),
        ("\u{7}{}", -32700, json!(null)),
        ("{}", -32600, json!(null)),
        ("[]", -32600, json!(null)),
        (r#"{"id":2,"method":"ping"}"#, -32600, json!(2)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":[1]}"#, -32602, json!(3)),
        (r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{}}"#, -32602, json!(4)),
        (r#"{"jsonrpc":"2.0","id":5,"method":"tools/uncall"}"#, -32601, json!(5)),
        (large.as_str(), -32600, json!(9)),
    ] {
        let answer = hand.ask(sent).await;
        let shown: String = sent.chars().take(80).collect();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{shown}");
        assert_eq!(answer["jsonrpc"], "2.0");
    }
    // None of these asks for anything.
    hand.write("{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n").await;
    hand.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/what\"}\n").await;
    hand.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{}}\n")
        .await;
    let answer = hand.ask(r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#).await;
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 6, "result": {}}));
}

#[tokio::test]
async fn each_message_of_a_batch_is_answered() {
    let mut hand = Hand::start();
    hand.open().await;
    hand.write("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},7,{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]\n").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(hand.next().await.unwrap()["id"].clone());
    }
    assert_eq!(ids, [json!(1), json!(null), json!(2)]);
}

#[tokio::test]
async fn both_eras_share_one_process() {
    let mut hand = Hand::start();
    let modern = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let list = |id: i64, meta: &Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"_meta": meta}})
            .to_string()
    };
    assert_eq!(hand.ask(&list(1, &modern)).await["result"]["resultType"], "complete");
    assert_eq!(hand.ask(&list(2, &json!({}))).await["error"]["code"], -32602);
    hand.open().await;
    let legacy = hand.ask(&list(3, &json!({}))).await;
    assert_eq!(legacy["result"].get("resultType"), None);
    assert_eq!(hand.ask(&list(4, &modern)).await["result"]["resultType"], "complete");
    let mut other = modern.clone();
    other["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    assert_eq!(hand.ask(&list(5, &other)).await["error"]["code"], -32022);
}

#[tokio::test]
async fn more_slow_calls_than_there_is_room_for_are_refused() {
    let mut hand = Hand::start();
    hand.open().await;
    for id in 0..65 {
        let params = json!({"name": "slow", "arguments": {"seconds": 600}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        hand.write(&format!("{call}\n")).await;
    }
    let refused = hand.next().await.unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(64), &json!(-32603)));
}

//! Tests raw stdio input: invalid messages get errors, and the server continues.

use std::process::Stdio as Pipe;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{PROGRAM, with_time_limit};

/// A server process with its streams.
pub(super) struct StdioSession {
    pub(super) child: Child,
    pub(super) stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl StdioSession {
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
        with_time_limit(stdin.write_all(text.as_bytes())).await.unwrap();
    }

    /// The next message, or `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        let line = with_time_limit(self.lines.next_line()).await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn request(&mut self, text: &str) -> Value {
        self.write(&format!("{text}\n")).await;
        self.next().await.unwrap()
    }

    pub(super) async fn initialize(&mut self) {
        let params = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "hand", "version": "0"}});
        let opening =
            json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params});
        let hello = self.request(&opening.to_string()).await;
        assert_eq!(hello["result"]["protocolVersion"], "2025-03-26");
        self.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await;
    }
}

#[tokio::test]
async fn invalid_messages_get_errors_and_server_continues() {
    let mut session = StdioSession::start();
    session.initialize().await;
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
        let answer = session.request(sent).await;
        let shown: String = sent.chars().take(80).collect();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{shown}");
        assert_eq!(answer["jsonrpc"], "2.0");
    }
    // None of these messages requires a response.
    session.write("{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n").await;
    session.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/what\"}\n").await;
    session
        .write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{}}\n")
        .await;
    let answer = session.request(r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#).await;
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 6, "result": {}}));
}

#[tokio::test]
async fn every_batch_item_is_answered() {
    let mut session = StdioSession::start();
    session.initialize().await;
    session.write("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},7,{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]\n").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(session.next().await.unwrap()["id"].clone());
    }
    assert_eq!(ids, [json!(1), json!(null), json!(2)]);
}

#[tokio::test]
async fn one_process_serves_both_eras() {
    let mut session = StdioSession::start();
    let modern = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let list = |id: i64, meta: &Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"_meta": meta}})
            .to_string()
    };
    assert_eq!(session.request(&list(1, &modern)).await["result"]["resultType"], "complete");
    assert_eq!(session.request(&list(2, &json!({}))).await["error"]["code"], -32602);
    session.initialize().await;
    let legacy = session.request(&list(3, &json!({}))).await;
    assert_eq!(legacy["result"].get("resultType"), None);
    assert_eq!(session.request(&list(4, &modern)).await["result"]["resultType"], "complete");
    let mut other = modern.clone();
    other["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    assert_eq!(session.request(&list(5, &other)).await["error"]["code"], -32022);
}

#[tokio::test]
async fn concurrent_slow_calls_are_limited() {
    let mut session = StdioSession::start();
    session.initialize().await;
    for id in 0..65 {
        let params = json!({"name": "slow", "arguments": {"seconds": 600}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        session.write(&format!("{call}\n")).await;
    }
    let refused = session.next().await.unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(64), &json!(-32603)));
}

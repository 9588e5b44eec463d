//! `toolcrib serve`: one host for everybody who asks.

mod arguments;
mod canary;
mod canary_echo;
mod commands;
mod connecting;
mod fail_closed;
mod failed_load;
mod front;
mod full_disk;
mod life;
mod logged;
mod misspelt_keys;
mod one_host;
mod per_call;
mod pipe;
mod protection;
mod questions;
mod schemas;
mod sdk;
mod shares;
mod signals;
mod startup_limit;
mod takeover;
mod token_expiry;
mod tokens;
mod trust;
mod visibility;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{PATH, PATIENCE};
use crate::Place;

/// A host that listens, and what it said when it was ready. Its process ends with it.
struct Served {
    child: Child,
    line: Value,
}

impl Served {
    async fn start(place: &Place) -> Self {
        Self::start_with(place, &[]).await
    }

    async fn start_with(place: &Place, more: &[&str]) -> Self {
        let args = [&["serve", "--listen", ":0", "--json"], more].concat();
        Self::of(spawn(place, &args, &[PATH])).await
    }

    /// The same where nobody named the workspace.
    async fn found(place: &Place) -> Self {
        let command = place.unnamed(&["serve", "--listen", ":0", "--json"]);
        Self::of(start(command, &[PATH])).await
    }

    async fn of(mut child: Child) -> Self {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within(lines.next_line()).await.unwrap().unwrap();
        Self { child, line: serde_json::from_str(&line).unwrap() }
    }

    fn url(&self) -> &str {
        self.line["url"].as_str().unwrap()
    }

    fn socket(&self) -> PathBuf {
        PathBuf::from(self.line["socket"].as_str().unwrap())
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// How it ends when it is told to.
    async fn end(mut self, signal: Signal) -> Option<i32> {
        tell(self.pid(), signal);
        within(self.child.wait()).await.unwrap().code()
    }

    /// What it answers to one request over TCP.
    async fn ask(&self, head: &str) -> String {
        self.send(head, "").await
    }

    async fn post(&self, path: &str, body: &Value) -> String {
        let body = body.to_string();
        let length = body.len();
        let kind = "Content-Type: application/json";
        self.send(&format!("POST {path} HTTP/1.1\r\n{kind}\r\nContent-Length: {length}"), &body)
            .await
    }

    /// The same on the owner's socket, below the API's path.
    async fn owner(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = within(UnixStream::connect(self.socket())).await.unwrap();
        let length = body.len();
        let text = format!(
            "{method} /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(stream.read_to_string(&mut answer)).await.unwrap();
        answer
    }

    async fn send(&self, head: &str, body: &str) -> String {
        let mut stream = self.open(head).await;
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(stream.read_to_string(&mut answer)).await.unwrap();
        answer
    }

    /// A connection on which the head of a request was sent.
    async fn open(&self, head: &str) -> TcpStream {
        let mut stream = self.connect().await;
        let address = self.address();
        let text = format!("{head}\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn connect(&self) -> TcpStream {
        within(TcpStream::connect(self.address())).await.unwrap()
    }

    fn address(&self) -> &str {
        self.url().strip_prefix("http://").unwrap()
    }
}

/// A client that started `toolcrib serve --stdio` and holds its streams.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    last: i64,
}

impl Client {
    /// Before it has said anything.
    fn begin(place: &Place) -> Self {
        let mut child = spawn(place, &["serve", "--stdio"], &[PATH]);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), child, lines, last: 0 }
    }

    /// After the handshake.
    async fn start(place: &Place) -> Self {
        let mut client = Self::begin(place);
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "it", "version": "0"}});
        let hello = client.ask("initialize", params).await;
        assert_eq!(hello["serverInfo"]["name"], "toolcrib");
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await["result"].take()
    }

    async fn send(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        let id = self.last;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    async fn answer(&mut self, id: i64) -> Value {
        self.hear(|message| message["id"] == id).await
    }

    /// The next message of which this is so.
    async fn hear(&mut self, is_so: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = within(self.lines.next_line()).await.unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if is_so(&message) {
                return message;
            }
        }
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    async fn write(&mut self, message: &Value) {
        self.write_line(&message.to_string()).await;
    }

    async fn write_line(&mut self, message: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        within(stdin.write_all(format!("{message}\n").as_bytes())).await.unwrap();
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Closes its input; how the process ends, and what it wrote to standard error.
    async fn end(mut self) -> (Option<i32>, String) {
        self.stdin = None;
        self.ended().await
    }

    async fn ended(&mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        within(stderr.read_to_string(&mut said)).await.unwrap();
        (within(self.child.wait()).await.unwrap().code(), said)
    }
}

fn spawn(place: &Place, args: &[&str], env: &[(&str, &str)]) -> Child {
    start(place.command(args), env)
}

fn start(mut command: std::process::Command, env: &[(&str, &str)]) -> Child {
    command.envs(env.iter().copied());
    let mut command = Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true).spawn().unwrap()
}

fn tell(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// The state folder of a place, which is the only one in its home.
fn state(place: &Place) -> PathBuf {
    let folder = place.home().join(".local/state/toolcrib");
    std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

pub(super) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Asks again and again until something is so in another process.
async fn until_async(mut is_so: impl AsyncFnMut() -> bool) {
    within(async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

async fn within<F: Future>(future: F) -> F::Output {
    match timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {PATIENCE:?}"),
    }
}

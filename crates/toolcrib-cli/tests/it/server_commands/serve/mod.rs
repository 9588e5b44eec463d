//! Tests `toolcrib serve`.

mod argument_validation;
mod commands_with_host;
mod echoed_secrets;
mod elicitation;
mod fail_closed;
mod failed_load;
mod full_disk;
mod host_takeover;
mod http_surface;
mod invalid_schemas;
mod log_output;
mod minion_operations;
mod misspelt_keys;
mod per_call_sessions;
mod principal_limits;
mod python_sdk;
mod secret_canary;
mod server_lifecycle;
mod signals;
mod single_host;
mod startup_limit;
mod stdio_clients;
mod token_expiry;
mod token_protection;
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

use super::{PATH, TIME_LIMIT};
use crate::TestWorkspace;

/// A listening host and its ready line. The process ends when this is dropped.
struct ServeProcess {
    child: Child,
    line: Value,
}

impl ServeProcess {
    async fn start(workspace: &TestWorkspace) -> Self {
        Self::start_with(workspace, &[]).await
    }

    async fn start_with(workspace: &TestWorkspace, more: &[&str]) -> Self {
        let args = [&["serve", "--listen", ":0", "--json"], more].concat();
        Self::from_child(spawn(workspace, &args, &[PATH])).await
    }

    /// Starts the host without `--root`.
    async fn start_without_root(workspace: &TestWorkspace) -> Self {
        let command = workspace.command_without_root(&["serve", "--listen", ":0", "--json"]);
        Self::from_child(start(command, &[PATH])).await
    }

    async fn from_child(mut child: Child) -> Self {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = with_time_limit(lines.next_line()).await.unwrap().unwrap();
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

    /// Sends the signal and returns the exit code.
    async fn stop(mut self, signal: Signal) -> Option<i32> {
        send_signal(self.pid(), signal);
        with_time_limit(self.child.wait()).await.unwrap().code()
    }

    /// The response to one request over TCP.
    async fn request_head(&self, head: &str) -> String {
        self.send(head, "").await
    }

    async fn post(&self, path: &str, body: &Value) -> String {
        let body = body.to_string();
        let length = body.len();
        let kind = "Content-Type: application/json";
        self.send(&format!("POST {path} HTTP/1.1\r\n{kind}\r\nContent-Length: {length}"), &body)
            .await
    }

    /// The response on the owner's socket, for a path below `/api/v1`.
    async fn request_as_owner(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = with_time_limit(UnixStream::connect(self.socket())).await.unwrap();
        let length = body.len();
        let text = format!(
            "{method} /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        with_time_limit(stream.read_to_string(&mut answer)).await.unwrap();
        answer
    }

    async fn send(&self, head: &str, body: &str) -> String {
        let mut stream = self.open(head).await;
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        with_time_limit(stream.read_to_string(&mut answer)).await.unwrap();
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
        with_time_limit(TcpStream::connect(self.address())).await.unwrap()
    }

    fn address(&self) -> &str {
        self.url().strip_prefix("http://").unwrap()
    }
}

/// A client of `toolcrib serve --stdio` with its streams.
struct StdioClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    last: i64,
}

impl StdioClient {
    /// Starts the process without a handshake.
    fn spawn(workspace: &TestWorkspace) -> Self {
        let mut child = spawn(workspace, &["serve", "--stdio"], &[PATH]);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), child, lines, last: 0 }
    }

    /// Starts the process and performs the handshake.
    async fn start(workspace: &TestWorkspace) -> Self {
        let mut client = Self::spawn(workspace);
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "it", "version": "0"}});
        let hello = client.request("initialize", params).await;
        assert_eq!(hello["serverInfo"]["name"], "toolcrib");
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.response_to(id).await["result"].take()
    }

    async fn send(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        let id = self.last;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    async fn response_to(&mut self, id: i64) -> Value {
        self.wait_for_message(|message| message["id"] == id).await
    }

    /// The next message that matches.
    async fn wait_for_message(&mut self, is_so: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = with_time_limit(self.lines.next_line()).await.unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if is_so(&message) {
                return message;
            }
        }
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    async fn write(&mut self, message: &Value) {
        self.write_line(&message.to_string()).await;
    }

    async fn write_line(&mut self, message: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        with_time_limit(stdin.write_all(format!("{message}\n").as_bytes())).await.unwrap();
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Closes the input, and returns the exit code and stderr.
    async fn stop(mut self) -> (Option<i32>, String) {
        self.stdin = None;
        self.wait_for_exit().await
    }

    async fn wait_for_exit(&mut self) -> (Option<i32>, String) {
        let mut printed = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        with_time_limit(stderr.read_to_string(&mut printed)).await.unwrap();
        (with_time_limit(self.child.wait()).await.unwrap().code(), printed)
    }
}

fn spawn(workspace: &TestWorkspace, args: &[&str], env: &[(&str, &str)]) -> Child {
    start(workspace.command(args), env)
}

fn start(mut command: std::process::Command, env: &[(&str, &str)]) -> Child {
    command.envs(env.iter().copied());
    let mut command = Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true).spawn().unwrap()
}

fn send_signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// The only state folder in the home of a workspace.
fn state(workspace: &TestWorkspace) -> PathBuf {
    let folder = workspace.home().join(".local/state/toolcrib");
    std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

pub(super) fn file_mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Polls until the condition holds.
async fn wait_until_async(mut is_so: impl AsyncFnMut() -> bool) {
    with_time_limit(async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

async fn with_time_limit<F: Future>(future: F) -> F::Output {
    match timeout(TIME_LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {TIME_LIMIT:?}"),
    }
}

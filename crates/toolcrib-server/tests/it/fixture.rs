//! A host with scripted servers behind a gateway, and clients of both eras.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib::Host;
use toolcrib_config::model::host::HttpMode;
use toolcrib_server::gateway::{ClientIdentity, Gateway};
use toolcrib_testkit::scripted::{Script, server_binary};

/// Generous, because it only bounds failures.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn with_timeout<T>(work: impl Future<Output = T>) -> T {
    timeout(LIMIT, work).await.expect("timed out")
}

/// Waits until the condition holds.
pub(crate) async fn wait_until(holds: impl Fn() -> bool) {
    with_timeout(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A workspace and its host.
pub(crate) struct TestHost {
    pub(crate) folder: TempDir,
    pub(crate) host: Host,
    pub(crate) http_mode: HttpMode,
}

impl TestHost {
    /// Starts servers by name, with their scripts and additional entry fields.
    pub(crate) async fn new(servers: &[(&str, Script, Value)]) -> Self {
        Self::with(&json!({}), servers).await
    }

    /// Like `new`, with additional sections of the file: `host`, `gateway`.
    pub(crate) async fn with(extra: &Value, servers: &[(&str, Script, Value)]) -> Self {
        Self::start_with(HttpMode::Auto, extra, servers).await
    }

    /// Like `new`, with an HTTP mode.
    pub(crate) async fn start(mode: HttpMode, servers: &[(&str, Script, Value)]) -> Self {
        Self::start_with(mode, &json!({}), servers).await
    }

    /// Like `with`, with an HTTP mode.
    pub(crate) async fn start_with(
        http_mode: HttpMode,
        extra: &Value,
        servers: &[(&str, Script, Value)],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        write_config(&folder, http_mode, extra, servers);
        let (root, state) = (folder.path().join("root"), folder.path().join("state"));
        let host = with_timeout(Host::builder(root, state).start()).await.unwrap();
        with_timeout(host.wait_until_settled()).await;
        TestHost { folder, host, http_mode }
    }

    pub(crate) fn servers(&self, servers: &[(&str, Script, Value)]) {
        write_config(&self.folder, self.http_mode, &json!({}), servers);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Rewrites the file with the same servers and one reserved tool name.
    pub(crate) fn reserve(&self, tool: &str, servers: &[(&str, Script, Value)]) {
        let extra = json!({"host": {"reserved_tools": [tool]}});
        write_config(&self.folder, self.http_mode, &extra, servers);
    }

    /// Messages that a server has received.
    pub(crate) fn log(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The received messages as written, one per line.
    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(log_path(&self.folder, name)).unwrap_or_default()
    }

    /// A client that has not sent anything yet.
    pub(crate) fn client(&self) -> TestClient {
        let gateway = Gateway::new(self.host.clone());
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            gateway.serve(ClientIdentity::for_agent("default"), input, output).await.unwrap()
        });
        let (read, write) = tokio::io::split(ours);
        TestClient {
            lines: BufReader::new(read).lines(),
            write,
            last: 0,
            other_messages: Vec::new(),
            serving,
        }
    }
}

fn log_path(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join(format!("{name}.log"))
}

fn write_config(
    folder: &TempDir,
    http_mode: HttpMode,
    extra: &Value,
    servers: &[(&str, Script, Value)],
) {
    let entries: serde_json::Map<String, Value> = servers
        .iter()
        .map(|(name, script, policy)| {
            let script = Script { log: Some(log_path(folder, name)), ..script.clone() };
            let mut entry =
                json!({"command": server_binary().unwrap(), "args": [script.to_json()]});
            for (key, value) in policy.as_object().into_iter().flatten() {
                entry[key] = value.clone();
            }
            ((*name).to_owned(), entry)
        })
        .collect();
    let mut file = json!({"version": 1, "servers": entries});
    for (key, value) in extra.as_object().into_iter().flatten() {
        file[key] = value.clone();
    }
    if http_mode != HttpMode::Auto {
        file["gateway"]["http"] = json!(http_mode.as_str());
    }
    std::fs::write(folder.path().join("root/toolcrib.yaml"), file.to_string()).unwrap();
}

/// Sends and receives JSON, one message per line.
pub(crate) struct TestClient {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    last: i64,
    /// Messages that arrived during a wait for another one.
    pub(crate) other_messages: Vec<Value>,
    serving: JoinSet<()>,
}

impl TestClient {
    /// Opens a legacy session.
    pub(crate) async fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.request("initialize", params).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    /// Params of a modern request.
    pub(crate) fn modern_params(mut params: Value, capabilities: &Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({"name": "test", "version": "1"});
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
        params
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_raw(&message.to_string()).await;
    }

    /// Sends a message unchanged.
    pub(crate) async fn send_raw(&mut self, message: &str) {
        with_timeout(self.write.write_all(format!("{message}\n").as_bytes())).await.unwrap();
    }

    /// Sends a request and returns its id.
    pub(crate) async fn start_request(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    pub(crate) async fn next_message(&mut self) -> Value {
        serde_json::from_str(&self.next_line().await).unwrap()
    }

    /// The next message as written.
    pub(crate) async fn next_line(&mut self) -> String {
        with_timeout(self.lines.next_line()).await.unwrap().expect("the stream has ended")
    }

    /// Waits for the response to a request, and keeps other messages.
    pub(crate) async fn wait_for_response(&mut self, id: i64) -> Value {
        loop {
            let message = self.next_message().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.other_messages.push(message);
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start_request(method, params).await;
        self.wait_for_response(id).await
    }

    /// Closes the client side and waits for the gateway.
    pub(crate) async fn close(mut self) {
        drop((self.lines, self.write));
        with_timeout(self.serving.join_next()).await.unwrap().unwrap();
    }
}

//! A host with scripted servers behind a gateway, and a client of either era in front of it.

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
use toolcrib_server::gateway::{Gateway, Who};
use toolcrib_testkit::scripted::{Script, program};

/// Generous, because it only bounds a failure.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(LIMIT, work).await.expect("within the time")
}

/// Waits until it holds.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    within(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A workspace and its host.
pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) host: Host,
}

impl Scene {
    /// Servers by name: their script, and what their entries say besides.
    pub(crate) async fn new(servers: &[(&str, Script, Value)]) -> Self {
        Self::with(&json!({}), servers).await
    }

    /// The same, and what the file says besides: `host`, `gateway`.
    pub(crate) async fn with(besides: &Value, servers: &[(&str, Script, Value)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        write(&folder, besides, servers);
        let (root, state) = (folder.path().join("root"), folder.path().join("state"));
        let host = within(Host::builder(root, state).start()).await.unwrap();
        within(host.settled()).await;
        Scene { folder, host }
    }

    pub(crate) fn servers(&self, servers: &[(&str, Script, Value)]) {
        write(&self.folder, &json!({}), servers);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same servers, and a name that is the host's own.
    pub(crate) fn reserve(&self, tool: &str, servers: &[(&str, Script, Value)]) {
        write(&self.folder, &json!({"host": {"reserved_tools": [tool]}}), servers);
    }

    /// The messages that a server has received.
    pub(crate) fn log(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The same as they were written, one a line.
    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(log(&self.folder, name)).unwrap_or_default()
    }

    /// A client that has said nothing yet.
    pub(crate) fn client(&self) -> Client {
        let gateway = Gateway::new(self.host.clone());
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let mut serving = JoinSet::new();
        serving.spawn(
            async move { gateway.serve(Who::agent("default"), input, output).await.unwrap() },
        );
        let (read, write) = tokio::io::split(ours);
        Client { lines: BufReader::new(read).lines(), write, last: 0, aside: Vec::new(), serving }
    }
}

fn log(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join(format!("{name}.log"))
}

fn write(folder: &TempDir, besides: &Value, servers: &[(&str, Script, Value)]) {
    let entries: serde_json::Map<String, Value> = servers
        .iter()
        .map(|(name, script, policy)| {
            let script = Script { log: Some(log(folder, name)), ..script.clone() };
            let mut entry = json!({"command": program().unwrap(), "args": [script.to_json()]});
            for (key, value) in policy.as_object().into_iter().flatten() {
                entry[key] = value.clone();
            }
            ((*name).to_owned(), entry)
        })
        .collect();
    let mut file = json!({"version": 1, "servers": entries});
    for (key, value) in besides.as_object().into_iter().flatten() {
        file[key] = value.clone();
    }
    std::fs::write(folder.path().join("root/toolcrib.yaml"), file.to_string()).unwrap();
}

/// Speaks JSON, one message a line.
pub(crate) struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    last: i64,
    /// What came while something else was waited for.
    pub(crate) aside: Vec<Value>,
    serving: JoinSet<()>,
}

impl Client {
    /// Opens a session of the legacy era.
    pub(crate) async fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.request("initialize", params).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    /// The params of a request of the modern era.
    pub(crate) fn modern(mut params: Value, capabilities: &Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({"name": "test", "version": "1"});
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
        params
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(&message.to_string()).await;
    }

    /// Sends a message as it is written here.
    pub(crate) async fn write(&mut self, message: &str) {
        within(self.write.write_all(format!("{message}\n").as_bytes())).await.unwrap();
    }

    /// Sends a request; its id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// The next message as it is written.
    pub(crate) async fn line(&mut self) -> String {
        within(self.lines.next_line()).await.unwrap().expect("the stream goes on")
    }

    /// The answer to a request; whatever else comes is put aside.
    pub(crate) async fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.aside.push(message);
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    /// Closes its end, and waits for the other.
    pub(crate) async fn end(mut self) {
        drop((self.lines, self.write));
        within(self.serving.join_next()).await.unwrap().unwrap();
    }
}

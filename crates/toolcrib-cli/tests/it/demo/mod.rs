//! Tests `toolcrib demo-server` with our client in both eras over both transports, with raw input, and with other
//! clients.

mod http;
mod lists;
mod shutdown;
mod stdio;
mod tools;

use std::collections::BTreeMap;
use std::process::Stdio as Pipe;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use toolcrib_config::model::choice::{AllowList, InheritedEnv};
use toolcrib_config::model::host::HttpMode;
use toolcrib_config::model::transport::{
    DisplayValue, FramingMode, ProcessEnv, Remote, Stdio, StreamableHttp, Transport, UrlPolicy,
};
use toolcrib_upstream::conn::peer::{
    CallOptions, CallTimeouts, HandlerFuture, MailboxReceiver, Peer, PeerCallError, PeerEvent,
    PeerSettings, ProgressMode, RequestHandler, ServerRequest,
};
use toolcrib_upstream::process::{GracePeriods, Instance};
use toolcrib_upstream::signals::SecretMask;
use toolcrib_upstream::transport::{Credentials, OpenContext, Permissions, Tls, open};
use toolcrib_wire::{MessageLimits, RawJson, RpcError, Version, method};

/// Bounds a failing wait.
const TIME_LIMIT: Duration = Duration::from_secs(30);

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolcrib");

/// Transport and protocol version of a connection.
#[derive(Clone, Copy, Debug)]
struct ConnectionMode {
    http: bool,
    version: &'static str,
}

const CONNECTION_MODES: [ConnectionMode; 4] = [
    ConnectionMode { http: false, version: "2025-11-25" },
    ConnectionMode { http: false, version: "2026-07-28" },
    ConnectionMode { http: true, version: "2025-11-25" },
    ConnectionMode { http: true, version: "2026-07-28" },
];

impl ConnectionMode {
    fn is_modern(self) -> bool {
        self.version == "2026-07-28"
    }
}

/// The demo server over HTTP. Its process ends when this is dropped.
pub(crate) struct HttpServer {
    child: Child,
    pub(crate) url: String,
}

impl HttpServer {
    pub(crate) async fn start() -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["demo-server", "--http", "0"])
            .stdin(Pipe::null())
            .stdout(Pipe::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = with_time_limit(lines.next_line()).await.unwrap().unwrap();
        Self { child, url }
    }
}

/// The demo server and a client after the handshake.
struct Client {
    mode: ConnectionMode,
    capabilities: Value,
    peer: Peer,
    events: Option<MailboxReceiver<PeerEvent>>,
    hello: Value,
    instance: Instance,
    _state: TempDir,
    server: Option<Arc<HttpServer>>,
}

impl Client {
    async fn new(mode: ConnectionMode) -> Self {
        Self::with_capabilities(mode, json!({}), DecliningHandler).await
    }

    /// Connects with capabilities and a handler for server requests.
    async fn with_capabilities(
        mode: ConnectionMode,
        capabilities: Value,
        handler: impl RequestHandler,
    ) -> Self {
        let server = match mode.http {
            true => Some(Arc::new(HttpServer::start().await)),
            false => None,
        };
        Self::connect(mode, server, capabilities, handler).await
    }

    /// A second client of the same HTTP server.
    async fn second_client(&self) -> Self {
        Self::connect(self.mode, self.server.clone(), json!({}), DecliningHandler).await
    }

    async fn connect(
        mode: ConnectionMode,
        server: Option<Arc<HttpServer>>,
        capabilities: Value,
        handler: impl RequestHandler,
    ) -> Self {
        let state = tempfile::tempdir().unwrap();
        let instance = Instance::open(state.path()).unwrap();
        let transport = match &server {
            Some(server) => Transport::StreamableHttp(streamable(&server.url)),
            None => Transport::Stdio(stdio_spec()),
        };
        let link =
            with_time_limit(open(&transport, &opening(&instance, &Tls::default()))).await.unwrap();
        let settings = PeerSettings {
            server: "demo".to_owned(),
            handler: Arc::new(handler),
            masks_results: false,
        };
        let (peer, events) = Peer::start(link, settings);
        let mut client = Self {
            mode,
            capabilities,
            peer,
            events: Some(events),
            hello: Value::Null,
            instance,
            _state: state,
            server,
        };
        client.hello = client.handshake().await;
        client
    }

    async fn handshake(&self) -> Value {
        let version = Version::from(self.mode.version);
        if self.mode.is_modern() {
            self.peer.set_version(version);
            return self.request(method::DISCOVER, json!({})).await.unwrap();
        }
        let params = json!({"protocolVersion": self.mode.version, "capabilities": self.capabilities, "clientInfo": {"name": "it", "version": "0"}});
        let hello = self.request(method::INITIALIZE, params).await.unwrap();
        self.peer.set_version(version);
        self.peer.notify(method::INITIALIZED, None).await.unwrap();
        hello
    }

    /// The params with the `_meta` that the era requires.
    fn params(&self, mut params: Value) -> RawJson {
        if self.mode.is_modern() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.mode.version,
                "io.modelcontextprotocol/clientInfo": {"name": "it", "version": "0"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
        }
        RawJson::from_value(&params).unwrap()
    }

    async fn request(&self, method: &str, params: Value) -> Result<Value, PeerCallError> {
        self.request_with_progress(method, params, ProgressMode::None).await
    }

    async fn request_with_progress(
        &self,
        method: &str,
        params: Value,
        progress: ProgressMode,
    ) -> Result<Value, PeerCallError> {
        let patience = CallTimeouts { request: Some(TIME_LIMIT), max: None };
        let options = CallOptions { timeouts: patience, progress, ..CallOptions::default() };
        let body = with_time_limit(self.peer.call(method, self.params(params), options)).await?;
        Ok(body.json().read().unwrap())
    }

    async fn call_tool(&self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.request(method::TOOLS_CALL, params).await.unwrap()
    }

    async fn expect_error(&self, method: &str, params: Value) -> RpcError {
        match self.request(method, params).await {
            Err(PeerCallError::Refused(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// The number of running calls, from the server's own resource.
    async fn running_calls(&self) -> i64 {
        let read =
            self.request(method::RESOURCES_READ, json!({"uri": "demo://calls"})).await.unwrap();
        let text = read["contents"][0]["text"].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap()["running"].as_i64().unwrap()
    }

    /// Polls until this many calls are running.
    async fn wait_for_running_calls(&self, count: i64) {
        let look = async {
            while self.running_calls().await != count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        with_time_limit(look).await;
    }

    async fn close(self) {
        assert_eq!(self.peer.anomalies(), [], "{:?}", self.mode);
        with_time_limit(self.peer.close(Duration::from_secs(5))).await;
        with_time_limit(self.instance.close()).await;
    }
}

/// Declines all server requests.
struct DecliningHandler;

impl RequestHandler for DecliningHandler {
    fn handle(&self, _: ServerRequest) -> Option<HandlerFuture> {
        None
    }
}

fn result_text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn opening<'a>(instance: &'a Instance, tls: &'a Tls) -> OpenContext<'a> {
    OpenContext {
        instance,
        host_env: &[],
        extra_env: &[],
        cwd: ".".into(),
        lookup: &|_| None,
        limits: MessageLimits::default(),
        stderr_limit: 1 << 16,
        graces: GracePeriods::default(),
        connect_timeout: TIME_LIMIT,
        sse_read_timeout: TIME_LIMIT,
        credentials: Credentials::None,
        tls,
        permissions: Permissions { spawn: true, network: true, docker: true },
        http_mode: HttpMode::Auto,
        mask: SecretMask::default(),
    }
}

fn stdio_spec() -> Stdio {
    Stdio {
        command: DisplayValue::literal(PROGRAM),
        args: vec![DisplayValue::literal("demo-server")],
        cwd: None,
        encoding: "utf-8".to_owned(),
        framing: FramingMode::Newline,
        allow_commands: AllowList::Any,
        env: ProcessEnv {
            inherit: InheritedEnv::None,
            file: None,
            unset: Vec::new(),
            set: BTreeMap::new(),
        },
    }
}

fn streamable(url: &str) -> StreamableHttp {
    let url_policy = UrlPolicy::HttpsOrLoopback;
    let remote = Remote { url: DisplayValue::literal(url), headers: BTreeMap::new(), url_policy };
    StreamableHttp { remote, session_id: None, terminate_on_close: true }
}

async fn with_time_limit<F: Future>(future: F) -> F::Output {
    match timeout(TIME_LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {TIME_LIMIT:?}"),
    }
}

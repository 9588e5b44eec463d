//! `toolcrib demo-server`, talked to by our own client in both eras over both transports, by hand, and by others.

mod endings;
mod http;
mod lists;
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
use toolcrib_config::model::choice::{AnyOf, Inherit};
use toolcrib_config::model::transport::{
    Env, Framing, Plain, Remote, Stdio, StreamableHttp, Transport, UrlPolicy,
};
use toolcrib_upstream::conn::peer::{
    Answering, Asked, CallError, CallOptions, Event, Handler, Patience, Peer, PeerSettings,
    ProgressWish, Receiver,
};
use toolcrib_upstream::process::{Graces, Instance};
use toolcrib_upstream::signals::SecretMask;
use toolcrib_upstream::transport::{Credentials, Opening, Permissions, Tls, open};
use toolcrib_wire::{Limits, Raw, RpcError, Version, method};

/// Only bounds a failure.
const PATIENCE: Duration = Duration::from_secs(30);

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolcrib");

/// How the server is reached, and in which version it is spoken to.
#[derive(Clone, Copy, Debug)]
struct Way {
    http: bool,
    version: &'static str,
}

const WAYS: [Way; 4] = [
    Way { http: false, version: "2025-11-25" },
    Way { http: false, version: "2026-07-28" },
    Way { http: true, version: "2025-11-25" },
    Way { http: true, version: "2026-07-28" },
];

impl Way {
    fn is_modern(self) -> bool {
        self.version == "2026-07-28"
    }
}

/// The server over HTTP. Its process ends with it.
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
        let url = within(lines.next_line()).await.unwrap().unwrap();
        Self { child, url }
    }
}

/// The server and a client of it, after the handshake.
struct Client {
    way: Way,
    capabilities: Value,
    peer: Peer,
    events: Option<Receiver<Event>>,
    hello: Value,
    instance: Instance,
    _state: TempDir,
    server: Option<Arc<HttpServer>>,
}

impl Client {
    async fn new(way: Way) -> Self {
        Self::able(way, json!({}), Decline).await
    }

    /// With capabilities, and somebody who answers what the server asks.
    async fn able(way: Way, capabilities: Value, handler: impl Handler) -> Self {
        let server = match way.http {
            true => Some(Arc::new(HttpServer::start().await)),
            false => None,
        };
        Self::of(way, server, capabilities, handler).await
    }

    /// Another client of the same server, which is one over HTTP.
    async fn beside(&self) -> Self {
        Self::of(self.way, self.server.clone(), json!({}), Decline).await
    }

    async fn of(
        way: Way,
        server: Option<Arc<HttpServer>>,
        capabilities: Value,
        handler: impl Handler,
    ) -> Self {
        let state = tempfile::tempdir().unwrap();
        let instance = Instance::open(state.path()).unwrap();
        let transport = match &server {
            Some(server) => Transport::StreamableHttp(streamable(&server.url)),
            None => Transport::Stdio(stdio_spec()),
        };
        let link = within(open(&transport, &opening(&instance, &Tls::default()))).await.unwrap();
        let settings = PeerSettings {
            server: "demo".to_owned(),
            handler: Arc::new(handler),
            masks_results: false,
        };
        let (peer, events) = Peer::start(link, settings);
        let mut client = Self {
            way,
            capabilities,
            peer,
            events: Some(events),
            hello: Value::Null,
            instance,
            _state: state,
            server,
        };
        client.hello = client.greet().await;
        client
    }

    async fn greet(&self) -> Value {
        let version = Version::from(self.way.version);
        if self.way.is_modern() {
            self.peer.speak(version);
            return self.ask(method::DISCOVER, json!({})).await.unwrap();
        }
        let params = json!({"protocolVersion": self.way.version, "capabilities": self.capabilities, "clientInfo": {"name": "it", "version": "0"}});
        let hello = self.ask(method::INITIALIZE, params).await.unwrap();
        self.peer.speak(version);
        self.peer.notify(method::INITIALIZED, None).await.unwrap();
        hello
    }

    /// The params as this client's era wants them.
    fn params(&self, mut params: Value) -> Raw {
        if self.way.is_modern() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.way.version,
                "io.modelcontextprotocol/clientInfo": {"name": "it", "version": "0"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
        }
        Raw::of(&params).unwrap()
    }

    async fn ask(&self, method: &str, params: Value) -> Result<Value, CallError> {
        self.ask_with(method, params, ProgressWish::None).await
    }

    async fn ask_with(
        &self,
        method: &str,
        params: Value,
        progress: ProgressWish,
    ) -> Result<Value, CallError> {
        let patience = Patience { request: Some(PATIENCE), max: None };
        let options = CallOptions { patience, progress, ..CallOptions::default() };
        let body = within(self.peer.call(method, self.params(params), options)).await?;
        Ok(body.json().read().unwrap())
    }

    async fn tool(&self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.ask(method::TOOLS_CALL, params).await.unwrap()
    }

    async fn refused(&self, method: &str, params: Value) -> RpcError {
        match self.ask(method, params).await {
            Err(CallError::Refused(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// What the server's own resource says.
    async fn running(&self) -> i64 {
        let read = self.ask(method::RESOURCES_READ, json!({"uri": "demo://calls"})).await.unwrap();
        let text = read["contents"][0]["text"].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap()["running"].as_i64().unwrap()
    }

    /// Looks until so many calls are under way. Asking again is the only way to wait for it.
    async fn runs(&self, count: i64) {
        let look = async {
            while self.running().await != count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within(look).await;
    }

    async fn end(self) {
        assert_eq!(self.peer.oddities(), [], "{:?}", self.way);
        within(self.peer.close(Duration::from_secs(5))).await;
        within(self.instance.close()).await;
    }
}

/// Says no to whatever the server asks.
struct Decline;

impl Handler for Decline {
    fn take(&self, _: Asked) -> Option<Answering> {
        None
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn opening<'a>(instance: &'a Instance, tls: &'a Tls) -> Opening<'a> {
    Opening {
        instance,
        host_env: &[],
        extra_env: &[],
        cwd: ".".into(),
        find: &|_| None,
        limits: Limits::default(),
        stderr_limit: 1 << 16,
        graces: Graces::default(),
        connect_timeout: PATIENCE,
        sse_read_timeout: PATIENCE,
        credentials: Credentials::None,
        tls,
        permissions: Permissions { spawn: true, network: true, docker: true },
        mask: SecretMask::default(),
    }
}

fn stdio_spec() -> Stdio {
    Stdio {
        command: Plain::literal(PROGRAM),
        args: vec![Plain::literal("demo-server")],
        cwd: None,
        encoding: "utf-8".to_owned(),
        framing: Framing::Newline,
        allow_commands: AnyOf::Any,
        env: Env { inherit: Inherit::None, file: None, unset: Vec::new(), set: BTreeMap::new() },
    }
}

fn streamable(url: &str) -> StreamableHttp {
    let url_policy = UrlPolicy::HttpsOrLoopback;
    let remote = Remote { url: Plain::literal(url), headers: BTreeMap::new(), url_policy };
    StreamableHttp { remote, session_id: None, terminate_on_close: true }
}

async fn within<F: Future>(future: F) -> F::Output {
    match timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {PATIENCE:?}"),
    }
}

//! Fixture for tests of `Peer`: the scripted server over pipes or in a container, and a manually driven server over an
//! in-memory stream.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::timeout;
use toolcrib_config::model::choice::{AllowList, InheritedEnv};
use toolcrib_config::model::host::HttpMode;
use toolcrib_config::model::transport::{
    ContainerTarget, DisplayValue, DockerExec, FramingMode, ProcessEnv, Stdio, Transport,
};
use toolcrib_testkit::scripted::{Script, server_binary};
use toolcrib_upstream::conn::peer::{
    Anomaly, CallOptions, CallTimeouts, MailboxReceiver, Peer, PeerCallError, PeerEvent,
    PeerSettings, RefuseRequests, RequestHandler,
};
use toolcrib_upstream::process::{GracePeriods, Instance};
use toolcrib_upstream::signals::SecretMask;
use toolcrib_upstream::transport::{
    Credentials, Encoding, Link, OpenContext, OpenError, Permissions, StreamSettings, Tls,
    link_over_streams, open,
};
use toolcrib_wire::{Body, FrameDecoder, MessageLimits, RawJson};

/// Long enough for a slow machine; it only bounds a failure.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Far below any deadline of these tests, so a shorter time means that no deadline was awaited.
pub(crate) const IMMEDIATE: Duration = Duration::from_secs(5);

/// A scripted server as a child process, and the session with it.
pub(crate) struct ScriptedPeer {
    pub(crate) peer: Peer,
    pub(crate) events: MailboxReceiver<PeerEvent>,
    pub(crate) instance: Instance,
    pub(crate) folder: TempDir,
}

impl ScriptedPeer {
    pub(crate) async fn new(script: Script) -> Self {
        Self::with_config(script, |_, _| {}).await
    }

    /// Starts with a changed configuration or host.
    pub(crate) async fn with_config(
        script: Script,
        change: impl FnOnce(&mut Stdio, &mut TestHost),
    ) -> Self {
        Self::try_with_config(script, change).await.unwrap()
    }

    pub(crate) async fn try_with_config(
        mut script: Script,
        change: impl FnOnce(&mut Stdio, &mut TestHost),
    ) -> Result<Self, OpenError> {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::open(&folder.path().join("state")).unwrap();
        script.log = Some(folder.path().join("log"));
        let mut stdio = scripted_config(&script);
        let mut host = TestHost::new(folder.path().to_owned());
        change(&mut stdio, &mut host);
        let link = host.open(&Transport::Stdio(stdio), &instance).await?;
        let (peer, events) = Peer::start(link, settings(RefuseRequests));
        Ok(ScriptedPeer { peer, events, instance, folder })
    }

    /// The messages that the server has received.
    pub(crate) fn received_messages(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Polls the log file until the server has received such a message.
    pub(crate) async fn wait_for_message(&self, method: &str) -> Value {
        let look = async {
            loop {
                let found = self
                    .received_messages()
                    .into_iter()
                    .find(|message| message["method"] == method);
                match found {
                    Some(message) => return message,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        with_time_limit(look).await
    }

    pub(crate) async fn close(self) {
        with_time_limit(self.peer.close(Duration::from_secs(1))).await;
        with_time_limit(self.instance.close()).await;
    }
}

/// Host settings that a test may change.
pub(crate) struct TestHost {
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: PathBuf,
    pub(crate) limits: MessageLimits,
    pub(crate) graces: GracePeriods,
    pub(crate) permissions: Permissions,
}

impl TestHost {
    pub(crate) fn new(cwd: PathBuf) -> Self {
        TestHost {
            env: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
            cwd,
            limits: MessageLimits::default(),
            graces: GracePeriods { close: IMMEDIATE, terminate: IMMEDIATE, kill: TIME_LIMIT },
            permissions: Permissions { spawn: true, network: true, docker: false },
        }
    }

    pub(crate) async fn open(
        &self,
        transport: &Transport,
        instance: &Instance,
    ) -> Result<Link, OpenError> {
        let opening = OpenContext {
            instance,
            host_env: &self.env,
            extra_env: &[],
            cwd: self.cwd.clone(),
            lookup: &|_| None,
            limits: self.limits,
            stderr_limit: 64 << 10,
            graces: self.graces,
            connect_timeout: TIME_LIMIT,
            sse_read_timeout: TIME_LIMIT,
            credentials: Credentials::None,
            tls: &Tls::default(),
            permissions: self.permissions,
            http_mode: HttpMode::Auto,
            mask: SecretMask::default(),
        };
        with_time_limit(open(transport, &opening)).await
    }
}

/// An exec of the scripted server.
pub(crate) fn scripted_exec(target: ContainerTarget, script: &Script) -> DockerExec {
    DockerExec {
        target,
        command: DisplayValue::literal("scripted-server"),
        args: vec![DisplayValue::literal(script.to_json())],
        shell: None,
        workdir: None,
        endpoint: None,
        keep_container: false,
        framing: FramingMode::Auto,
        env: ProcessEnv {
            inherit: InheritedEnv::None,
            file: None,
            unset: Vec::new(),
            set: BTreeMap::new(),
        },
    }
}

pub(crate) fn scripted_config(script: &Script) -> Stdio {
    Stdio {
        command: DisplayValue::literal(server_binary().unwrap().to_str().unwrap()),
        args: vec![DisplayValue::literal(script.to_json())],
        cwd: None,
        encoding: "utf-8".to_owned(),
        framing: FramingMode::Auto,
        allow_commands: AllowList::Any,
        env: ProcessEnv {
            inherit: InheritedEnv::Minimal,
            file: None,
            unset: Vec::new(),
            set: BTreeMap::new(),
        },
    }
}

/// A server whose messages the test reads and writes.
pub(crate) struct ManualServer {
    pub(crate) stream: DuplexStream,
    pub(crate) decoder: FrameDecoder,
}

impl ManualServer {
    /// Returns the peer and the server's side of the session.
    pub(crate) fn start(
        handler: impl RequestHandler,
    ) -> (Peer, MailboxReceiver<PeerEvent>, ManualServer) {
        ManualServer::with_pipe_capacity(64 << 10, handler)
    }

    /// Uses a pipe with this capacity in bytes.
    pub(crate) fn with_pipe_capacity(
        room: usize,
        handler: impl RequestHandler,
    ) -> (Peer, MailboxReceiver<PeerEvent>, ManualServer) {
        let (ours, stream) = tokio::io::duplex(room);
        let (reader, writer) = tokio::io::split(ours);
        let link = link_over_streams(reader, writer, stream_settings());
        let (peer, events) = Peer::start(link, settings(handler));
        let server = ManualServer { stream, decoder: FrameDecoder::new(&MessageLimits::default()) };
        (peer, events, server)
    }

    pub(crate) async fn read(&mut self) -> Value {
        let mut chunk = vec![0; 4096];
        loop {
            if let Some(frame) = self.decoder.next() {
                return serde_json::from_slice(&frame.unwrap().bytes).unwrap();
            }
            let count = with_time_limit(self.stream.read(&mut chunk)).await.unwrap();
            assert!(count > 0, "the client closed the stream");
            self.decoder.push(&chunk[..count]);
        }
    }

    pub(crate) async fn write(&mut self, message: Value) {
        self.write_text(&format!("{message}\n")).await;
    }

    pub(crate) async fn write_text(&mut self, text: &str) {
        with_time_limit(self.stream.write_all(text.as_bytes())).await.unwrap();
    }

    pub(crate) async fn respond(&mut self, id: &Value) {
        self.write(json!({"jsonrpc": "2.0", "id": id, "result": {}})).await;
    }
}

pub(crate) fn stream_settings() -> StreamSettings {
    StreamSettings {
        framing: FramingMode::Auto,
        encoding: Encoding::Utf8,
        limits: MessageLimits::default(),
    }
}

pub(crate) fn settings(handler: impl RequestHandler) -> PeerSettings {
    PeerSettings { server: "scripted".to_owned(), handler: Arc::new(handler), masks_results: false }
}

pub(crate) fn raw(value: &Value) -> RawJson {
    RawJson::from_value(value).unwrap()
}

pub(crate) fn request_timeout(request: Duration) -> CallOptions {
    CallOptions {
        timeouts: CallTimeouts { request: Some(request), max: None },
        ..CallOptions::default()
    }
}

/// Calls a tool of the scripted server.
pub(crate) async fn call_tool(
    peer: &Peer,
    name: &str,
    arguments: &Value,
) -> Result<Body, PeerCallError> {
    let params = json!({"name": name, "arguments": arguments});
    with_time_limit(peer.call("tools/call", raw(&params), request_timeout(TIME_LIMIT))).await
}

/// The text of a tool result.
pub(crate) fn result_text(body: &Body) -> String {
    let value: Value = serde_json::from_str(body.json().text()).unwrap();
    value["content"][0]["text"].as_str().unwrap().to_owned()
}

pub(crate) async fn check_echo(peer: &Peer, word: &str) {
    let arguments = json!({"word": word});
    let body = call_tool(peer, "echo", &arguments).await.unwrap();
    assert_eq!(result_text(&body), arguments.to_string());
}

/// Occurrences of an anomaly.
pub(crate) fn oddity_count(peer: &Peer, odd: Anomaly) -> u64 {
    let all = peer.anomalies();
    all.iter().find(|oddity| oddity.anomaly == odd).map_or(0, |oddity| oddity.count)
}

pub(crate) async fn with_time_limit<F: Future>(future: F) -> F::Output {
    match timeout(TIME_LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {TIME_LIMIT:?}"),
    }
}

//! Conversations: with the scripted server over pipes, and with a server played by hand over a stream in memory.

mod calls;
mod docker;
mod faults;
mod inbound;
mod stdio;
mod stream;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::timeout;
use toolcrib_config::model::choice::{AnyOf, Inherit};
use toolcrib_config::model::transport::{Env, Framing, Plain, Stdio, Transport};
use toolcrib_testkit::scripted::{Script, program};
use toolcrib_upstream::conn::peer::{
    CallError, CallOptions, Event, Handler, NoRequests, Odd, Patience, Peer, PeerSettings, Receiver,
};
use toolcrib_upstream::process::{Graces, Instance};
use toolcrib_upstream::signals::SecretMask;
use toolcrib_upstream::transport::{
    Credentials, Encoding, Link, OpenError, Opening, Permissions, StreamSettings, Tls, open, over,
};
use toolcrib_wire::{Body, Decoder, Limits, Raw};

/// Generous, because it only bounds a failure.
const LIMIT: Duration = Duration::from_secs(30);

/// Far below any deadline in these tests: what comes within it was not waited for.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A scripted server as a child, and the conversation with it.
struct Served {
    peer: Peer,
    events: Receiver<Event>,
    instance: Instance,
    folder: TempDir,
}

impl Served {
    async fn new(script: Script) -> Self {
        Self::with(script, |_, _| {}).await
    }

    /// With another configuration or another host.
    async fn with(script: Script, change: impl FnOnce(&mut Stdio, &mut World)) -> Self {
        Self::try_with(script, change).await.unwrap()
    }

    async fn try_with(
        mut script: Script,
        change: impl FnOnce(&mut Stdio, &mut World),
    ) -> Result<Self, OpenError> {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::open(&folder.path().join("state")).unwrap();
        script.log = Some(folder.path().join("log"));
        let mut stdio = config(&script);
        let mut world = World::new(folder.path().to_owned());
        change(&mut stdio, &mut world);
        let link = world.open(&Transport::Stdio(stdio), &instance).await?;
        let (peer, events) = Peer::start(link, settings(NoRequests));
        Ok(Served { peer, events, instance, folder })
    }

    /// The messages that the server has received.
    fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Looks until the server has received such a message. A sleep is the only way to wait for a file.
    async fn received(&self, method: &str) -> Value {
        let look = async {
            loop {
                let found = self.log().into_iter().find(|message| message["method"] == method);
                match found {
                    Some(message) => return message,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        within(look).await
    }

    async fn end(self) {
        within(self.peer.close(Duration::from_secs(1))).await;
        within(self.instance.close()).await;
    }
}

/// What a test may change about the host.
struct World {
    env: Vec<(String, String)>,
    cwd: PathBuf,
    limits: Limits,
    graces: Graces,
    permissions: Permissions,
}

impl World {
    fn new(cwd: PathBuf) -> Self {
        World {
            env: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
            cwd,
            limits: Limits::default(),
            graces: Graces { close: AT_ONCE, terminate: AT_ONCE, kill: LIMIT },
            permissions: Permissions { spawn: true, network: true, docker: false },
        }
    }

    async fn open(&self, transport: &Transport, instance: &Instance) -> Result<Link, OpenError> {
        let opening = Opening {
            instance,
            host_env: &self.env,
            extra_env: &[],
            cwd: self.cwd.clone(),
            find: &|_| None,
            limits: self.limits,
            stderr_limit: 64 << 10,
            graces: self.graces,
            connect_timeout: LIMIT,
            sse_read_timeout: LIMIT,
            credentials: Credentials::None,
            tls: &Tls::default(),
            permissions: self.permissions,
            mask: SecretMask::default(),
        };
        within(open(transport, &opening)).await
    }
}

fn config(script: &Script) -> Stdio {
    Stdio {
        command: Plain::literal(program().unwrap().to_str().unwrap()),
        args: vec![Plain::literal(script.to_json())],
        cwd: None,
        encoding: "utf-8".to_owned(),
        framing: Framing::Auto,
        allow_commands: AnyOf::Any,
        env: Env { inherit: Inherit::Minimal, file: None, unset: Vec::new(), set: BTreeMap::new() },
    }
}

/// A server played by hand: the test reads and writes its messages.
struct Hand {
    stream: DuplexStream,
    decoder: Decoder,
}

impl Hand {
    /// The conversation and the server's side of it.
    fn start(handler: impl Handler) -> (Peer, Receiver<Event>, Hand) {
        Hand::with_room(64 << 10, handler)
    }

    /// With a pipe that holds only so many bytes.
    fn with_room(room: usize, handler: impl Handler) -> (Peer, Receiver<Event>, Hand) {
        let (ours, stream) = tokio::io::duplex(room);
        let (reader, writer) = tokio::io::split(ours);
        let link = over(reader, writer, stream_settings());
        let (peer, events) = Peer::start(link, settings(handler));
        let hand = Hand { stream, decoder: Decoder::new(&Limits::default()) };
        (peer, events, hand)
    }

    async fn read(&mut self) -> Value {
        let mut chunk = vec![0; 4096];
        loop {
            if let Some(frame) = self.decoder.next() {
                return serde_json::from_slice(&frame.unwrap().bytes).unwrap();
            }
            let count = within(self.stream.read(&mut chunk)).await.unwrap();
            assert!(count > 0, "the client has gone");
            self.decoder.push(&chunk[..count]);
        }
    }

    async fn write(&mut self, message: Value) {
        self.write_text(&format!("{message}\n")).await;
    }

    async fn write_text(&mut self, text: &str) {
        within(self.stream.write_all(text.as_bytes())).await.unwrap();
    }

    async fn answer(&mut self, id: &Value) {
        self.write(json!({"jsonrpc": "2.0", "id": id, "result": {}})).await;
    }
}

fn stream_settings() -> StreamSettings {
    StreamSettings { framing: Framing::Auto, encoding: Encoding::Utf8, limits: Limits::default() }
}

fn settings(handler: impl Handler) -> PeerSettings {
    PeerSettings { server: "scripted".to_owned(), handler: Arc::new(handler), masks_results: false }
}

fn raw(value: &Value) -> Raw {
    Raw::of(value).unwrap()
}

fn patience(request: Duration) -> CallOptions {
    CallOptions {
        patience: Patience { request: Some(request), max: None },
        ..CallOptions::default()
    }
}

/// Calls a tool of the scripted server.
async fn tool(peer: &Peer, name: &str, arguments: &Value) -> Result<Body, CallError> {
    let params = json!({"name": name, "arguments": arguments});
    within(peer.call("tools/call", raw(&params), patience(LIMIT))).await
}

/// The text that a tool gave.
fn text(body: &Body) -> String {
    let value: Value = serde_json::from_str(body.json().text()).unwrap();
    value["content"][0]["text"].as_str().unwrap().to_owned()
}

async fn echo(peer: &Peer, word: &str) {
    let arguments = json!({"word": word});
    let body = tool(peer, "echo", &arguments).await.unwrap();
    assert_eq!(text(&body), arguments.to_string());
}

/// How often something odd was seen.
fn seen(peer: &Peer, odd: Odd) -> u64 {
    let all = peer.oddities();
    all.iter().find(|oddity| oddity.odd == odd).map_or(0, |oddity| oddity.count)
}

async fn within<F: Future>(future: F) -> F::Output {
    match timeout(LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {LIMIT:?}"),
    }
}

//! A Docker engine that a test plays: it notes every call and hands out the far end of each attached exec.
//!
//! It knows one container, `there`, which runs, and makes others as `made`. What a client starts with `sh` is
//! taken for its own look around and ends at once; any other exec runs until the test drops its end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Streams of the multiplexed output.
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;

/// Execs that a test has not taken yet.
const WAITING: usize = 16;

/// The engine. Dropped, it ends with all its connections.
#[derive(Debug)]
pub struct FakeEngine {
    socket: PathBuf,
    world: Arc<World>,
    attached: mpsc::Receiver<Attached>,
    _accepting: JoinSet<()>,
}

/// A call as it came: `POST /containers/there/exec`, without version and query.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    pub what: String,
    pub body: Value,
}

/// The process's side of an attached exec: what is written goes out as it is. Dropped, the process has ended.
#[derive(Debug)]
pub struct Attached {
    io: TokioIo<Upgraded>,
    _running: Running,
}

#[derive(Debug)]
struct World {
    calls: Mutex<Vec<Called>>,
    execs: Mutex<BTreeMap<usize, bool>>,
    attach: mpsc::Sender<Attached>,
    upgrades: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Running(Arc<World>, usize);

/// A piece of output as an engine writes it.
pub fn frame(stream: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[stream, 0, 0, 0], &length[..], bytes].concat()
}

impl FakeEngine {
    /// Listens at a path that must be free.
    pub fn start(socket: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let (attach, attached) = mpsc::channel(WAITING);
        let world = Arc::new(World {
            calls: Mutex::default(),
            execs: Mutex::default(),
            attach,
            upgrades: Mutex::default(),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&world)));
        Ok(Self { socket: socket.to_owned(), world, attached, _accepting: accepting })
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// All calls so far, in the order in which they came.
    pub fn calls(&self) -> Vec<Called> {
        lock(&self.world.calls).clone()
    }

    /// The next exec that a client attaches to.
    pub async fn attached(&mut self) -> Option<Attached> {
        self.attached.recv().await
    }
}

async fn accept(listener: UnixListener, world: Arc<World>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let world = Arc::clone(&world);
        connections.spawn(async move {
            let answer = service_fn(|request| answer(request, Arc::clone(&world)));
            let serving = hyper::server::conn::http1::Builder::new();
            // Clients may go away at any time.
            let _ = serving.serve_connection(TokioIo::new(stream), answer).with_upgrades().await;
        });
    }
}

async fn answer(
    mut request: Request<Incoming>,
    world: Arc<World>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let path = without_version(head.uri.path());
    let called = Called {
        what: format!("{} {path}", head.method),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    lock(&world.calls).push(called.clone());
    Ok(reply(&called, &world, upgrade))
}

fn reply(called: &Called, world: &Arc<World>, upgrade: OnUpgrade) -> Response<Full<Bytes>> {
    let words: Vec<&str> = called.what.split(['/', ' ']).collect();
    match words.as_slice() {
        ["GET", "", "version"] => say(200, &json!({"ApiVersion": "1.41", "Version": "20.10"})),
        ["GET", "", "containers", "there", "json"] => {
            say(200, &json!({"Id": "there", "State": {"Running": true}}))
        }
        ["POST", "", "containers", "create"] => say(201, &json!({"Id": "made", "Warnings": []})),
        ["POST", "", "containers", "made", "start"] => say(204, &Value::Null),
        ["DELETE", "", "containers", "made"] => say(204, &Value::Null),
        ["POST", "", "containers", "there" | "made", "exec"] => {
            let mut execs = lock(&world.execs);
            let id = execs.len();
            execs.insert(id, called.body["Cmd"][0] != "sh");
            say(201, &json!({"Id": id.to_string()}))
        }
        ["POST", "", "exec", id, "start"] => start(id.parse().unwrap_or_default(), world, upgrade),
        ["GET", "", "exec", id, "json"] => {
            let running = lock(&world.execs).get(&id.parse().unwrap_or_default()).copied();
            match running {
                Some(true) => say(200, &json!({"Running": true, "Pid": 7})),
                Some(false) => say(200, &json!({"Running": false, "Pid": 7, "ExitCode": 0})),
                None => say(404, &json!({"message": "no such exec"})),
            }
        }
        _ => say(404, &json!({"message": "no such thing"})),
    }
}

/// What looks around ends at once: its connection is closed after the upgrade.
fn start(id: usize, world: &Arc<World>, upgrade: OnUpgrade) -> Response<Full<Bytes>> {
    let runs = lock(&world.execs).get(&id).copied().unwrap_or_default();
    let running = runs.then(|| Running(Arc::clone(world), id));
    let attach = world.attach.clone();
    lock(&world.upgrades).spawn(async move {
        if let (Ok(io), Some(running)) = (upgrade.await, running) {
            // Nobody takes it if the test is over.
            let _ = attach.send(Attached { io: TokioIo::new(io), _running: running }).await;
        }
    });
    let mut response = say(101, &Value::Null);
    let headers = response.headers_mut();
    headers.insert("upgrade", hyper::header::HeaderValue::from_static("tcp"));
    headers.insert("connection", hyper::header::HeaderValue::from_static("Upgrade"));
    response
}

fn say(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response
}

/// `/v1.41/version` and `/version` are the same call.
fn without_version(path: &str) -> &str {
    match path.strip_prefix("/v1.").and_then(|rest| rest.find('/').map(|at| &rest[at..])) {
        Some(rest) => rest,
        None => path,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.0.execs).insert(self.1, false);
    }
}

impl AsyncRead for Attached {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Attached {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

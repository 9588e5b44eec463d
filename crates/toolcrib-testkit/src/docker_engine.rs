//! A fake Docker engine: it records every request and hands each attached exec to the test.
//!
//! The engine has one running container, `existing`, and creates others as `created`. An exec of `sh` is
//! treated as the client's own inspection and ends at once. Any other exec runs until the test drops its
//! stream.

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

/// Stream numbers of the multiplexed output.
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;

/// Capacity of the queue of execs that the test has not received yet.
const MAX_UNCLAIMED_EXECS: usize = 16;

/// The engine. Dropping it closes all connections.
#[derive(Debug)]
pub struct FakeDockerEngine {
    socket: PathBuf,
    state: Arc<EngineState>,
    execs: mpsc::Receiver<AttachedExec>,
    _accept_task: JoinSet<()>,
}

/// A request, for example `POST /containers/existing/exec`, without API version and query.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineRequest {
    pub route: String,
    pub body: Value,
}

/// The process side of an attached exec. Written bytes are sent unchanged. Dropping it ends the process.
#[derive(Debug)]
pub struct AttachedExec {
    io: TokioIo<Upgraded>,
    _guard: ExecGuard,
}

#[derive(Debug)]
struct EngineState {
    requests: Mutex<Vec<EngineRequest>>,
    running: Mutex<BTreeMap<usize, bool>>,
    exec_sender: mpsc::Sender<AttachedExec>,
    upgrades: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct ExecGuard(Arc<EngineState>, usize);

/// Builds a frame of the multiplexed output.
pub fn output_frame(stream: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[stream, 0, 0, 0], &length[..], bytes].concat()
}

impl FakeDockerEngine {
    /// Listens on a socket path, which must not exist yet.
    pub fn start(socket: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let (exec_sender, execs) = mpsc::channel(MAX_UNCLAIMED_EXECS);
        let state = Arc::new(EngineState {
            requests: Mutex::default(),
            running: Mutex::default(),
            exec_sender,
            upgrades: Mutex::default(),
        });
        let mut accept_task = JoinSet::new();
        accept_task.spawn(accept_connections(listener, Arc::clone(&state)));
        Ok(Self { socket: socket.to_owned(), state, execs, _accept_task: accept_task })
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Returns all requests so far in order of arrival.
    pub fn requests(&self) -> Vec<EngineRequest> {
        lock(&self.state.requests).clone()
    }

    /// Waits for the next exec that a client attaches to.
    pub async fn next_exec(&mut self) -> Option<AttachedExec> {
        self.execs.recv().await
    }
}

async fn accept_connections(listener: UnixListener, state: Arc<EngineState>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let answer = service_fn(|request| handle_request(request, Arc::clone(&state)));
            let serving = hyper::server::conn::http1::Builder::new();
            // Clients may disconnect at any time.
            let _ = serving.serve_connection(TokioIo::new(stream), answer).with_upgrades().await;
        });
    }
}

async fn handle_request(
    mut request: Request<Incoming>,
    state: Arc<EngineState>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let path = strip_version(head.uri.path());
    let received = EngineRequest {
        route: format!("{} {path}", head.method),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    lock(&state.requests).push(received.clone());
    Ok(build_response(&received, &state, upgrade))
}

fn build_response(
    request: &EngineRequest,
    state: &Arc<EngineState>,
    upgrade: OnUpgrade,
) -> Response<Full<Bytes>> {
    let segments: Vec<&str> = request.route.split(['/', ' ']).collect();
    match segments.as_slice() {
        ["GET", "", "version"] => {
            json_response(200, &json!({"ApiVersion": "1.41", "Version": "20.10"}))
        }
        ["GET", "", "containers", "existing", "json"] => {
            json_response(200, &json!({"Id": "existing", "State": {"Running": true}}))
        }
        ["POST", "", "containers", "create"] => {
            json_response(201, &json!({"Id": "created", "Warnings": []}))
        }
        ["POST", "", "containers", "created", "start"] => json_response(204, &Value::Null),
        ["DELETE", "", "containers", "created"] => json_response(204, &Value::Null),
        ["POST", "", "containers", "existing" | "created", "exec"] => {
            let mut execs = lock(&state.running);
            let id = execs.len();
            execs.insert(id, request.body["Cmd"][0] != "sh");
            json_response(201, &json!({"Id": id.to_string()}))
        }
        ["POST", "", "exec", id, "start"] => {
            start_exec(id.parse().unwrap_or_default(), state, upgrade)
        }
        ["GET", "", "exec", id, "json"] => {
            let running = lock(&state.running).get(&id.parse().unwrap_or_default()).copied();
            match running {
                Some(true) => json_response(200, &json!({"Running": true, "Pid": 7})),
                Some(false) => {
                    json_response(200, &json!({"Running": false, "Pid": 7, "ExitCode": 0}))
                }
                None => json_response(404, &json!({"message": "no such exec"})),
            }
        }
        _ => json_response(404, &json!({"message": "no such thing"})),
    }
}

/// Starts an exec. The connection of an inspection closes right after the upgrade.
fn start_exec(id: usize, state: &Arc<EngineState>, upgrade: OnUpgrade) -> Response<Full<Bytes>> {
    let runs = lock(&state.running).get(&id).copied().unwrap_or_default();
    let running = runs.then(|| ExecGuard(Arc::clone(state), id));
    let sender = state.exec_sender.clone();
    lock(&state.upgrades).spawn(async move {
        if let (Ok(io), Some(running)) = (upgrade.await, running) {
            // The receiver is gone when the test is over.
            let _ = sender.send(AttachedExec { io: TokioIo::new(io), _guard: running }).await;
        }
    });
    let mut response = json_response(101, &Value::Null);
    let headers = response.headers_mut();
    headers.insert("upgrade", hyper::header::HeaderValue::from_static("tcp"));
    headers.insert("connection", hyper::header::HeaderValue::from_static("Upgrade"));
    response
}

fn json_response(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response
}

/// Removes the API version: `/v1.41/version` and `/version` are the same request.
fn strip_version(path: &str) -> &str {
    match path.strip_prefix("/v1.").and_then(|rest| rest.find('/').map(|at| &rest[at..])) {
        Some(rest) => rest,
        None => path,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for ExecGuard {
    fn drop(&mut self) {
        lock(&self.0.running).insert(self.1, false);
    }
}

impl AsyncRead for AttachedExec {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for AttachedExec {
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

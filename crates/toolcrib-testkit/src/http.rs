//! A scripted HTTP server on the loopback interface that responds to each request as the test says and
//! records the requests.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Limit of a wait; it only matters when a test fails.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// Delay that lets sent bytes leave before the connection is reset.
const RESET_DELAY: Duration = Duration::from_millis(50);

/// The server. Dropping it closes all connections.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    log: Arc<RequestLog>,
    _accept_task: JoinSet<()>,
}

/// A received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    pub method: String,
    /// Path with the query.
    pub path: String,
    /// Headers; names are lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// The response to one request.
#[derive(Debug)]
pub struct ScriptedResponse {
    status: u16,
    headers: Vec<(String, String)>,
    steps: Vec<BodyStep>,
    live_steps: Option<mpsc::Receiver<BodyStep>>,
    /// Delay before the head; `None` means forever.
    delay: Option<Duration>,
}

/// One action in the body of a response.
#[derive(Clone, Debug)]
pub enum BodyStep {
    Send(String),
    Pause(Duration),
    /// Resets the connection.
    Reset,
    /// Sends nothing more and keeps the response open.
    Stall,
}

#[derive(Debug, Default)]
struct RequestLog {
    requests: Mutex<Vec<ReceivedRequest>>,
    /// Responses whose body the client is still reading.
    open_responses: AtomicUsize,
    connections: AtomicUsize,
    changed: Notify,
}

impl HttpServer {
    pub async fn start(
        script: impl Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let log = Arc::new(RequestLog::default());
        let mut accept_task = JoinSet::new();
        accept_task.spawn(accept_connections(listener, Arc::new(script), Arc::clone(&log)));
        Ok(Self { address, log, _accept_task: accept_task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns all requests so far in order of arrival.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.log.requests().clone()
    }

    /// Waits for a matching request, which may already have arrived. Returns `None` after the limit.
    pub async fn wait_for_request(
        &self,
        wanted: impl Fn(&ReceivedRequest) -> bool,
    ) -> Option<ReceivedRequest> {
        let found = || self.requests().into_iter().find(&wanted);
        self.log.wait_until(|| found().is_some()).await;
        found()
    }

    /// Returns the number of connections so far.
    pub fn connection_count(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }

    /// Waits until exactly `count` responses are open. Returns false after the limit.
    pub async fn wait_for_open_responses(&self, count: usize) -> bool {
        self.log.wait_until(|| self.log.open_responses.load(Ordering::SeqCst) == count).await
    }
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl ScriptedResponse {
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            steps: Vec::new(),
            live_steps: None,
            delay: Some(Duration::ZERO),
        }
    }

    pub fn json(text: impl Into<String>) -> Self {
        Self::status(200).header("content-type", "application/json").send(text)
    }

    pub fn events() -> Self {
        Self::status(200).header("content-type", "text/event-stream")
    }

    /// Reads the request and never responds.
    pub fn unanswered() -> Self {
        Self { delay: None, ..Self::status(200) }
    }

    /// Delays the whole response.
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn send(self, text: impl Into<String>) -> Self {
        self.then_step(BodyStep::Send(text.into()))
    }

    /// Sends an event with a message.
    pub fn event(self, data: &str) -> Self {
        self.send(format!("event: message\ndata: {data}\n\n"))
    }

    pub fn then_step(mut self, step: BodyStep) -> Self {
        self.steps.push(step);
        self
    }

    /// Continues with the steps that arrive on a channel.
    pub fn then_steps_from(mut self, steps: mpsc::Receiver<BodyStep>) -> Self {
        self.live_steps = Some(steps);
        self
    }
}

impl RequestLog {
    fn requests(&self) -> MutexGuard<'_, Vec<ReceivedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_until(&self, done: impl Fn() -> bool) -> bool {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                if done() {
                    return;
                }
                changed.await;
            }
        };
        timeout(WAIT_LIMIT, waiting).await.is_ok()
    }
}

type RequestHandler = dyn Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync;

async fn accept_connections(
    listener: TcpListener,
    script: Arc<RequestHandler>,
    log: Arc<RequestLog>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        log.connections.fetch_add(1, Ordering::SeqCst);
        let (script, log) = (Arc::clone(&script), Arc::clone(&log));
        connections.spawn(async move {
            let answer = service_fn(|request| handle_request(request, &script, &log));
            let serving = hyper::server::conn::http1::Builder::new();
            // Some scripts break the connection on purpose.
            let _ = serving.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn handle_request(
    request: Request<Incoming>,
    script: &Arc<RequestHandler>,
    log: &Arc<RequestLog>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = io::Error> + use<>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let received = ReceivedRequest {
        method: head.method.to_string(),
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head.headers.iter().map(header).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let reply = script(&received);
    log.requests().push(received);
    log.changed.notify_waiters();
    match reply.delay {
        Some(delay) => sleep(delay).await,
        None => std::future::pending().await,
    }
    Ok(build_response(reply, Arc::clone(log)))
}

fn build_response(
    reply: ScriptedResponse,
    log: Arc<RequestLog>,
) -> Response<impl hyper::body::Body<Data = Bytes, Error = io::Error>> {
    let open = OpenResponseGuard::new(log);
    let mut response =
        Response::new(StreamBody::new(response_body(reply.steps, reply.live_steps, open)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    for (name, value) in reply.headers {
        let name = hyper::header::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value.parse()) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn response_body(
    steps: Vec<BodyStep>,
    live_steps: Option<mpsc::Receiver<BodyStep>>,
    open: OpenResponseGuard,
) -> impl Stream<Item = io::Result<Frame<Bytes>>> {
    stream::unfold(
        (steps.into_iter(), live_steps, open),
        |(mut steps, mut live_steps, open)| async move {
            loop {
                let step = match (steps.next(), &mut live_steps) {
                    (Some(step), _) => step,
                    (None, Some(live_steps)) => live_steps.recv().await?,
                    (None, None) => return None,
                };
                match step {
                    BodyStep::Send(text) => {
                        return Some((Ok(Frame::data(text.into())), (steps, live_steps, open)));
                    }
                    BodyStep::Pause(time) => sleep(time).await,
                    BodyStep::Reset => {
                        sleep(RESET_DELAY).await;
                        return Some((
                            Err(io::ErrorKind::ConnectionReset.into()),
                            (steps, live_steps, open),
                        ));
                    }
                    BodyStep::Stall => std::future::pending().await,
                }
            }
        },
    )
}

/// Counts a response as open until it is dropped.
struct OpenResponseGuard(Arc<RequestLog>);

impl OpenResponseGuard {
    fn new(log: Arc<RequestLog>) -> Self {
        log.open_responses.fetch_add(1, Ordering::SeqCst);
        log.changed.notify_waiters();
        Self(log)
    }
}

impl Drop for OpenResponseGuard {
    fn drop(&mut self) {
        self.0.open_responses.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

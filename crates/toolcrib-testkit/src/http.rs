//! A scripted HTTP server on the loopback: it answers each request as the test says and remembers what was asked.

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

/// Only bounds a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lets what was sent leave before the connection is cut behind it.
const BEFORE_CUT: Duration = Duration::from_millis(50);

/// The server. Dropped, it ends with all its connections.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    seen: Arc<Seen>,
    _accepting: JoinSet<()>,
}

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    /// With the query.
    pub path: String,
    /// Names are lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// What is answered to one request.
#[derive(Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    steps: Vec<Step>,
    live: Option<mpsc::Receiver<Step>>,
    /// Before the head; forever if none.
    delay: Option<Duration>,
}

/// One thing that happens in the body of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    Send(String),
    Pause(Duration),
    /// The connection breaks.
    Cut,
    /// Nothing more comes, and nothing ends.
    Hold,
}

#[derive(Debug, Default)]
struct Seen {
    requests: Mutex<Vec<Asked>>,
    /// Answers whose body the client still reads.
    open: AtomicUsize,
    connections: AtomicUsize,
    changed: Notify,
}

impl HttpServer {
    pub async fn start(
        script: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Seen::default());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::new(script), Arc::clone(&seen)));
        Ok(Self { address, seen, _accepting: accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far, in the order in which they came.
    pub fn requests(&self) -> Vec<Asked> {
        self.seen.requests().clone()
    }

    /// Waits for a request, which may have come already. None if it never comes.
    pub async fn request(&self, wanted: impl Fn(&Asked) -> bool) -> Option<Asked> {
        let found = || self.requests().into_iter().find(&wanted);
        self.seen.until(|| found().is_some()).await;
        found()
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Waits until as many answers are being read as said. False if that never is.
    pub async fn has_open(&self, count: usize) -> bool {
        self.seen.until(|| self.seen.open.load(Ordering::SeqCst) == count).await
    }
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            steps: Vec::new(),
            live: None,
            delay: Some(Duration::ZERO),
        }
    }

    pub fn json(text: impl Into<String>) -> Self {
        Self::status(200).header("content-type", "application/json").send(text)
    }

    pub fn events() -> Self {
        Self::status(200).header("content-type", "text/event-stream")
    }

    /// The request is read, and nothing is ever answered.
    pub fn never() -> Self {
        Self { delay: None, ..Self::status(200) }
    }

    /// Not even the head comes before this time.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn send(self, text: impl Into<String>) -> Self {
        self.then(Step::Send(text.into()))
    }

    /// An event that carries a message.
    pub fn event(self, data: &str) -> Self {
        self.send(format!("event: message\ndata: {data}\n\n"))
    }

    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// After the steps so far, those that come on a channel.
    pub fn live(mut self, steps: mpsc::Receiver<Step>) -> Self {
        self.live = Some(steps);
        self
    }
}

impl Seen {
    fn requests(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn until(&self, done: impl Fn() -> bool) -> bool {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                if done() {
                    return;
                }
                changed.await;
            }
        };
        timeout(PATIENCE, waiting).await.is_ok()
    }
}

type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

async fn accept(listener: TcpListener, script: Arc<Script>, seen: Arc<Seen>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        seen.connections.fetch_add(1, Ordering::SeqCst);
        let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
        connections.spawn(async move {
            let answer = service_fn(|request| answer(request, &script, &seen));
            let serving = hyper::server::conn::http1::Builder::new();
            // A connection that breaks is what some scripts are about.
            let _ = serving.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    script: &Arc<Script>,
    seen: &Arc<Seen>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = io::Error> + use<>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let asked = Asked {
        method: head.method.to_string(),
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head.headers.iter().map(header).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let reply = script(&asked);
    seen.requests().push(asked);
    seen.changed.notify_waiters();
    match reply.delay {
        Some(delay) => sleep(delay).await,
        None => std::future::pending().await,
    }
    Ok(response(reply, Arc::clone(seen)))
}

fn response(
    reply: Reply,
    seen: Arc<Seen>,
) -> Response<impl hyper::body::Body<Data = Bytes, Error = io::Error>> {
    let open = Open::new(seen);
    let mut response = Response::new(StreamBody::new(body(reply.steps, reply.live, open)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    for (name, value) in reply.headers {
        let name = hyper::header::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value.parse()) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn body(
    steps: Vec<Step>,
    live: Option<mpsc::Receiver<Step>>,
    open: Open,
) -> impl Stream<Item = io::Result<Frame<Bytes>>> {
    stream::unfold((steps.into_iter(), live, open), |(mut steps, mut live, open)| async move {
        loop {
            let step = match (steps.next(), &mut live) {
                (Some(step), _) => step,
                (None, Some(live)) => live.recv().await?,
                (None, None) => return None,
            };
            match step {
                Step::Send(text) => {
                    return Some((Ok(Frame::data(text.into())), (steps, live, open)));
                }
                Step::Pause(time) => sleep(time).await,
                Step::Cut => {
                    sleep(BEFORE_CUT).await;
                    return Some((Err(io::ErrorKind::ConnectionReset.into()), (steps, live, open)));
                }
                Step::Hold => std::future::pending().await,
            }
        }
    })
}

/// An answer that is being read.
struct Open(Arc<Seen>);

impl Open {
    fn new(seen: Arc<Seen>) -> Self {
        seen.open.fetch_add(1, Ordering::SeqCst);
        seen.changed.notify_waiters();
        Self(seen)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

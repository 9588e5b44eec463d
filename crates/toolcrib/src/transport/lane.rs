//! Plain HTTP connections that are driven by whoever uses them: a request over one needs no other task.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::http::response::Parts;
use hyper::{HeaderMap, Method, Request, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tower::Service;
use url::{Position, Url};

use super::http::{AGENT, IDLE, IDLE_CONNECTIONS};

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The connections to one server.
#[derive(Debug)]
pub(super) struct Lanes {
    connector: HttpConnector,
    origin: Uri,
    host: HeaderValue,
    /// The address that nearly everything is posted to, and how a request names it.
    usual: (Url, Uri),
    idle: Arc<Idle>,
}

/// Connections that nobody uses, the newest last.
#[derive(Debug, Default)]
struct Idle {
    lanes: Mutex<Vec<(Box<Lane>, Instant)>>,
    returned: Notify,
}

struct Lane {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<TokioIo<TcpStream>, Full<Bytes>>,
}

/// The rest of an answer. Read to its end, it gives its connection back; dropped before, it closes it.
#[derive(Debug)]
pub(super) struct Rest {
    body: Incoming,
    lane: Option<Box<Lane>>,
    idle: Arc<Idle>,
}

/// A request that got no answer.
enum Failed {
    /// It was not sent, so it can be sent on another connection.
    Unsent(Box<Request<Full<Bytes>>>),
    Lost(hyper::Error),
}

impl Lanes {
    /// None where more is needed than a plain connection.
    pub(super) fn to(url: &Url, connect_timeout: Option<Duration>) -> Option<Self> {
        let is_plain = url.scheme() == "http" && url.username().is_empty();
        if !is_plain || url.password().is_some() {
            return None;
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(connect_timeout);
        Some(Lanes {
            connector,
            origin: url[..Position::BeforePath].parse().ok()?,
            host: HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).ok()?,
            usual: (url.clone(), in_request(url)?),
            idle: Arc::default(),
        })
    }

    /// What every request has to say besides: nothing adds it on the way.
    pub(super) fn dress(&self, headers: &mut HeaderMap) {
        headers.insert(HOST, self.host.clone());
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    }

    /// Posts once. The address is one of the server that these lead to, the headers are dressed.
    pub(super) async fn post(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<(Parts, Rest), Fault> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = match *url == self.usual.0 {
            true => self.usual.1.clone(),
            false => in_request(url).ok_or("the address cannot be used")?,
        };
        *request.headers_mut() = headers.clone();
        while let Some(lane) = self.idle.take() {
            match lane.send(request, &self.idle).await {
                Ok(answer) => return Ok(answer),
                // The server has closed it meanwhile.
                Err(Failed::Unsent(again)) => request = *again,
                Err(Failed::Lost(error)) => return Err(error.into()),
            }
        }
        match Box::pin(self.connect()).await?.send(request, &self.idle).await {
            Ok(answer) => Ok(answer),
            Err(Failed::Lost(error)) => Err(error.into()),
            Err(Failed::Unsent(_)) => Err("the server closed the connection at once".into()),
        }
    }

    async fn connect(&self) -> Result<Box<Lane>, Fault> {
        let mut connector = self.connector.clone();
        std::future::poll_fn(|cx| connector.poll_ready(cx)).await?;
        let stream = connector.call(self.origin.clone()).await?;
        let (sender, connection) = http1::handshake(stream).await?;
        Ok(Box::new(Lane { sender, connection }))
    }

    /// Closes what was idle for too long, for ever.
    pub(super) async fn tidy(&self) {
        loop {
            match self.idle.oldest() {
                Some(since) => {
                    sleep_until(since + IDLE).await;
                    self.idle.close_old();
                }
                None => self.idle.returned.notified().await,
            }
        }
    }
}

fn in_request(url: &Url) -> Option<Uri> {
    url[Position::BeforePath..Position::AfterQuery].parse().ok()
}

impl Lane {
    async fn send(
        mut self: Box<Self>,
        request: Request<Full<Bytes>>,
        idle: &Arc<Idle>,
    ) -> Result<(Parts, Rest), Failed> {
        if !self.is_open().await {
            return Err(Failed::Unsent(Box::new(request)));
        }
        let mut answer = pin!(self.sender.try_send_request(request));
        let mut is_over = false;
        let answer = std::future::poll_fn(|cx| {
            is_over = is_over || Pin::new(&mut self.connection).poll(cx).is_ready();
            answer.as_mut().poll(cx)
        });
        match answer.await {
            Ok(answer) => {
                let (head, body) = answer.into_parts();
                let mut lane = (!is_over).then_some(self);
                if body.is_end_stream() {
                    idle.put(lane.take());
                }
                Ok((head, Rest { body, lane, idle: Arc::clone(idle) }))
            }
            Err(mut failed) => Err(match failed.take_message() {
                Some(request) => Failed::Unsent(Box::new(request)),
                None => Failed::Lost(failed.into_error()),
            }),
        }
    }

    /// Whether a request can be sent. An idle connection learns only here that the server has closed it.
    async fn is_open(&mut self) -> bool {
        // Mostly that is known at once, and then sending must not wake whoever sends.
        let at_once = self.poll_open(&mut Context::from_waker(Waker::noop()));
        match at_once {
            Poll::Ready(is_open) => is_open,
            Poll::Pending => std::future::poll_fn(|cx| self.poll_open(cx)).await,
        }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match Pin::new(&mut self.connection).poll(cx) {
            Poll::Ready(_) => Poll::Ready(false),
            Poll::Pending => self.sender.poll_ready(cx).map(|ready| ready.is_ok()),
        }
    }
}

impl Rest {
    /// How long it is, where the server has said so.
    pub(super) fn announced(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next piece; none at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, hyper::Error> {
        loop {
            let Some(frame) = std::future::poll_fn(|cx| self.poll_frame(cx)).await else {
                return Ok(None);
            };
            // Anything else is a trailer, which says nothing here.
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame>>> {
        let mut frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_pending()
            && let Some(lane) = &mut self.lane
        {
            // What came with its end is in the body by then.
            if Pin::new(&mut lane.connection).poll(cx).is_ready() {
                self.lane = None;
            }
            frame = Pin::new(&mut self.body).poll_frame(cx);
        }
        if matches!(frame, Poll::Ready(None)) {
            self.idle.put(self.lane.take());
        }
        frame
    }
}

type Frame = hyper::body::Frame<Bytes>;

impl Idle {
    fn take(&self) -> Option<Box<Lane>> {
        let (lane, since) = self.lanes().pop()?;
        (since.elapsed() < IDLE).then_some(lane)
    }

    fn put(&self, lane: Option<Box<Lane>>) {
        let Some(lane) = lane else { return };
        let mut lanes = self.lanes();
        if lanes.len() < IDLE_CONNECTIONS {
            lanes.push((lane, Instant::now()));
        }
        let is_first = lanes.len() == 1;
        drop(lanes);
        if is_first {
            self.returned.notify_one();
        }
    }

    fn oldest(&self) -> Option<Instant> {
        self.lanes().first().map(|(_, since)| *since)
    }

    fn close_old(&self) {
        self.lanes().retain(|(_, since)| since.elapsed() < IDLE);
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<(Box<Lane>, Instant)>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("sender", &self.sender).finish_non_exhaustive()
    }
}

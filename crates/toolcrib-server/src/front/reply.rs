//! Answers over HTTP: one message, a stream of them, or only a status.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::unfold;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_wire::{KEEP_ALIVE, Raw, RpcError, SseEvent, build, code, header};

pub type Reply = Response<Body>;

/// A silent stream says that it is alive this often.
const ALIVE: Duration = Duration::from_secs(15);

/// What a request is answered with: nearly always one message, and then nothing else has to be made of it.
#[derive(Debug)]
pub(crate) enum Answered {
    Message(StatusCode, Raw),
    Reply(Reply),
}

impl From<Reply> for Answered {
    fn from(reply: Reply) -> Self {
        Answered::Reply(reply)
    }
}

impl From<Answered> for Reply {
    fn from(answered: Answered) -> Self {
        match answered {
            Answered::Message(status, message) => json(status, &message),
            Answered::Reply(reply) => reply,
        }
    }
}

pub fn empty(status: StatusCode) -> Reply {
    with_status(status, Response::new(Body::empty()))
}

pub fn not_allowed(allowed: &'static str) -> Reply {
    with_header(empty(StatusCode::METHOD_NOT_ALLOWED), ALLOW, allowed)
}

pub fn json(status: StatusCode, message: &Raw) -> Reply {
    let body = Body::from(Bytes::from_owner(Whole(message.clone())));
    with_header(with_status(status, Response::new(body)), CONTENT_TYPE, "application/json")
}

/// A message as the bytes that it already is.
struct Whole(Raw);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A refusal that no request can be named for.
pub fn refuse(status: StatusCode, reason: &str) -> Reply {
    json(status, &build::error(None, &RpcError::new(code::INVALID_REQUEST, reason)))
}

/// A refusal that is none in a second.
pub fn later(reason: &str) -> Reply {
    with_header(refuse(StatusCode::TOO_MANY_REQUESTS, reason), RETRY_AFTER, "1")
}

/// 503 with `Retry-After: 1`.
pub fn unavailable(reason: &str) -> Reply {
    with_header(refuse(StatusCode::SERVICE_UNAVAILABLE, reason), RETRY_AFTER, "1")
}

/// The status that the modern era gives an error.
pub fn status_of(error: &RpcError) -> StatusCode {
    use code::{
        HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, MISSING_CLIENT_CAPABILITY, PARSE_ERROR,
        UNSUPPORTED_VERSION,
    };
    match error.code {
        code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        PARSE_ERROR
        | INVALID_REQUEST
        | INVALID_PARAMS
        | HEADER_MISMATCH
        | MISSING_CLIENT_CAPABILITY
        | UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The messages of a queue as events, after what comes first. The tasks that fill it end with the stream: nobody
/// could be told their outcome, since streams cannot be taken up again here.
pub fn events(first: Option<Vec<u8>>, queue: mpsc::Receiver<Raw>, tasks: JoinSet<()>) -> Reply {
    written(first, queue, tasks, event)
}

/// The same for events that have names of their own.
pub fn named_events(queue: mpsc::Receiver<SseEvent>, tasks: JoinSet<()>) -> Reply {
    written(None, queue, tasks, |event| {
        let mut bytes = Vec::new();
        event.write(&mut bytes);
        bytes
    })
}

fn written<T: Send + 'static>(
    first: Option<Vec<u8>>,
    queue: mpsc::Receiver<T>,
    tasks: JoinSet<()>,
    write: fn(&T) -> Vec<u8>,
) -> Reply {
    let events = unfold((first, queue, tasks), move |(first, mut queue, tasks)| async move {
        if let Some(first) = first {
            return Some((Ok(Bytes::from(first)), (None, queue, tasks)));
        }
        let bytes = match timeout(ALIVE, queue.recv()).await {
            Ok(Some(message)) => write(&message),
            Ok(None) => return None,
            Err(_) => KEEP_ALIVE.to_vec(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(bytes)), (None, queue, tasks)))
    });
    stream(Response::new(Body::from_stream(events)))
}

/// The headers of a stream of events.
pub fn stream(reply: Reply) -> Reply {
    let reply = with_header(reply, CONTENT_TYPE, "text/event-stream");
    let reply = with_header(reply, CACHE_CONTROL, "no-cache");
    with_header(reply, HeaderName::from_static("x-accel-buffering"), "no")
}

pub fn with_session(mut reply: Reply, id: &str) -> Reply {
    if let Ok(id) = HeaderValue::from_str(id) {
        reply.headers_mut().insert(HeaderName::from_static(header::SESSION_ID), id);
    }
    reply
}

/// A message as an event.
pub fn event(message: &Raw) -> Vec<u8> {
    named("message", message.as_bytes())
}

/// Any event.
pub fn named(name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    SseEvent { event: Some(name.to_owned()), data: data.to_vec(), id: None }.write(&mut bytes);
    bytes
}

fn with_status(status: StatusCode, mut reply: Reply) -> Reply {
    *reply.status_mut() = status;
    reply
}

fn with_header(mut reply: Reply, name: HeaderName, value: &'static str) -> Reply {
    reply.headers_mut().insert(name, HeaderValue::from_static(value));
    reply
}

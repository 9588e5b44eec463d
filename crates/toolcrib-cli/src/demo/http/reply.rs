//! Answers over HTTP: one message, a stream of them, or only a status.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_wire::{KEEP_ALIVE, Raw, RpcError, SseEvent, build, code, header};

pub(super) type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A silent stream says that it is alive this often.
const ALIVE: Duration = Duration::from_secs(15);

pub(super) fn empty(status: StatusCode) -> Reply {
    with_status(status, Response::new(Empty::new().boxed_unsync()))
}

pub(super) fn not_allowed() -> Reply {
    with_header(empty(StatusCode::METHOD_NOT_ALLOWED), ALLOW, "POST, DELETE")
}

pub(super) fn json(status: StatusCode, message: &Raw) -> Reply {
    let body = Full::new(Bytes::copy_from_slice(message.as_bytes())).boxed_unsync();
    with_header(with_status(status, Response::new(body)), CONTENT_TYPE, "application/json")
}

/// A refusal that no request can be named for.
pub(super) fn refuse(status: StatusCode, reason: &str) -> Reply {
    json(status, &build::error(None, &RpcError::new(code::INVALID_REQUEST, reason)))
}

/// The status that the modern era gives an error.
pub(super) fn status_of(error: &RpcError) -> StatusCode {
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

/// The messages of a queue as events. The tasks that fill it end with the stream: nobody could be told their
/// outcome, since streams cannot be taken up again here.
pub(super) fn events(queue: mpsc::Receiver<Raw>, tasks: JoinSet<()>) -> Reply {
    let events = stream::unfold((queue, tasks), |(mut queue, tasks)| async move {
        let bytes = match timeout(ALIVE, queue.recv()).await {
            Ok(Some(message)) => event(&message),
            Ok(None) => return None,
            Err(_) => KEEP_ALIVE.to_vec(),
        };
        Some((Ok(Frame::data(Bytes::from(bytes))), (queue, tasks)))
    });
    let reply = Response::new(StreamBody::new(events).boxed_unsync());
    let reply = with_header(reply, CONTENT_TYPE, "text/event-stream");
    let reply = with_header(reply, CACHE_CONTROL, "no-cache");
    with_header(reply, HeaderName::from_static("x-accel-buffering"), "no")
}

pub(super) fn with_session(mut reply: Reply, id: &str) -> Reply {
    if let Ok(id) = HeaderValue::from_str(id) {
        reply.headers_mut().insert(HeaderName::from_static(header::SESSION_ID), id);
    }
    reply
}

fn event(message: &Raw) -> Vec<u8> {
    let mut bytes = Vec::new();
    SseEvent { event: Some("message".to_owned()), data: message.as_bytes().to_vec(), id: None }
        .write(&mut bytes);
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

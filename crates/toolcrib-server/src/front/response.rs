//! Builds HTTP responses: a JSON-RPC message, an event stream, or only a status.

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
use toolcrib_wire::{KEEP_ALIVE, RawJson, RpcError, SseEvent, build, code, header};

/// An HTTP response with any body.
pub type HttpResponse = Response<Body>;

/// Interval of keep-alive comments on a silent event stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Response of the gateway: usually one message, without the cost of a full HTTP response.
#[derive(Debug)]
pub(crate) enum GatewayResponse {
    Message(StatusCode, RawJson),
    Http(HttpResponse),
}

impl From<HttpResponse> for GatewayResponse {
    fn from(response: HttpResponse) -> Self {
        GatewayResponse::Http(response)
    }
}

impl From<GatewayResponse> for HttpResponse {
    fn from(response: GatewayResponse) -> Self {
        match response {
            GatewayResponse::Message(status, message) => json(status, &message),
            GatewayResponse::Http(response) => response,
        }
    }
}

/// A response without a body.
pub fn empty(status: StatusCode) -> HttpResponse {
    with_status(status, Response::new(Body::empty()))
}

/// 405 with the allowed methods.
pub fn not_allowed(allowed: &'static str) -> HttpResponse {
    with_header(empty(StatusCode::METHOD_NOT_ALLOWED), ALLOW, allowed)
}

/// A response with a JSON body.
pub fn json(status: StatusCode, message: &RawJson) -> HttpResponse {
    let body = Body::from(Bytes::from_owner(RawBytes(message.clone())));
    with_header(with_status(status, Response::new(body)), CONTENT_TYPE, "application/json")
}

/// A message as a body without a copy.
struct RawBytes(RawJson);

impl AsRef<[u8]> for RawBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A JSON-RPC error response without a request id.
pub fn error(status: StatusCode, reason: &str) -> HttpResponse {
    json(status, &build::error(None, &RpcError::new(code::INVALID_REQUEST, reason)))
}

/// 429 with `Retry-After: 1`.
pub fn too_many_requests(reason: &str) -> HttpResponse {
    with_header(error(StatusCode::TOO_MANY_REQUESTS, reason), RETRY_AFTER, "1")
}

/// 503 with `Retry-After: 1`.
pub fn unavailable(reason: &str) -> HttpResponse {
    with_header(error(StatusCode::SERVICE_UNAVAILABLE, reason), RETRY_AFTER, "1")
}

/// HTTP status of a JSON-RPC error in the modern era.
pub fn status_for_error(error: &RpcError) -> StatusCode {
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

/// Streams queued messages as events, after `first`. The tasks that fill the queue end with the stream, because streams
/// cannot be resumed and their results would be lost.
pub fn events(
    first: Option<Vec<u8>>,
    queue: mpsc::Receiver<RawJson>,
    tasks: JoinSet<()>,
) -> HttpResponse {
    event_stream(first, queue, tasks, message_event)
}

/// Streams queued events that have their own names.
pub fn named_events(queue: mpsc::Receiver<SseEvent>, tasks: JoinSet<()>) -> HttpResponse {
    event_stream(None, queue, tasks, |event| {
        let mut bytes = Vec::new();
        event.write(&mut bytes);
        bytes
    })
}

fn event_stream<T: Send + 'static>(
    first: Option<Vec<u8>>,
    queue: mpsc::Receiver<T>,
    tasks: JoinSet<()>,
    write: fn(&T) -> Vec<u8>,
) -> HttpResponse {
    let events = unfold((first, queue, tasks), move |(first, mut queue, tasks)| async move {
        if let Some(first) = first {
            return Some((Ok(Bytes::from(first)), (None, queue, tasks)));
        }
        let bytes = match timeout(KEEP_ALIVE_INTERVAL, queue.recv()).await {
            Ok(Some(message)) => write(&message),
            Ok(None) => return None,
            Err(_) => KEEP_ALIVE.to_vec(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(bytes)), (None, queue, tasks)))
    });
    with_event_headers(Response::new(Body::from_stream(events)))
}

/// Adds the headers of an event stream.
pub fn with_event_headers(response: HttpResponse) -> HttpResponse {
    let response = with_header(response, CONTENT_TYPE, "text/event-stream");
    let response = with_header(response, CACHE_CONTROL, "no-cache");
    with_header(response, HeaderName::from_static("x-accel-buffering"), "no")
}

/// Adds the `Mcp-Session-Id` header.
pub fn with_session_id(mut response: HttpResponse, id: &str) -> HttpResponse {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(HeaderName::from_static(header::SESSION_ID), id);
    }
    response
}

/// Encodes a message as an event.
pub fn message_event(message: &RawJson) -> Vec<u8> {
    named_event("message", message.as_bytes())
}

/// Encodes a named event.
pub fn named_event(name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    SseEvent { event: Some(name.to_owned()), data: data.to_vec(), id: None }.write(&mut bytes);
    bytes
}

fn with_status(status: StatusCode, mut response: HttpResponse) -> HttpResponse {
    *response.status_mut() = status;
    response
}

fn with_header(mut response: HttpResponse, name: HeaderName, value: &'static str) -> HttpResponse {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

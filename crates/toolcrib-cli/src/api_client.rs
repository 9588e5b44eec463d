//! Client of the control API, either of a running host over its socket or of a host in this process.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use toolcrib_server::api::schema::{ErrorBody, ErrorResponse};
use toolcrib_server::front::Front;
use toolcrib_server::identity::EntryPoint;
use toolcrib_wire::{MessageLimits, RawJson, SseDecoder, SseItem};
use tower::ServiceExt;

use crate::running_host::RunningHost;

/// Limits for API responses. Lists contain everything that servers wrote, so the size limit is large.
const LIMITS: MessageLimits = MessageLimits { size: 1 << 30, depth: 256, batch: 1 };

const EVENTS: &str = "text/event-stream";

/// The control API of one host.
#[derive(Debug)]
pub(crate) enum ApiClient {
    /// A host in another process, reached through this socket.
    Remote(PathBuf),
    /// A host in this process.
    InProcess(Router),
}

/// An API response with any status.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: RawJson,
}

/// A response that is complete at once, or a stream of events.
#[derive(Debug)]
pub(crate) enum StreamedResponse {
    Complete(ApiResponse),
    Events(Box<EventStream>),
}

/// A server-sent event stream of one response.
#[derive(Debug)]
pub(crate) struct EventStream {
    exchange: HttpExchange,
    decoder: SseDecoder,
}

impl ApiClient {
    pub(crate) fn remote(running: &RunningHost) -> Self {
        ApiClient::Remote(running.socket.clone())
    }

    pub(crate) fn in_process(front: &Arc<Front>) -> Self {
        ApiClient::InProcess(toolcrib_server::api::router(front))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<ApiResponse, String> {
        self.send(build_request(Method::GET, path, Body::empty(), None)?)
            .await?
            .collect_body()
            .await
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        sent: &impl Serialize,
    ) -> Result<ApiResponse, String> {
        self.send(build_request(Method::POST, path, json_body(sent)?, None)?)
            .await?
            .collect_body()
            .await
    }

    /// Sends a POST request and accepts an event stream as the response.
    pub(crate) async fn follow(
        &self,
        path: &str,
        sent: &impl Serialize,
    ) -> Result<StreamedResponse, String> {
        let exchange =
            self.send(build_request(Method::POST, path, json_body(sent)?, Some(EVENTS))?).await?;
        let kind = exchange.reply.headers().get(CONTENT_TYPE);
        match kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENTS.as_bytes())) {
            true => {
                let decoder = SseDecoder::new(&LIMITS);
                Ok(StreamedResponse::Events(Box::new(EventStream { exchange, decoder })))
            }
            false => exchange.collect_body().await.map(StreamedResponse::Complete),
        }
    }

    async fn send(&self, mut request: Request<Body>) -> Result<HttpExchange, String> {
        match self {
            ApiClient::InProcess(router) => {
                request.extensions_mut().insert(EntryPoint::OwnerSocket);
                let Ok(reply) = router.clone().oneshot(request).await;
                let reply = reply.map(|body| body.map_err(connection_error).boxed_unsync());
                Ok(HttpExchange { reply, _connection: JoinSet::new() })
            }
            ApiClient::Remote(socket) => {
                let stream = UnixStream::connect(socket).await.map_err(connection_error)?;
                let (mut sender, connection) =
                    http1::handshake(TokioIo::new(stream)).await.map_err(connection_error)?;
                let mut driving = JoinSet::new();
                // Connection errors reach the reader of the response, so the driver's result is dropped.
                driving.spawn(async move { drop(connection.await) });
                let reply = sender.send_request(request).await.map_err(connection_error)?;
                let reply = reply.map(|body| body.map_err(connection_error).boxed_unsync());
                Ok(HttpExchange { reply, _connection: driving })
            }
        }
    }
}

impl ApiResponse {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        let read = serde_json::from_slice(self.body.as_bytes());
        read.map_err(|error| format!("cannot parse the host's response: {error}"))
    }

    /// Returns the parsed body of a success response, or the error body of any other response.
    pub(crate) fn parse_result<T: DeserializeOwned>(
        &self,
    ) -> Result<Result<T, Box<ErrorBody>>, String> {
        match self.status.is_success() {
            true => self.read().map(Ok),
            false => self.read::<ErrorResponse>().map(|faulted| Err(Box::new(faulted.error))),
        }
    }
}

impl EventStream {
    /// Returns the next event with its name, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<(String, RawJson)>, String> {
        loop {
            match self.decoder.next() {
                Some(Ok(SseItem::Event(event))) => {
                    let data = parse_json(event.data)?;
                    return Ok(Some((event.event.unwrap_or_default(), data)));
                }
                Some(Ok(SseItem::Comment)) => continue,
                Some(Err(error)) => return Err(error.to_string()),
                None => {}
            }
            let Some(frame) = self.exchange.reply.body_mut().frame().await else {
                return Ok(None);
            };
            if let Ok(chunk) = frame?.into_data() {
                self.decoder.push(&chunk);
            }
        }
    }
}

/// Builds a path from escaped segments and from the query parameters that have a value.
pub(crate) fn api_path(segments: &[&str], query: &[(&str, Option<&str>)]) -> String {
    let segments: String = segments.iter().map(|it| format!("/{}", percent_encode(it))).collect();
    let given = query.iter().filter_map(|(key, value)| Some((key, (*value)?)));
    let query: Vec<String> =
        given.map(|(key, value)| format!("{key}={}", percent_encode(value))).collect();
    match query.is_empty() {
        true => segments,
        false => format!("{segments}?{}", query.join("&")),
    }
}

fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let bytes = text.bytes();
    bytes
        .map(|it| if plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") })
        .collect()
}

/// One request and its response. The connection stays open while the response is read.
#[derive(Debug)]
struct HttpExchange {
    reply: Response<UnsyncBoxBody<Bytes, String>>,
    _connection: JoinSet<()>,
}

impl HttpExchange {
    async fn collect_body(self) -> Result<ApiResponse, String> {
        let (head, body) = self.reply.into_parts();
        let body =
            Limited::new(body, LIMITS.size).collect().await.map_err(connection_error)?.to_bytes();
        let body = if body.is_empty() { b"null".to_vec() } else { body.to_vec() };
        Ok(ApiResponse { status: head.status, body: parse_json(body)? })
    }
}

fn build_request(
    method: Method,
    path: &str,
    body: Body,
    accept: Option<&str>,
) -> Result<Request<Body>, String> {
    let request = Request::builder()
        .method(method)
        .uri(format!("/api/v1{path}"))
        .header(HOST, "toolcrib")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, accept.unwrap_or("application/json"));
    request.body(body).map_err(|error| format!("cannot build the request for {path}: {error}"))
}

fn json_body(sent: &impl Serialize) -> Result<Body, String> {
    let written =
        serde_json::to_vec(sent).map_err(|error| format!("cannot serialize the request: {error}"));
    written.map(Body::from)
}

fn parse_json(bytes: Vec<u8>) -> Result<RawJson, String> {
    RawJson::parse(bytes, &LIMITS)
        .map_err(|fault| format!("the host's response is not valid JSON: {fault}"))
}

fn connection_error(error: impl std::fmt::Display) -> String {
    format!("cannot reach the host: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_path_escapes_each_segment() {
        let built = api_path(
            &["servers", ".dispatch/mcp.json#a b"],
            &[("agent", Some("é&x")), ("dialog", None), ("wait", Some("true"))],
        );
        assert_eq!(built, "/servers/.dispatch%2Fmcp.json%23a%20b?agent=%C3%A9%26x&wait=true");
        assert_eq!(api_path(&["tools"], &[("agent", None)]), "/tools");
    }
}

//! The control API as commands use it: of the host that runs for this root, or of one in this process.

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
use toolcrib_server::api::shape::{Fault, Faulted};
use toolcrib_server::front::Front;
use toolcrib_server::identity::Door;
use toolcrib_wire::{Limits, Raw, SseDecoder, SseItem};
use tower::ServiceExt;

use crate::running::Running;

/// What a host may answer: lists of everything, with whatever servers wrote inside.
const LIMITS: Limits = Limits { size: 1 << 30, depth: 256, batch: 1 };

const EVENTS: &str = "text/event-stream";

/// The control API of one host.
#[derive(Debug)]
pub(crate) enum Api {
    /// Of another process.
    Running(PathBuf),
    /// Of this one.
    Own(Router),
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Raw,
}

/// An answer that comes at once, or bit by bit.
#[derive(Debug)]
pub(crate) enum Followed {
    Answered(Answer),
    Telling(Box<Events>),
}

/// Events with their names, one after the other.
#[derive(Debug)]
pub(crate) struct Events {
    exchange: Exchange,
    decoder: SseDecoder,
}

impl Api {
    pub(crate) fn running(running: &Running) -> Self {
        Api::Running(running.socket.clone())
    }

    pub(crate) fn own(front: &Arc<Front>) -> Self {
        Api::Own(toolcrib_server::api::router(front))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, String> {
        self.send(request(Method::GET, path, Body::empty(), None)?).await?.whole().await
    }

    pub(crate) async fn post(&self, path: &str, sent: &impl Serialize) -> Result<Answer, String> {
        self.send(request(Method::POST, path, body(sent)?, None)?).await?.whole().await
    }

    /// Asks for something that takes its time and tells of it.
    pub(crate) async fn follow(
        &self,
        path: &str,
        sent: &impl Serialize,
    ) -> Result<Followed, String> {
        let exchange = self.send(request(Method::POST, path, body(sent)?, Some(EVENTS))?).await?;
        let kind = exchange.reply.headers().get(CONTENT_TYPE);
        match kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENTS.as_bytes())) {
            true => {
                let decoder = SseDecoder::new(&LIMITS);
                Ok(Followed::Telling(Box::new(Events { exchange, decoder })))
            }
            false => exchange.whole().await.map(Followed::Answered),
        }
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Exchange, String> {
        match self {
            Api::Own(router) => {
                request.extensions_mut().insert(Door::Socket);
                let Ok(reply) = router.clone().oneshot(request).await;
                let reply = reply.map(|body| body.map_err(lost).boxed_unsync());
                Ok(Exchange { reply, _connection: JoinSet::new() })
            }
            Api::Running(socket) => {
                let stream = UnixStream::connect(socket).await.map_err(lost)?;
                let (mut sender, connection) =
                    http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
                let mut driving = JoinSet::new();
                // What breaks is told to whoever reads the answer.
                driving.spawn(async move { drop(connection.await) });
                let reply = sender.send_request(request).await.map_err(lost)?;
                let reply = reply.map(|body| body.map_err(lost).boxed_unsync());
                Ok(Exchange { reply, _connection: driving })
            }
        }
    }
}

impl Answer {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        let read = serde_json::from_slice(self.body.as_bytes());
        read.map_err(|error| format!("the host answers what is not understood: {error}"))
    }

    /// What was asked for, or why there is nothing.
    pub(crate) fn good<T: DeserializeOwned>(&self) -> Result<Result<T, Box<Fault>>, String> {
        match self.status.is_success() {
            true => self.read().map(Ok),
            false => self.read::<Faulted>().map(|faulted| Err(Box::new(faulted.error))),
        }
    }
}

impl Events {
    /// The next event, with its name; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<(String, Raw)>, String> {
        loop {
            match self.decoder.next() {
                Some(Ok(SseItem::Event(event))) => {
                    let data = parsed(event.data)?;
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

/// A path of segments that may hold anything, with those parts of a query that are given.
pub(crate) fn path(segments: &[&str], query: &[(&str, Option<&str>)]) -> String {
    let segments: String = segments.iter().map(|it| format!("/{}", encoded(it))).collect();
    let given = query.iter().filter_map(|(key, value)| Some((key, (*value)?)));
    let query: Vec<String> =
        given.map(|(key, value)| format!("{key}={}", encoded(value))).collect();
    match query.is_empty() {
        true => segments,
        false => format!("{segments}?{}", query.join("&")),
    }
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let bytes = text.bytes();
    bytes
        .map(|it| if plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") })
        .collect()
}

/// One request and its answer, for as long as that is read.
#[derive(Debug)]
struct Exchange {
    reply: Response<UnsyncBoxBody<Bytes, String>>,
    _connection: JoinSet<()>,
}

impl Exchange {
    async fn whole(self) -> Result<Answer, String> {
        let (head, body) = self.reply.into_parts();
        let body = Limited::new(body, LIMITS.size).collect().await.map_err(lost)?.to_bytes();
        let body = if body.is_empty() { b"null".to_vec() } else { body.to_vec() };
        Ok(Answer { status: head.status, body: parsed(body)? })
    }
}

fn request(
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
    request.body(body).map_err(|error| format!("cannot ask for {path}: {error}"))
}

fn body(sent: &impl Serialize) -> Result<Body, String> {
    let written = serde_json::to_vec(sent).map_err(|error| format!("cannot be sent: {error}"));
    written.map(Body::from)
}

fn parsed(bytes: Vec<u8>) -> Result<Raw, String> {
    Raw::parse(bytes, &LIMITS).map_err(|fault| format!("the host answers what is no JSON: {fault}"))
}

fn lost(error: impl std::fmt::Display) -> String {
    format!("the host does not answer: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_name_holds_stays_in_its_segment() {
        let built = path(
            &["servers", ".dispatch/mcp.json#a b"],
            &[("agent", Some("é&x")), ("dialog", None), ("wait", Some("true"))],
        );
        assert_eq!(built, "/servers/.dispatch%2Fmcp.json%23a%20b?agent=%C3%A9%26x&wait=true");
        assert_eq!(path(&["tools"], &[("agent", None)]), "/tools");
    }
}

//! The WebSocket transport: one message per frame.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, Request as HttpRequest, State};
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use hyper::header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};
use hyper::header::{SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{HeaderMap, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message as Frame};
use toolcrib_wire::{RawJson, parse_with_guard};

use super::client::Client;
use super::clients::{ClientTable, StreamSession};
use super::metered_stream::{MeteredStream, StreamMeter};
use super::stream_client::StreamClient;
use super::streamable_http::{AgentQuery, client_identity};
use super::{Gateway, LIMITS, QUEUE_CAPACITY};
use crate::front::Front;
use crate::front::headers::Headers;
use crate::front::request_body::BODY_BUDGET_EXCEEDED;
use crate::front::response::{self, HttpResponse};
use crate::front::route::entry_point;
use crate::front::token_expiry::TokenExpiry;
use crate::identity::Principal;
use crate::message_stream::malformed_error;

/// Subprotocol name of MCP.
const SUBPROTOCOL: &str = "mcp";

/// Interval of pings to the client.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Time for the last frames.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type Sink = SplitSink<WebSocketStream<MeteredStream<TokioIo<Upgraded>>>, Frame>;

/// Maximum time for a client to accept one message.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn serve(
    State(front): State<Arc<Front>>,
    Extension(principal): Extension<Principal>,
    Query(query): Query<AgentQuery>,
    mut request: HttpRequest,
) -> HttpResponse {
    let identity = match client_identity(&principal, &query, None) {
        Ok(identity) => identity,
        Err(refused) => return *refused,
    };
    let Some(accepted) = accept_handshake(request.headers()) else {
        let reason = "expected a WebSocket handshake: `Upgrade: websocket`, version 13";
        return response::error(StatusCode::UPGRADE_REQUIRED, reason);
    };
    let client = Client::new(&front.gateway, identity);
    let Ok(session) = ClientTable::register_stream(&front.gateway, &client) else {
        return response::error(StatusCode::TOO_MANY_REQUESTS, "too many sessions");
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let gateway = Arc::clone(&front.gateway);
    let entry_point = entry_point(request.extensions());
    let token_expiry = front.token_expiry(request.headers(), entry_point, &principal);
    let token_expiry = token_expiry.unwrap_or_else(|| Box::pin(pending()));
    front.gateway.spawn(run_session(
        gateway,
        (client, session),
        upgrade,
        entry_point.is_rate_limited(),
        token_expiry,
    ));
    accepted
}

/// The response to a WebSocket handshake; `None` if the request is none.
fn accept_handshake(headers: &HeaderMap) -> Option<HttpResponse> {
    let header = |name: HeaderName| headers.text(name.as_str());
    let has = |name, word: &str| {
        let words = header(name).unwrap_or_default().split(',');
        words.map(str::trim).any(|it| it.eq_ignore_ascii_case(word))
    };
    let is_handshake = has(CONNECTION, "upgrade")
        && has(UPGRADE, "websocket")
        && header(SEC_WEBSOCKET_VERSION) == Some("13");
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_handshake)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let own = response.headers_mut();
    own.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    own.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let accepted = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()?;
    own.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    if has(SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        own.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    Some(response)
}

/// Runs a session until either side ends it or its token expires.
async fn run_session(
    gateway: Arc<Gateway>,
    (client, _session): (Arc<Client>, StreamSession),
    upgrade: OnUpgrade,
    is_rate_limited: bool,
    mut token_expiry: TokenExpiry,
) {
    let Ok(upgraded) = upgrade.await else { return };
    let max_size = gateway.limits().body.min(LIMITS.size);
    let config =
        WebSocketConfig::default().max_message_size(Some(max_size)).max_frame_size(Some(max_size));
    let meter = StreamMeter::new(
        gateway.reservation(client.identity.may_choose_agent, &client.identity.agent),
    );
    let socket = meter.wrap(TokioIo::new(upgraded));
    let socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await;
    let (sink, mut frames) = socket.split();
    let (out, queue) = mpsc::channel::<RawJson>(QUEUE_CAPACITY);
    let mut writer = JoinSet::new();
    writer.spawn(write_frames(sink, queue, meter.clone()));
    let stream_client = StreamClient::new(client, out);
    let mut stream_client =
        if is_rate_limited { stream_client.rate_limited() } else { stream_client };
    loop {
        let goes_on = tokio::select! {
            frame = frames.next() => match frame {
                Some(Ok(frame)) => handle_frame(&mut stream_client, frame, &meter).await,
                _ => false,
            },
            _ = writer.join_next() => false,
            () = gateway.wait_closing() => false,
            () = &mut token_expiry => false,
        };
        if !goes_on {
            break;
        }
    }
    stream_client.close().await;
    // A client that does not read the close frame has disconnected.
    let _ = timeout(CLOSE_TIMEOUT, writer.join_next()).await;
}

/// Writes frames until the queue closes or the client stops reading.
async fn write_frames(mut sink: Sink, mut queue: mpsc::Receiver<RawJson>, meter: StreamMeter) {
    let mut alive = interval(PING_INTERVAL);
    loop {
        let frame = tokio::select! {
            message = queue.recv() => match message {
                Some(message) => Frame::text(message.text().to_owned()),
                None => break,
            },
            _ = alive.tick() => Frame::Ping(tungstenite::Bytes::new()),
        };
        if !matches!(timeout(SEND_TIMEOUT, sink.send(frame)).await, Ok(Ok(()))) {
            return;
        }
    }
    // A lost close frame does no harm.
    if meter.is_exhausted() {
        let again = CloseFrame { code: CloseCode::Again, reason: BODY_BUDGET_EXCEEDED.into() };
        let _ = sink.send(Frame::Close(Some(again))).await;
    }
    let _ = sink.close().await;
}

/// Handles one frame. Returns `false` when the session has to end.
async fn handle_frame(stream_client: &mut StreamClient, frame: Frame, meter: &StreamMeter) -> bool {
    let bytes = match frame {
        Frame::Text(text) => tungstenite::Bytes::from(text),
        Frame::Binary(bytes) => bytes,
        Frame::Close(_) => return false,
        Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_) => return true,
    };
    match parse_with_guard(bytes, &LIMITS, meter.take_reservation()) {
        Ok(packet) => {
            for message in packet.into_messages() {
                match message.map_err(|malformed| malformed_error(&malformed)) {
                    Ok(message) => stream_client.handle_message(Ok(message)).await,
                    Err(Some(error)) => stream_client.handle_message(Err(error)).await,
                    Err(None) => {}
                }
            }
        }
        Err(malformed) => {
            if let Some(error) = malformed_error(&malformed) {
                stream_client.handle_message(Err(error)).await;
            }
        }
    }
    true
}

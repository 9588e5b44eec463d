//! WebSocket: one message a frame, both ways.

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
use toolcrib_wire::{Raw, parse_holding};

use super::client::Client;
use super::clients::{Clients, Held};
use super::http::{Asked, who};
use super::metered::{Meter, Metered};
use super::stream::Talk;
use super::{Gateway, LIMITS, QUEUE};
use crate::front::Front;
use crate::front::headers::Headers;
use crate::front::lapse::Lapse;
use crate::front::posted::NO_ROOM;
use crate::front::reply::{self, Reply};
use crate::front::route::door;
use crate::identity::Principal;
use crate::lines::refusal;

/// What the protocol is called among others on a socket.
const SUBPROTOCOL: &str = "mcp";

/// A silent client is asked this often whether it is alive.
const ALIVE: Duration = Duration::from_secs(30);

/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(1);

type Sink = SplitSink<WebSocketStream<Metered<TokioIo<Upgraded>>>, Frame>;

/// How long a client may take to read one message.
const SLOWEST: Duration = Duration::from_secs(60);

pub(super) async fn serve(
    State(front): State<Arc<Front>>,
    Extension(principal): Extension<Principal>,
    Query(asked): Query<Asked>,
    mut request: HttpRequest,
) -> Reply {
    let who = match who(&principal, &asked, None) {
        Ok(who) => who,
        Err(refused) => return *refused,
    };
    let Some(accepted) = accept(request.headers()) else {
        let reason = "a WebSocket is spoken here: `Upgrade: websocket`, version 13";
        return reply::refuse(StatusCode::UPGRADE_REQUIRED, reason);
    };
    let client = Client::new(&front.gateway, who);
    let Ok(held) = Clients::hold(&front.gateway, &client) else {
        return reply::refuse(StatusCode::TOO_MANY_REQUESTS, "too many sessions");
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let gateway = Arc::clone(&front.gateway);
    let door = door(request.extensions());
    let lapse = front.lapse(request.headers(), door, &principal);
    let lapse = lapse.unwrap_or_else(|| Box::pin(pending()));
    front.gateway.spawn(converse(gateway, (client, held), upgrade, door.is_paced(), lapse));
    accepted
}

/// The answer to a handshake; nothing to what is none.
fn accept(headers: &HeaderMap) -> Option<Reply> {
    let said = |name: HeaderName| headers.text(name.as_str());
    let has = |name, word: &str| {
        let words = said(name).unwrap_or_default().split(',');
        words.map(str::trim).any(|it| it.eq_ignore_ascii_case(word))
    };
    let is_handshake = has(CONNECTION, "upgrade")
        && has(UPGRADE, "websocket")
        && said(SEC_WEBSOCKET_VERSION) == Some("13");
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_handshake)?;
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let own = reply.headers_mut();
    own.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    own.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let accepted = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()?;
    own.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    if has(SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        own.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    Some(reply)
}

/// Until either side ends it, or its token does.
async fn converse(
    gateway: Arc<Gateway>,
    (client, _held): (Arc<Client>, Held),
    upgrade: OnUpgrade,
    is_paced: bool,
    mut lapse: Lapse,
) {
    let Ok(upgraded) = upgrade.await else { return };
    let most = gateway.limits().body.min(LIMITS.size);
    let config = WebSocketConfig::default().max_message_size(Some(most)).max_frame_size(Some(most));
    let meter = Meter::new(gateway.reservation(client.who.chooses, &client.who.agent));
    let socket = meter.stream(TokioIo::new(upgraded));
    let socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await;
    let (sink, mut frames) = socket.split();
    let (out, queue) = mpsc::channel::<Raw>(QUEUE);
    let mut writer = JoinSet::new();
    writer.spawn(write(sink, queue, meter.clone()));
    let talk = Talk::new(client, out);
    let mut talk = if is_paced { talk.paced() } else { talk };
    loop {
        let goes_on = tokio::select! {
            frame = frames.next() => match frame {
                Some(Ok(frame)) => take(&mut talk, frame, &meter).await,
                _ => false,
            },
            _ = writer.join_next() => false,
            () = gateway.closing() => false,
            () = &mut lapse => false,
        };
        if !goes_on {
            break;
        }
    }
    talk.end().await;
    // Whoever does not read the farewell has gone.
    let _ = timeout(FAREWELL, writer.join_next()).await;
}

/// Until there is nothing more to write, or nobody who reads it.
async fn write(mut sink: Sink, mut queue: mpsc::Receiver<Raw>, meter: Meter) {
    let mut alive = interval(ALIVE);
    loop {
        let frame = tokio::select! {
            message = queue.recv() => match message {
                Some(message) => Frame::text(message.text().to_owned()),
                None => break,
            },
            _ = alive.tick() => Frame::Ping(tungstenite::Bytes::new()),
        };
        if !matches!(timeout(SLOWEST, sink.send(frame)).await, Ok(Ok(()))) {
            return;
        }
    }
    // Only politeness is lost.
    if meter.is_over() {
        let again = CloseFrame { code: CloseCode::Again, reason: NO_ROOM.into() };
        let _ = sink.send(Frame::Close(Some(again))).await;
    }
    let _ = sink.close().await;
}

/// Whether the conversation goes on.
async fn take(talk: &mut Talk, frame: Frame, meter: &Meter) -> bool {
    let bytes = match frame {
        Frame::Text(text) => tungstenite::Bytes::from(text),
        Frame::Binary(bytes) => bytes,
        Frame::Close(_) => return false,
        Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_) => return true,
    };
    match parse_holding(bytes, &LIMITS, meter.take()) {
        Ok(packet) => {
            for message in packet.into_messages() {
                match message.map_err(|malformed| refusal(&malformed)) {
                    Ok(message) => talk.hear(Ok(message)).await,
                    Err(Some(said)) => talk.hear(Err(said)).await,
                    Err(None) => {}
                }
            }
        }
        Err(malformed) => {
            if let Some(said) = refusal(&malformed) {
                talk.hear(Err(said)).await;
            }
        }
    }
    true
}

//! A WebSocket: each text message is one JSON-RPC message.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use reqwest::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::{ProtocolError, SubProtocolError};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use toolcrib_config::model::transport::Remote;
use toolcrib_wire::{Channel, Limits};
use url::Url;

use super::event_stream::message;
use super::http_fault::HttpFault;
use super::link::{CloseReason, Ends, Facts, Incoming, Link, LinkFault, Outgoing};
use super::open::{OpenError, Opening};
use super::remote::{Target, within};
use super::tls::Tls;

const SCHEMES: [&str; 2] = ["ws", "wss"];
const SUB_PROTOCOL: HeaderValue = HeaderValue::from_static("mcp");

/// The library's own buffers are eight times as large, for each connection that idles.
const BUFFER: usize = 16 * 1024;

/// How long the server may take to say goodbye too.
const FAREWELL: Duration = Duration::from_millis(500);

type Socket = WebSocketStream<Box<dyn Bytes>>;

trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

pub(super) async fn open(remote: &Remote, opening: &Opening<'_>) -> Result<Link, OpenError> {
    let target = Target::of(remote, SCHEMES, opening)?;
    let connecting = connect(&target, opening.tls, &opening.limits);
    let socket = within(opening.connect_timeout, connecting).await;
    let socket = socket
        .map_err(|fault| OpenError::Connect(fault.while_doing("open a WebSocket to the server")))?;
    let limits = opening.limits;
    let facts = Facts::of(Channel::Shared);
    Ok(Link::start(facts, |ends| drive(ends, socket, limits)))
}

async fn connect(target: &Target, tls: &Tls, limits: &Limits) -> Result<Socket, HttpFault> {
    match shake_hands(target, tls, limits, true).await {
        // Not every server has heard of the sub-protocol; what it speaks is the same.
        Err(Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(
            SubProtocolError::NoSubProtocol,
        ))) => shake_hands(target, tls, limits, false).await,
        shaken => shaken,
    }
    .map_err(|error| match error {
        Error::Http(response) => {
            HttpFault::of(response.status(), response.headers(), false, &target.url)
        }
        other => HttpFault::Network(Arc::new(other)),
    })
}

async fn shake_hands(
    target: &Target,
    tls: &Tls,
    limits: &Limits,
    offers: bool,
) -> Result<Socket, Error> {
    let mut request = target.url.as_str().into_client_request()?;
    request.headers_mut().extend(target.headers.clone());
    if offers {
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, SUB_PROTOCOL);
    }
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(Some(limits.size))
        .max_frame_size(Some(limits.size));
    let stream = dial(&target.url, tls).await?;
    let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
    Ok(socket)
}

async fn dial(url: &Url, tls: &Tls) -> io::Result<Box<dyn Bytes>> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let stream = TcpStream::connect((&*host, url.port_or_known_default().unwrap_or(0))).await?;
    stream.set_nodelay(true)?;
    if url.scheme() != "wss" {
        return Ok(Box::new(stream));
    }
    let config = tls.config().map_err(io::Error::other)?;
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
}

async fn drive(mut ends: Ends, socket: Socket, limits: Limits) {
    let (sink, stream) = socket.split();
    let (hush, hushed) = oneshot::channel();
    let mut reading = JoinSet::new();
    reading.spawn(read(stream, ends.incoming.clone(), limits));
    let mut writing = JoinSet::new();
    writing.spawn(write(sink, ends.outgoing, hushed));
    let reason = tokio::select! {
        Ok(grace) = &mut ends.asked => {
            // The writer is gone if nobody listens.
            let _ = hush.send(());
            if timeout(grace, writing.join_next()).await.is_ok() {
                let _ = timeout(FAREWELL.min(grace), reading.join_next()).await;
            }
            CloseReason::Asked
        }
        Some(ended) = reading.join_next() => ended.unwrap_or(CloseReason::Ended),
        Some(Ok(Err(fault))) = writing.join_next() => CloseReason::Broken(fault),
    };
    writing.shutdown().await;
    reading.shutdown().await;
    Ends::say_closed(&ends.incoming, reason).await;
}

/// Pings are answered by the library while it is read from.
async fn read(
    mut stream: SplitStream<Socket>,
    inbox: mpsc::Sender<Incoming>,
    limits: Limits,
) -> CloseReason {
    while let Some(received) = stream.next().await {
        let bytes = match received {
            Ok(Message::Text(text)) => bytes::Bytes::from(text),
            // Some servers do not tell the two kinds apart.
            Ok(Message::Binary(bytes)) => bytes,
            Ok(_) => continue,
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => break,
            Err(error) => return CloseReason::Broken(broken("read from the server", error)),
        };
        // What nobody takes any more is dropped.
        let _ = inbox.send(message(bytes.into(), None, &limits)).await;
    }
    CloseReason::Ended
}

/// Once hushed it takes nothing new, writes the rest and says goodbye.
async fn write(
    mut sink: SplitSink<Socket, Message>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    mut hushed: oneshot::Receiver<()>,
) -> Result<(), LinkFault> {
    let failed = |error| broken("write to the server", error);
    loop {
        let next = tokio::select! {
            biased;
            Ok(()) = &mut hushed, if !outgoing.is_closed() => {
                outgoing.close();
                continue;
            }
            next = outgoing.recv() => next,
        };
        match next {
            Some(Outgoing::Message(message)) => {
                sink.feed(Message::text(message.raw.text())).await.map_err(failed)?;
            }
            // An answer that nobody waits for comes all the same.
            // They are of other transports, or have nothing to do here.
            Some(Outgoing::Abandon(_) | Outgoing::Adopt(..) | Outgoing::Finish(_)) => {}
            None => return sink.close().await.map_err(failed),
        }
        if outgoing.is_empty() {
            sink.flush().await.map_err(failed)?;
        }
    }
}

fn broken(doing: &'static str, error: Error) -> LinkFault {
    LinkFault { doing, cause: Arc::new(error) }
}

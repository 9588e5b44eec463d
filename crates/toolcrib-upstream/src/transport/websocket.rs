//! WebSocket transport: each text frame is one JSON-RPC message.

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
use toolcrib_wire::{Channel, MessageLimits};
use url::Url;

use super::event_stream::parse_message;
use super::http_fault::HttpFault;
use super::link::{CloseReason, Incoming, Link, LinkFault, LinkInfo, Outgoing, TransportSide};
use super::open::{OpenContext, OpenError};
use super::remote_target::{RemoteTarget, with_timeout};
use super::tls::Tls;

const WEBSOCKET_SCHEMES: [&str; 2] = ["ws", "wss"];
const SUB_PROTOCOL: HeaderValue = HeaderValue::from_static("mcp");

/// The defaults of the library are eight times as large, also for idle connections.
const BUFFER_SIZE: usize = 16 * 1024;

/// Time limit for the close frame of the server.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

type Socket = WebSocketStream<Box<dyn ByteStream>>;

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

pub(super) async fn open(remote: &Remote, context: &OpenContext<'_>) -> Result<Link, OpenError> {
    let target = RemoteTarget::resolve(remote, WEBSOCKET_SCHEMES, context)?;
    let connecting = connect(&target, context.tls, &context.limits);
    let socket = with_timeout(context.connect_timeout, connecting).await;
    let socket = socket.map_err(|fault| {
        OpenError::Connect(fault.into_link_fault("open a WebSocket to the server"))
    })?;
    let limits = context.limits;
    let info = LinkInfo::new(Channel::Shared);
    Ok(Link::start(info, |ends| run_link(ends, socket, limits)))
}

async fn connect(
    target: &RemoteTarget,
    tls: &Tls,
    limits: &MessageLimits,
) -> Result<Socket, HttpFault> {
    match handshake(target, tls, limits, true).await {
        // Some servers do not know the sub-protocol but speak MCP all the same.
        Err(Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(
            SubProtocolError::NoSubProtocol,
        ))) => handshake(target, tls, limits, false).await,
        shaken => shaken,
    }
    .map_err(|error| match error {
        Error::Http(response) => {
            HttpFault::from_response(response.status(), response.headers(), false, &target.url)
        }
        other => HttpFault::Network(Arc::new(other)),
    })
}

async fn handshake(
    target: &RemoteTarget,
    tls: &Tls,
    limits: &MessageLimits,
    offers: bool,
) -> Result<Socket, Error> {
    let mut request = target.url.as_str().into_client_request()?;
    request.headers_mut().extend(target.headers.clone());
    if offers {
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, SUB_PROTOCOL);
    }
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER_SIZE)
        .write_buffer_size(BUFFER_SIZE)
        .max_message_size(Some(limits.size))
        .max_frame_size(Some(limits.size));
    let stream = open_stream(&target.url, tls).await?;
    let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
    Ok(socket)
}

async fn open_stream(url: &Url, tls: &Tls) -> io::Result<Box<dyn ByteStream>> {
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

async fn run_link(mut ends: TransportSide, socket: Socket, limits: MessageLimits) {
    let (sink, stream) = socket.split();
    let (stop_tx, stop_rx) = oneshot::channel();
    let mut reading = JoinSet::new();
    reading.spawn(forward_messages(stream, ends.incoming.clone(), limits));
    let mut writing = JoinSet::new();
    writing.spawn(write_messages(sink, ends.outgoing, stop_rx));
    let reason = tokio::select! {
        Ok(grace) = &mut ends.close_requested => {
            // Fails only if the writer has ended, which needs no signal.
            let _ = stop_tx.send(());
            if timeout(grace, writing.join_next()).await.is_ok() {
                let _ = timeout(CLOSE_TIMEOUT.min(grace), reading.join_next()).await;
            }
            CloseReason::HostClosed
        }
        Some(ended) = reading.join_next() => ended.unwrap_or(CloseReason::StreamEnded),
        Some(Ok(Err(fault))) = writing.join_next() => CloseReason::Broken(fault),
    };
    writing.shutdown().await;
    reading.shutdown().await;
    TransportSide::report_closed(&ends.incoming, reason).await;
}

/// Reads frames until the end. The library answers pings during reads.
async fn forward_messages(
    mut stream: SplitStream<Socket>,
    inbox: mpsc::Sender<Incoming>,
    limits: MessageLimits,
) -> CloseReason {
    while let Some(received) = stream.next().await {
        let bytes = match received {
            Ok(Message::Text(text)) => bytes::Bytes::from(text),
            // Some servers send binary frames instead of text frames.
            Ok(Message::Binary(bytes)) => bytes,
            Ok(_) => continue,
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => break,
            Err(error) => return CloseReason::Broken(socket_fault("read from the server", error)),
        };
        // Dropped if the inbox is gone.
        let _ = inbox.send(parse_message(bytes.into(), None, &limits)).await;
    }
    CloseReason::StreamEnded
}

/// Writes queued messages. After the stop signal it accepts no new ones, writes the rest and sends the close frame.
async fn write_messages(
    mut sink: SplitSink<Socket, Message>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    mut stop_rx: oneshot::Receiver<()>,
) -> Result<(), LinkFault> {
    let failed = |error| socket_fault("write to the server", error);
    loop {
        let next = tokio::select! {
            biased;
            Ok(()) = &mut stop_rx, if !outgoing.is_closed() => {
                outgoing.close();
                continue;
            }
            next = outgoing.recv() => next,
        };
        match next {
            Some(Outgoing::Message(message)) => {
                sink.feed(Message::text(message.raw.text())).await.map_err(failed)?;
            }
            // A shared channel delivers the response anyway, and has no exchanges to adopt or finish.
            Some(Outgoing::Abandon(_) | Outgoing::Adopt(..) | Outgoing::RunRemaining(_)) => {}
            None => return sink.close().await.map_err(failed),
        }
        if outgoing.is_empty() {
            sink.flush().await.map_err(failed)?;
        }
    }
}

fn socket_fault(operation: &'static str, error: Error) -> LinkFault {
    LinkFault { operation, cause: Arc::new(error) }
}

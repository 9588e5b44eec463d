//! A scripted WebSocket server on the loopback interface that responds to each message as the test says.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

/// The server. Dropping it closes all connections.
#[derive(Debug)]
pub struct WebSocketServer {
    address: SocketAddr,
    traffic: Arc<ReceivedTraffic>,
    _accept_task: JoinSet<()>,
}

/// Response to the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakePolicy {
    /// Selects the sub-protocol `mcp` and rejects clients that do not offer it.
    RequireMcp,
    /// Ignores sub-protocols.
    NoSubprotocol,
    Refuse(u16),
}

/// An action after a received message.
#[derive(Clone, Debug)]
pub enum SocketAction {
    Send(String),
    Ping,
    Pause(Duration),
    /// Closes the connection in order.
    Close,
    /// Breaks the connection.
    Disconnect,
}

#[derive(Debug, Default)]
struct ReceivedTraffic {
    headers: Mutex<Vec<(String, String)>>,
    received: Mutex<Vec<Message>>,
}

type MessageHandler = dyn Fn(&str) -> Vec<SocketAction> + Send + Sync;

impl WebSocketServer {
    /// Starts the server. The script receives each text message.
    pub async fn start(
        handshake: HandshakePolicy,
        script: impl Fn(&str) -> Vec<SocketAction> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let traffic = Arc::new(ReceivedTraffic::default());
        let mut accept_task = JoinSet::new();
        accept_task.spawn(accept_connections(
            listener,
            handshake,
            Arc::new(script),
            Arc::clone(&traffic),
        ));
        Ok(Self { address, traffic, _accept_task: accept_task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("ws://{}{path}", self.address)
    }

    /// Returns a header of the newest handshake; names are lower case.
    pub fn header(&self, name: &str) -> Option<String> {
        let headers = lock(&self.traffic.headers);
        headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    /// Returns all received messages, control messages included.
    pub fn received(&self) -> Vec<Message> {
        lock(&self.traffic.received).clone()
    }
}

async fn accept_connections(
    listener: TcpListener,
    handshake: HandshakePolicy,
    script: Arc<MessageHandler>,
    traffic: Arc<ReceivedTraffic>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let (script, traffic) = (Arc::clone(&script), Arc::clone(&traffic));
        connections.spawn(async move {
            #[expect(clippy::result_large_err, reason = "the library defines the callback type")]
            let greet = |request: &Request, response: Response| {
                handle_handshake(handshake, request, response, &traffic)
            };
            // Some scripts break the connection on purpose.
            if let Ok(socket) = accept_hdr_async(stream, greet).await {
                let _ = run_connection(socket, &script, &traffic).await;
            }
        });
    }
}

#[expect(clippy::result_large_err, reason = "the library defines the callback type")]
fn handle_handshake(
    handshake: HandshakePolicy,
    request: &Request,
    mut response: Response,
    traffic: &ReceivedTraffic,
) -> Result<Response, ErrorResponse> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: Vec<_> =
        request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let offers_mcp = headers.contains(&("sec-websocket-protocol".to_owned(), "mcp".to_owned()));
    *lock(&traffic.headers) = headers;
    let refused = match handshake {
        HandshakePolicy::Refuse(status) => StatusCode::from_u16(status).unwrap_or_default(),
        HandshakePolicy::RequireMcp if !offers_mcp => StatusCode::BAD_REQUEST,
        HandshakePolicy::RequireMcp => {
            let chosen = HeaderValue::from_static("mcp");
            response.headers_mut().insert("sec-websocket-protocol", chosen);
            return Ok(response);
        }
        HandshakePolicy::NoSubprotocol => return Ok(response),
    };
    let mut response = ErrorResponse::new(None);
    *response.status_mut() = refused;
    Err(response)
}

async fn run_connection(
    mut socket: WebSocketStream<TcpStream>,
    script: &Arc<MessageHandler>,
    traffic: &ReceivedTraffic,
) -> Result<(), Error> {
    while let Some(message) = socket.next().await {
        let message = message?;
        lock(&traffic.received).push(message.clone());
        let Message::Text(text) = message else { continue };
        for action in script(&text) {
            match action {
                SocketAction::Send(text) => socket.send(Message::text(text)).await?,
                SocketAction::Ping => socket.send(Message::Ping("are you there".into())).await?,
                SocketAction::Pause(time) => sleep(time).await,
                SocketAction::Close => socket.close(None).await?,
                SocketAction::Disconnect => return Ok(()),
            }
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

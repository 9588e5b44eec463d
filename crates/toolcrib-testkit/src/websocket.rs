//! A scripted WebSocket server on the loopback: it answers each message as the test says.

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

/// The server. Dropped, it ends with all its connections.
#[derive(Debug)]
pub struct WebSocketServer {
    address: SocketAddr,
    seen: Arc<Seen>,
    _accepting: JoinSet<()>,
}

/// How it answers the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// Takes the sub-protocol `mcp` if it is offered, and refuses whoever does not offer it.
    Mcp,
    /// Has never heard of sub-protocols.
    Plain,
    Refuse(u16),
}

/// One thing that is done after a message has come.
#[derive(Clone, Debug)]
pub enum Act {
    Send(String),
    Ping,
    Pause(Duration),
    /// An orderly end.
    Close,
    /// The connection breaks.
    Cut,
}

#[derive(Debug, Default)]
struct Seen {
    headers: Mutex<Vec<(String, String)>>,
    received: Mutex<Vec<Message>>,
}

type Script = dyn Fn(&str) -> Vec<Act> + Send + Sync;

impl WebSocketServer {
    /// The script is given each text message.
    pub async fn start(
        greeting: Greeting,
        script: impl Fn(&str) -> Vec<Act> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Seen::default());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, greeting, Arc::new(script), Arc::clone(&seen)));
        Ok(Self { address, seen, _accepting: accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("ws://{}{path}", self.address)
    }

    /// A header of the newest handshake; names are lower case.
    pub fn header(&self, name: &str) -> Option<String> {
        let headers = lock(&self.seen.headers);
        headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    /// All that came, control messages too.
    pub fn received(&self) -> Vec<Message> {
        lock(&self.seen.received).clone()
    }
}

async fn accept(listener: TcpListener, greeting: Greeting, script: Arc<Script>, seen: Arc<Seen>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
        connections.spawn(async move {
            #[expect(clippy::result_large_err, reason = "the library's callback is so")]
            let greet =
                |request: &Request, response: Response| greet(greeting, request, response, &seen);
            // A connection that breaks is what some scripts are about.
            if let Ok(socket) = accept_hdr_async(stream, greet).await {
                let _ = serve(socket, &script, &seen).await;
            }
        });
    }
}

#[expect(clippy::result_large_err, reason = "the library's callback is so")]
fn greet(
    greeting: Greeting,
    request: &Request,
    mut response: Response,
    seen: &Seen,
) -> Result<Response, ErrorResponse> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: Vec<_> =
        request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let offers = headers.contains(&("sec-websocket-protocol".to_owned(), "mcp".to_owned()));
    *lock(&seen.headers) = headers;
    let refused = match greeting {
        Greeting::Refuse(status) => StatusCode::from_u16(status).unwrap_or_default(),
        Greeting::Mcp if !offers => StatusCode::BAD_REQUEST,
        Greeting::Mcp => {
            let chosen = HeaderValue::from_static("mcp");
            response.headers_mut().insert("sec-websocket-protocol", chosen);
            return Ok(response);
        }
        Greeting::Plain => return Ok(response),
    };
    let mut response = ErrorResponse::new(None);
    *response.status_mut() = refused;
    Err(response)
}

async fn serve(
    mut socket: WebSocketStream<TcpStream>,
    script: &Arc<Script>,
    seen: &Seen,
) -> Result<(), Error> {
    while let Some(message) = socket.next().await {
        let message = message?;
        lock(&seen.received).push(message.clone());
        let Message::Text(text) = message else { continue };
        for act in script(&text) {
            match act {
                Act::Send(text) => socket.send(Message::text(text)).await?,
                Act::Ping => socket.send(Message::Ping("are you there".into())).await?,
                Act::Pause(time) => sleep(time).await,
                Act::Close => socket.close(None).await?,
                Act::Cut => return Ok(()),
            }
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

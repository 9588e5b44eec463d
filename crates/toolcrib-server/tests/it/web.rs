//! A plain HTTP client: one connection a request, and events one by one.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use toolcrib_server::front::{Front, Loops};
use toolcrib_server::identity::Identity;
use toolcrib_server::trace::Traces;

use crate::scene::{Client, Scene, within};

/// A front on an address of this machine.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) front: Arc<Front>,
    tasks: JoinSet<()>,
}

impl Served {
    pub(crate) async fn new(scene: &Scene) -> Self {
        Self::traced(scene, Traces::default()).await
    }

    pub(crate) async fn traced(scene: &Scene, traces: Traces) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let front = Front::traced(scene.host.clone(), Identity::default(), traces);
        let mut tasks = JoinSet::new();
        let serving = Arc::clone(&front);
        // Some are served on this thread and some on another.
        let loops = Loops::start(1).unwrap();
        tasks.spawn(async move { serving.serve(listener, &loops).await });
        Served { address, front, tasks }
    }

    pub(crate) async fn end(mut self) {
        self.front.close();
        within(self.tasks.join_next()).await.unwrap().unwrap();
    }

    /// Sends any request.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let stream = within(TcpStream::connect(self.address)).await.unwrap();
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = within(handshake).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // How it ends is seen by whoever reads.
            let _ = connection.await;
        });
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        let mut request = request.body(Full::new(body.into())).unwrap();
        for (name, value) in headers {
            // The last word counts.
            let name: hyper::header::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let response = within(sender.send_request(request)).await.unwrap();
        Answer { response, buffer: Vec::new(), _connection: tasks }
    }

    /// Posts a message as a client of the legacy era does.
    pub(crate) async fn post(&self, path: &str, session: Option<&str>, message: &Value) -> Answer {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        self.send("POST", path, &headers, message.to_string()).await
    }

    /// Opens a session of the legacy era; its id.
    pub(crate) async fn open(&self, path: &str, capabilities: Value) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.post(path, None, &request(1, "initialize", params)).await;
        let session = answer.header("mcp-session-id").expect("a session");
        assert_eq!(answer.json().await["result"]["protocolVersion"], "2025-11-25");
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(path, Some(&session), &told).await.status(), 202);
        session
    }

    /// Posts a request as a client of the modern era does.
    pub(crate) async fn ask(
        &self,
        path: &str,
        extra: &[(&str, &str)],
        method: &str,
        params: Value,
        capabilities: &Value,
    ) -> Answer {
        let name = params.get("name").or(params.get("uri")).and_then(Value::as_str);
        let name = name.map(str::to_owned);
        let body = request(1, method, Client::modern(params, capabilities));
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ];
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        headers.extend(extra);
        self.send("POST", path, &headers, body.to_string()).await
    }
}

pub(crate) fn request(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// What a request is answered with.
pub(crate) struct Answer {
    response: Response<Incoming>,
    buffer: Vec<u8>,
    _connection: JoinSet<()>,
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type").as_deref() == Some("text/event-stream")
    }

    pub(crate) async fn text(self) -> String {
        let body = within(self.response.into_body().collect()).await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    pub(crate) async fn json(self) -> Value {
        assert!(!self.is_stream(), "this is a stream");
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// The name and the data of the next event; none at the end. Signs of life are passed over.
    pub(crate) async fn event(&mut self) -> Option<(String, String)> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|it| it == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                let line = |key: &str| event.lines().find_map(|line| line.strip_prefix(key));
                if let Some(data) = line("data: ").or_else(|| line("data:")) {
                    let name = line("event: ").or_else(|| line("event:")).unwrap_or_default();
                    return Some((name.to_owned(), data.to_owned()));
                }
                continue;
            }
            let frame = within(self.response.body_mut().frame()).await?.ok()?;
            self.buffer.extend_from_slice(&frame.into_data().ok()?);
        }
    }

    /// The next message of a stream.
    pub(crate) async fn message(&mut self) -> Value {
        let (_, data) = self.event().await.expect("the stream goes on");
        serde_json::from_str(&data).unwrap()
    }
}

//! A plain HTTP client with one connection per request and a reader for events.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use toolcrib_server::front::{Front, WorkerThreads};
use toolcrib_server::identity::Identity;
use toolcrib_server::trace::TraceSender;

use crate::fixture::{TestClient, TestHost, with_timeout};

/// A front on a loopback address.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) front: Arc<Front>,
    tasks: JoinSet<()>,
}

impl TestServer {
    pub(crate) async fn new(host_fixture: &TestHost) -> Self {
        Self::with_traces(host_fixture, TraceSender::default()).await
    }

    pub(crate) async fn with_traces(host_fixture: &TestHost, traces: TraceSender) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let front = Front::with_traces(host_fixture.host.clone(), Identity::default(), traces);
        let mut tasks = JoinSet::new();
        let serving = Arc::clone(&front);
        // Serves connections on two threads.
        let threads = WorkerThreads::start(1).unwrap();
        tasks.spawn(async move { serving.serve(listener, &threads).await });
        TestServer { address, front, tasks }
    }

    pub(crate) async fn close(mut self) {
        self.front.close();
        with_timeout(self.tasks.join_next()).await.unwrap().unwrap();
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> TestResponse {
        let stream = with_timeout(TcpStream::connect(self.address)).await.unwrap();
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = with_timeout(handshake).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // The reader of the response sees errors.
            let _ = connection.await;
        });
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        let mut request = request.body(Full::new(body.into())).unwrap();
        for (name, value) in headers {
            // A later value replaces an earlier one.
            let name: hyper::header::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let response = with_timeout(sender.send_request(request)).await.unwrap();
        TestResponse { response, buffer: Vec::new(), _connection: tasks }
    }

    /// Posts a message like a legacy client.
    pub(crate) async fn post(
        &self,
        path: &str,
        session: Option<&str>,
        message: &Value,
    ) -> TestResponse {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        self.send("POST", path, &headers, message.to_string()).await
    }

    /// Opens a legacy session and returns its id.
    pub(crate) async fn open_session(&self, path: &str, capabilities: Value) -> String {
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

    /// Posts a request like a modern client.
    pub(crate) async fn post_modern(
        &self,
        path: &str,
        extra: &[(&str, &str)],
        method: &str,
        params: Value,
        capabilities: &Value,
    ) -> TestResponse {
        let name = params.get("name").or(params.get("uri")).and_then(Value::as_str);
        let name = name.map(str::to_owned);
        let body = request(1, method, TestClient::modern_params(params, capabilities));
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

/// Response to a request.
pub(crate) struct TestResponse {
    response: Response<Incoming>,
    buffer: Vec<u8>,
    _connection: JoinSet<()>,
}

impl TestResponse {
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
        let body = with_timeout(self.response.into_body().collect()).await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    pub(crate) async fn json(self) -> Value {
        assert!(!self.is_stream(), "unexpected event stream");
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// Name and data of the next event; `None` at the end. Skips keep-alives.
    pub(crate) async fn next_event(&mut self) -> Option<(String, String)> {
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
            let frame = with_timeout(self.response.body_mut().frame()).await?.ok()?;
            self.buffer.extend_from_slice(&frame.into_data().ok()?);
        }
    }

    /// The next message of a stream.
    pub(crate) async fn next_message(&mut self) -> Value {
        let (_, data) = self.next_event().await.expect("the stream has ended");
        serde_json::from_str(&data).unwrap()
    }
}

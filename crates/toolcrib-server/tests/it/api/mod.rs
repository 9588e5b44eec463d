//! Tests of the control API over real sockets.

mod calls;
mod dialogs;
mod events;
mod identity;
mod lists;
mod monitoring;
mod oauth;
mod openapi;
mod permissions;
mod servers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use toolcrib::Host;
use toolcrib_server::front::{Front, WorkerThreads};
use toolcrib_server::identity::Identity;
use toolcrib_testkit::scripted::Script;

use crate::fixture::{TestHost, with_timeout};

/// A host with its TCP address and owner socket.
pub(crate) struct TestApi {
    pub(crate) host_fixture: TestHost,
    front: Arc<Front>,
    pub(crate) address: SocketAddr,
    socket: PathBuf,
    serving: JoinSet<()>,
}

/// Entry point and credential of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Credential<'a> {
    Socket,
    Anonymous,
    Token(&'a str),
}

/// Response of the API.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    /// In lower case.
    head: String,
    pub(crate) text: String,
}

impl TestApi {
    pub(crate) async fn new(servers: &[(&str, Script, Value)]) -> Self {
        Self::with(&json!({}), servers).await
    }

    pub(crate) async fn with(extra: &Value, servers: &[(&str, Script, Value)]) -> Self {
        Self::over(TestHost::with(extra, servers).await).await
    }

    pub(crate) async fn over(host_fixture: TestHost) -> Self {
        let identity = Identity::with_tokens_in(&host_fixture.path("state"));
        let front = Front::new(host_fixture.host.clone(), identity);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = host_fixture.path("socket");
        let unix = UnixListener::bind(&socket).unwrap();
        let mut serving = JoinSet::new();
        let (by_tcp, by_socket) = (Arc::clone(&front), Arc::clone(&front));
        serving.spawn(async move { by_tcp.serve(listener, &WorkerThreads::default()).await });
        serving.spawn(async move { by_socket.serve_socket(unix).await });
        TestApi { host_fixture, front, address, socket, serving }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host_fixture.host
    }

    pub(crate) fn front(&self) -> &Arc<Front> {
        &self.front
    }

    /// Sends a request below `/api/v1`.
    pub(crate) async fn send(
        &self,
        by: Credential<'_>,
        what: &str,
        body: Option<Value>,
    ) -> ApiResponse {
        let (method, path) = what.split_once(' ').unwrap();
        self.request(by, method, &format!("/api/v1/{path}"), &[], body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.send(Credential::Socket, &format!("GET {path}"), None).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.send(Credential::Socket, &format!("POST {path}"), Some(body)).await;
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer.json()
    }

    /// Creates a dialog of the owner and returns its id.
    pub(crate) async fn dialog(&self, body: Value) -> String {
        self.post("dialogs", body).await["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn call(&self, dialog: &str, tool: &str, arguments: Value) -> Value {
        let body = json!({"tool": tool, "arguments": arguments});
        self.send(Credential::Socket, &format!("POST dialogs/{dialog}/calls"), Some(body))
            .await
            .json()
    }

    pub(crate) async fn request(
        &self,
        by: Credential<'_>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> ApiResponse {
        let mut stream = self.send_request(by, method, path, headers, body).await;
        let mut text = String::new();
        with_timeout(stream.read_to_string(&mut text)).await.unwrap();
        let (head, text) = text.split_once("\r\n\r\n").expect("a response");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        ApiResponse { status, head: head.to_lowercase(), text: text.to_owned() }
    }

    /// Only the status, for responses that may not end.
    pub(crate) async fn status(&self, by: Credential<'_>, what: &str) -> u16 {
        let (method, path) = what.split_once(' ').unwrap();
        let stream = self.send_request(by, method, &format!("/api/v1/{path}"), &[], None).await;
        let mut line = String::new();
        with_timeout(BufReader::new(stream).read_line(&mut line)).await.unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Sends a request whose response is an event stream.
    pub(crate) async fn event_stream(
        &self,
        by: Credential<'_>,
        what: &str,
        body: Option<Value>,
    ) -> Events {
        let (method, path) = what.split_once(' ').unwrap();
        let accept = [("Accept", "text/event-stream")];
        let path = format!("/api/v1/{path}");
        let mut stream = BufReader::new(self.send_request(by, method, &path, &accept, body).await);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            with_timeout(stream.read_line(&mut line)).await.unwrap();
        }
        Events(stream)
    }

    /// Sends HTTP/1.0, so that the response ends with the connection.
    async fn send_request(
        &self,
        by: Credential<'_>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Box<dyn TestStream> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.address);
        }
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "Content-Type") {
            head += "Content-Type: application/json\r\n";
        }
        if let Credential::Token(token) = by {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream: Box<dyn TestStream> = match by {
            Credential::Socket => Box::new(UnixStream::connect(&self.socket).await.unwrap()),
            _ => Box::new(TcpStream::connect(self.address).await.unwrap()),
        };
        with_timeout(stream.write_all(format!("{head}\r\n{body}").as_bytes())).await.unwrap();
        stream
    }

    pub(crate) async fn close(mut self) {
        self.front.close();
        while with_timeout(self.serving.join_next()).await.is_some() {}
        with_timeout(self.host_fixture.host.close()).await;
    }
}

pub(crate) trait TestStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> TestStream for T {}

impl ApiResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    /// Status and problem code.
    pub(crate) fn status_and_code(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

pub(crate) struct Events(BufReader<Box<dyn TestStream>>);

impl Events {
    /// Kind and data of the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        let (mut kind, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if with_timeout(self.0.read_line(&mut line)).await.unwrap() == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", name)) => kind = name.to_owned(),
                Some(("data", text)) => data += text,
                _ if line == "\n" && !kind.is_empty() => {
                    return Some((kind, serde_json::from_str(&data).unwrap()));
                }
                _ => {}
            }
        }
    }

    /// The first event of a kind that matches.
    pub(crate) async fn wait_for(&mut self, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (found, data) = self.next().await.expect("the stream has ended");
            if found == kind && holds(&data) {
                return data;
            }
        }
    }
}

/// Names of the tools in a list.
pub(crate) fn tool_names(list: &Value) -> Vec<&str> {
    list["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

/// Polls until the closure returns a value.
pub(crate) async fn poll_until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    with_timeout(async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            // The change happens in another process.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
}

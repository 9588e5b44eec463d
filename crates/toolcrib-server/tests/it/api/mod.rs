//! The control API over real sockets: what programs see of a host, and who may do what.

mod calls;
mod dialogs;
mod events;
mod identity;
mod lists;
mod oauth;
mod openapi;
mod rights;
mod servers;
mod watching;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use toolcrib::Host;
use toolcrib_server::front::{Front, Loops};
use toolcrib_server::identity::Identity;
use toolcrib_testkit::scripted::Script;

use crate::scene::{Scene, within};

/// A host, its address and its socket.
pub(crate) struct Crib {
    pub(crate) scene: Scene,
    front: Arc<Front>,
    pub(crate) address: SocketAddr,
    socket: PathBuf,
    serving: JoinSet<()>,
}

/// Who asks, and by which door.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'a> {
    Socket,
    Tcp,
    Token(&'a str),
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    head: String,
    pub(crate) text: String,
}

impl Crib {
    pub(crate) async fn new(servers: &[(&str, Script, Value)]) -> Self {
        Self::with(&json!({}), servers).await
    }

    pub(crate) async fn with(besides: &Value, servers: &[(&str, Script, Value)]) -> Self {
        Self::of(Scene::with(besides, servers).await).await
    }

    pub(crate) async fn of(scene: Scene) -> Self {
        let identity = Identity::of(&scene.path("state"));
        let front = Front::new(scene.host.clone(), identity);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = scene.path("socket");
        let unix = UnixListener::bind(&socket).unwrap();
        let mut serving = JoinSet::new();
        let (by_tcp, by_socket) = (Arc::clone(&front), Arc::clone(&front));
        serving.spawn(async move { by_tcp.serve(listener, &Loops::default()).await });
        serving.spawn(async move { by_socket.serve_socket(unix).await });
        Crib { scene, front, address, socket, serving }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.scene.host
    }

    pub(crate) fn front(&self) -> &Arc<Front> {
        &self.front
    }

    /// One request below `/api/v1`.
    pub(crate) async fn ask(&self, by: By<'_>, what: &str, body: Option<Value>) -> Answer {
        let (method, path) = what.split_once(' ').unwrap();
        self.request(by, method, &format!("/api/v1/{path}"), &[], body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.ask(By::Socket, &format!("GET {path}"), None).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.ask(By::Socket, &format!("POST {path}"), Some(body)).await;
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer.json()
    }

    /// A dialog of the owner's: its id.
    pub(crate) async fn dialog(&self, body: Value) -> String {
        self.post("dialogs", body).await["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn call(&self, dialog: &str, tool: &str, arguments: Value) -> Value {
        let body = json!({"tool": tool, "arguments": arguments});
        self.ask(By::Socket, &format!("POST dialogs/{dialog}/calls"), Some(body)).await.json()
    }

    pub(crate) async fn request(
        &self,
        by: By<'_>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        let mut stream = self.begin(by, method, path, headers, body).await;
        let mut text = String::new();
        within(stream.read_to_string(&mut text)).await.unwrap();
        let (head, text) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), text: text.to_owned() }
    }

    /// Only the status, of an answer that may have no end.
    pub(crate) async fn status(&self, by: By<'_>, what: &str) -> u16 {
        let (method, path) = what.split_once(' ').unwrap();
        let stream = self.begin(by, method, &format!("/api/v1/{path}"), &[], None).await;
        let mut line = String::new();
        within(BufReader::new(stream).read_line(&mut line)).await.unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// A request whose answer is a stream of events.
    pub(crate) async fn stream(&self, by: By<'_>, what: &str, body: Option<Value>) -> Events {
        let (method, path) = what.split_once(' ').unwrap();
        let accept = [("Accept", "text/event-stream")];
        let path = format!("/api/v1/{path}");
        let mut stream = BufReader::new(self.begin(by, method, &path, &accept, body).await);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            within(stream.read_line(&mut line)).await.unwrap();
        }
        Events(stream)
    }

    /// HTTP/1.0, so that an answer ends with its connection.
    async fn begin(
        &self,
        by: By<'_>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Box<dyn Wire> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.address);
        }
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "Content-Type") {
            head += "Content-Type: application/json\r\n";
        }
        if let By::Token(token) = by {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream: Box<dyn Wire> = match by {
            By::Socket => Box::new(UnixStream::connect(&self.socket).await.unwrap()),
            _ => Box::new(TcpStream::connect(self.address).await.unwrap()),
        };
        within(stream.write_all(format!("{head}\r\n{body}").as_bytes())).await.unwrap();
        stream
    }

    pub(crate) async fn end(mut self) {
        self.front.close();
        while within(self.serving.join_next()).await.is_some() {}
        within(self.scene.host.close()).await;
    }
}

pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    /// The status, and what went wrong.
    pub(crate) fn failure(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

pub(crate) struct Events(BufReader<Box<dyn Wire>>);

impl Events {
    /// The next event: its kind and its data; none at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        let (mut kind, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if within(self.0.read_line(&mut line)).await.unwrap() == 0 {
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

    /// The first event of a kind for which something holds.
    pub(crate) async fn until(&mut self, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (found, data) = self.next().await.expect("the stream goes on");
            if found == kind && holds(&data) {
                return data;
            }
        }
    }
}

/// The names of the tools of a list.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

/// Asks again and again until something holds.
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            // What is waited for happens in another process.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
}

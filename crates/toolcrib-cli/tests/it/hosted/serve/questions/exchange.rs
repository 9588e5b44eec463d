//! One HTTP request whose answer is read when the test wants it: two can be open at the same time.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::within;

pub(super) struct Exchange {
    stream: TcpStream,
    /// Bytes that were read and not used yet. Reads only append, so a read that is dropped loses nothing.
    buffer: Vec<u8>,
    head: Option<Head>,
}

#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    text: String,
}

impl Head {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.text.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }
}

impl Exchange {
    /// Sends the request; does not wait for the answer.
    pub(super) async fn send(
        address: &str,
        start: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Self {
        let mut stream = within(TcpStream::connect(address)).await.unwrap();
        let more: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let text = format!(
            "{start} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/json\r\n\
             {more}Content-Length: {length}\r\n\r\n{body}"
        );
        within(stream.write_all(text.as_bytes())).await.unwrap();
        Self { stream, buffer: Vec::new(), head: None }
    }

    pub(super) async fn head(&mut self) -> Head {
        if self.head.is_none() {
            let text = self.through(b"\r\n\r\n").await;
            let status = text.split(' ').nth(1).unwrap().parse().unwrap();
            self.head = Some(Head { status, text });
        }
        self.head.clone().unwrap()
    }

    pub(super) async fn status(mut self) -> u16 {
        within(self.head()).await.status
    }

    /// The next message: an event of a stream, or the whole body.
    pub(super) async fn message(&mut self) -> Value {
        let head = self.head().await;
        if head.header("content-type") != Some("text/event-stream") {
            while self.fill().await {}
            let text = String::from_utf8_lossy(&self.buffer).into_owned();
            return serde_json::from_str(&text)
                .unwrap_or_else(|why| panic!("{why}: {head:?} {text}"));
        }
        loop {
            // An event is never split over chunks by this server, and chunk sizes are no event lines.
            let event = self.through(b"\n\n").await;
            if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data:")) {
                return serde_json::from_str(data).unwrap_or_else(|why| panic!("{why}: {event}"));
            }
        }
    }

    /// The text up to these bytes, and without what follows.
    async fn through(&mut self, end: &[u8]) -> String {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|it| it == end) {
                let found: Vec<u8> = self.buffer.drain(..at + end.len()).collect();
                return String::from_utf8(found).unwrap();
            }
            assert!(
                self.fill().await,
                "the answer ended: {:?}",
                String::from_utf8_lossy(&self.buffer)
            );
        }
    }

    async fn fill(&mut self) -> bool {
        self.stream.read_buf(&mut self.buffer).await.unwrap() > 0
    }
}

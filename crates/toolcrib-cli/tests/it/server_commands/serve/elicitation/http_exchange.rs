//! An HTTP request whose response the test reads later, so that two can be open concurrently.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::with_time_limit;

pub(super) struct HttpExchange {
    stream: TcpStream,
    /// Unread bytes. Reads only append, so a cancelled read loses nothing.
    buffer: Vec<u8>,
    head: Option<ResponseHead>,
}

#[derive(Clone, Debug)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    text: String,
}

impl ResponseHead {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.text.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }
}

impl HttpExchange {
    /// Sends the request without waiting for the response.
    pub(super) async fn send(
        address: &str,
        start: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Self {
        let mut stream = with_time_limit(TcpStream::connect(address)).await.unwrap();
        let more: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let text = format!(
            "{start} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/json\r\n\
             {more}Content-Length: {length}\r\n\r\n{body}"
        );
        with_time_limit(stream.write_all(text.as_bytes())).await.unwrap();
        Self { stream, buffer: Vec::new(), head: None }
    }

    pub(super) async fn head(&mut self) -> ResponseHead {
        if self.head.is_none() {
            let text = self.read_through(b"\r\n\r\n").await;
            let status = text.split(' ').nth(1).unwrap().parse().unwrap();
            self.head = Some(ResponseHead { status, text });
        }
        self.head.clone().unwrap()
    }

    pub(super) async fn status(mut self) -> u16 {
        with_time_limit(self.head()).await.status
    }

    /// The next message: an event, or the whole body.
    pub(super) async fn message(&mut self) -> Value {
        let head = self.head().await;
        if head.header("content-type") != Some("text/event-stream") {
            while self.fill().await {}
            let text = String::from_utf8_lossy(&self.buffer).into_owned();
            return serde_json::from_str(&text)
                .unwrap_or_else(|why| panic!("{why}: {head:?} {text}"));
        }
        loop {
            // This server never splits an event over chunks, and chunk sizes are no event lines.
            let event = self.read_through(b"\n\n").await;
            if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data:")) {
                return serde_json::from_str(data).unwrap_or_else(|why| panic!("{why}: {event}"));
            }
        }
    }

    /// Reads up to and including these bytes.
    async fn read_through(&mut self, end: &[u8]) -> String {
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

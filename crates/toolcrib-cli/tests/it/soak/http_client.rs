//! A minimal Streamable HTTP client, so that hundreds fit beside the gateway.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A reused connection. It may carry requests of any session.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    address: String,
}

pub(super) struct SoakResponse {
    pub(super) status: u16,
    pub(super) session: Option<String>,
    pub(super) body: String,
}

/// The parsed head of a response.
#[derive(Default)]
struct Head {
    status: u16,
    session: Option<String>,
    length: usize,
    is_chunked: bool,
}

impl Connection {
    /// Connects to an address like `127.0.0.1:7420`.
    pub(super) async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), address: address.to_owned() })
    }

    pub(super) async fn post(
        &mut self,
        session: Option<&str>,
        body: &str,
    ) -> io::Result<SoakResponse> {
        let more = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        self.send("POST", "application/json, text/event-stream", session, &more, body).await?;
        let head = self.head().await?;
        let mut bytes = vec![0; head.length];
        self.stream.read_exact(&mut bytes).await?;
        if head.is_chunked {
            while let Some(chunk) = self.chunk().await? {
                bytes.extend(chunk);
            }
        }
        let body = String::from_utf8(bytes).map_err(io::Error::other)?;
        Ok(SoakResponse { status: head.status, session: head.session, body })
    }

    /// A gateway metric, summed over all series with this name prefix.
    pub(super) async fn metric(&mut self, name: &str) -> io::Result<f64> {
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        let mut text = vec![0; self.head().await?.length];
        self.stream.read_exact(&mut text).await?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        let values = text.lines().filter(|line| line.starts_with(name));
        Ok(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Opens the listen stream of a session and returns the status.
    pub(super) async fn listen(&mut self, session: &str) -> io::Result<u16> {
        self.send("GET", "text/event-stream", Some(session), "", "").await?;
        Ok(self.head().await?.status)
    }

    /// The next chunk of a stream, or `None` at its end.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length =
            usize::from_str_radix(self.line().await?.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; length];
        self.stream.read_exact(&mut chunk).await?;
        self.line().await?;
        Ok((length > 0).then_some(chunk))
    }

    async fn send(
        &mut self,
        method: &str,
        accept: &str,
        session: Option<&str>,
        more: &str,
        body: &str,
    ) -> io::Result<()> {
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} /mcp HTTP/1.1\r\nhost: {}\r\naccept: {accept}\r\n\
             mcp-protocol-version: 2025-11-25\r\n{session}{more}\r\n{body}",
            self.address
        );
        self.stream.get_mut().write_all(request.as_bytes()).await
    }

    async fn head(&mut self) -> io::Result<Head> {
        let line = self.line().await?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut head = Head { status: status.ok_or_else(|| broken(&line))?, ..Head::default() };
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.trim().split_once(':') else { return Ok(head) };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.parse().map_err(io::Error::other)?,
                "transfer-encoding" => head.is_chunked = true,
                "mcp-session-id" => head.session = Some(value.to_owned()),
                _ => {}
            }
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

fn broken(line: &str) -> io::Error {
    io::Error::other(format!("no status: {line}"))
}

//! A minimal blocking HTTP client, so that the client's cost does not distort the measurement.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::BenchResult;

/// Limit of a response; a slower gateway has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// A keep-alive connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    head: String,
    line: String,
    /// Body of the last response.
    pub body: Vec<u8>,
    /// Session id of the last response.
    pub session: Option<String>,
}

impl Connection {
    pub fn open(address: SocketAddr, path: &str, session: Option<&str>) -> BenchResult<Self> {
        let writer = TcpStream::connect(address)?;
        writer.set_nodelay(true)?;
        writer.set_read_timeout(Some(LIMIT))?;
        let reader = BufReader::with_capacity(64 << 10, writer.try_clone()?);
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n\
             mcp-protocol-version: 2025-11-25\r\n{session}"
        );
        Ok(Self { reader, writer, head, line: String::new(), body: Vec::new(), session: None })
    }

    /// Posts a message, reads the whole response and returns its status.
    pub fn post(&mut self, message: &str) -> BenchResult<u16> {
        let request = format!("{}content-length: {}\r\n\r\n{message}", self.head, message.len());
        self.writer.write_all(request.as_bytes())?;
        self.read_line()?;
        let status = self.line.split(' ').nth(1).ok_or("no status")?.parse()?;
        let (mut length, mut is_chunked) = (0, false);
        loop {
            self.read_line()?;
            let Some((name, value)) = self.line.trim().split_once(':') else { break };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse()?,
                "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
                "mcp-session-id" => self.session = Some(value.to_owned()),
                _ => {}
            }
        }
        self.body.clear();
        if is_chunked {
            self.read_chunks()?
        } else {
            self.read_more(length)?
        }
        Ok(status)
    }

    fn read_chunks(&mut self) -> BenchResult {
        loop {
            self.read_line()?;
            let length = usize::from_str_radix(self.line.trim(), 16)?;
            self.read_more(length)?;
            self.read_line()?;
            if length == 0 {
                return Ok(());
            }
        }
    }

    fn read_more(&mut self, length: usize) -> BenchResult {
        let known = self.body.len();
        self.body.resize(known + length, 0);
        Ok(self.reader.read_exact(&mut self.body[known..])?)
    }

    fn read_line(&mut self) -> BenchResult {
        self.line.clear();
        match self.reader.read_line(&mut self.line)? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }
}

/// Opens a session and returns its id, if the server uses sessions.
pub fn initialize(address: SocketAddr, path: &str) -> BenchResult<Option<String>> {
    let mut connection = Connection::open(address, path, None)?;
    let status = connection.post(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#,
    )?;
    if status != 200 {
        return Err(format!("initialize: status {status}").into());
    }
    let session = connection.session.take();
    let mut notification = Connection::open(address, path, session.as_deref())?;
    notification.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
    Ok(session)
}

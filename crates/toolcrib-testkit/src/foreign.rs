//! What foreign programs may send to a gateway, and what must come back whatever it is.
//!
//! An input is a byte that says where it goes ([`WAYS`]; `a` stands for no way: what follows is sent as it is), a line
//! with the rest of the path, lines of headers, an empty line, and the body. Inputs are shared: they are the seeds of
//! the fuzz target `gateway`, and a test of the gateway sends each of them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::workspace_root;

/// Method, path, and whether the request is of the open session; `b` is the first.
pub const WAYS: &[(&str, &str, bool)] = &[
    ("POST", "/mcp", false),
    ("POST", "/mcp", true),
    ("GET", "/mcp", true),
    ("DELETE", "/mcp", false),
    ("POST", "/sse", false),
    ("GET", "/", false),
    ("POST", "/api/v1/dialogs", false),
    ("PUT", "/api/v1/", false),
];

/// Only bounds a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// Headers that would make another message of what is sent; that can be said in a request of kind `a`.
const FRAMING: [&str; 5] =
    ["content-length", "transfer-encoding", "expect", "connection", "upgrade"];

/// What is made of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The connection ends without a word.
    Silence,
    Taken,
    /// A status that says so, or an error of JSON-RPC.
    Refused,
}

/// What is known to be sent, by name; what begins with `bad-` has to be refused.
pub fn known() -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(workspace_root().join("fuzz/seeds/gateway"))? {
        let path = entry?.path();
        let bytes = std::fs::read(&path)?;
        all.push((path, bytes));
    }
    all.sort();
    Ok(all)
}

/// Sends an input, and says what is wrong with what comes back: it has to be an answer, and a failure is the sender's.
pub async fn check(gateway: SocketAddr, session: &str, input: &[u8]) -> Result<Verdict, String> {
    let Some((&way, rest)) = input.split_first() else { return Ok(Verdict::Silence) };
    let way = usize::from(way.wrapping_sub(b'a')) % (WAYS.len() + 1);
    let request = WAYS.get(way.wrapping_sub(1)).map(|way| written(*way, gateway, session, rest));
    let answer = exchange(gateway, request.as_deref().unwrap_or(rest), request.is_none());
    let answer = timeout(PATIENCE, answer).await.map_err(|_| "no answer comes".to_owned())?;
    // How a connection ends that somebody else broke is no matter.
    let answer = answer.unwrap_or_default();
    match (request, answer.is_empty()) {
        (None, true) => Ok(Verdict::Silence),
        (Some(_), true) => Err("there is no answer".to_owned()),
        (_, false) => judge(&answer, way == 1 || way == 2),
    }
}

fn written(way: (&str, &str, bool), gateway: SocketAddr, session: &str, rest: &[u8]) -> Vec<u8> {
    let (method, path, is_of_session) = way;
    let (path_rest, rest) = line(rest);
    let mut request = format!("{method} {path}").into_bytes();
    request.extend(path_rest);
    request.extend(format!(" HTTP/1.1\r\nHost: {gateway}\r\nConnection: close\r\n").as_bytes());
    if is_of_session {
        request.extend(format!("Mcp-Session-Id: {session}\r\n").as_bytes());
    }
    let mut rest = rest;
    loop {
        let (header, after) = line(rest);
        rest = after;
        if header.is_empty() {
            break;
        }
        if !is_framing(header) {
            request.extend(header);
            request.extend(b"\r\n");
        }
    }
    request.extend(format!("Content-Length: {}\r\n\r\n", rest.len()).as_bytes());
    request.extend(rest);
    request
}

/// One line, and what comes after it.
fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(end);
    (line.strip_suffix(b"\r").unwrap_or(line), rest.get(1..).unwrap_or_default())
}

/// A line that continues the one before may say anything, too.
fn is_framing(header: &[u8]) -> bool {
    let name = header.split(|byte| *byte == b':').next().unwrap_or_default();
    let name = name.trim_ascii().to_ascii_lowercase();
    header.starts_with(b" ")
        || header.starts_with(b"\t")
        || header.contains(&b'\r')
        || FRAMING.iter().any(|framing| framing.as_bytes() == name)
}

/// What comes back until the connection ends, or until it is a stream of events, which may have no end.
async fn exchange(gateway: SocketAddr, request: &[u8], ends: bool) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(gateway).await?;
    let (mut answer, mut chunk) = (Vec::new(), vec![0; 16 << 10]);
    // Whoever is refused early is not read to the end.
    let sent = stream.write_all(request).await;
    if ends && sent.is_ok() {
        stream.shutdown().await?;
    }
    while !is_stream(&answer) {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => answer.extend(chunk.iter().take(count)),
        }
    }
    Ok(answer)
}

fn is_stream(answer: &[u8]) -> bool {
    parted(answer).is_some_and(|(head, _)| head.contains("text/event-stream"))
}

/// The head, in lower case, and what has come of the body.
fn parted(answer: &[u8]) -> Option<(String, &[u8])> {
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n")?;
    let (head, body) = answer.split_at(end + 4);
    Some((String::from_utf8_lossy(head).to_lowercase(), body))
}

fn judge(answer: &[u8], is_mcp: bool) -> Result<Verdict, String> {
    let (head, body) = parted(answer).ok_or("an answer without a head")?;
    // Whoever speaks HTTP/1.0 is answered in it.
    let rest = head.strip_prefix("http/1.1 ").or_else(|| head.strip_prefix("http/1.0 "));
    let status = rest.and_then(|rest| rest.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| format!("no status: {head}"))?;
    match status {
        500.. => Err(format!("the gateway's own failure: {head}")),
        400.. => Ok(Verdict::Refused),
        200 if is_mcp && !is_stream(answer) => said(body),
        _ => Ok(Verdict::Taken),
    }
}

/// An answer of JSON-RPC, or several.
fn said(body: &[u8]) -> Result<Verdict, String> {
    let said: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    match (said["jsonrpc"] == "2.0", said.get("result"), said.get("error")) {
        (true, Some(_), None) => Ok(Verdict::Taken),
        (true, None, Some(_)) => Ok(Verdict::Refused),
        _ => Err(format!("this is no answer: {said}")),
    }
}

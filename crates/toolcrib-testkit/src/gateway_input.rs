//! Sends arbitrary client input to a gateway and checks the response.
//!
//! An input starts with a byte that selects a route ([`ROUTES`]; `a` selects none, and the remaining bytes
//! are sent unchanged). A line with the rest of the path, header lines, an empty line and the body follow.
//! The seeds of the fuzz target `gateway` are such inputs, and a test of the gateway sends each of them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::workspace_root;

/// Method, path, and whether the request belongs to the open session. `b` selects the first route.
pub const ROUTES: &[(&str, &str, bool)] = &[
    ("POST", "/mcp", false),
    ("POST", "/mcp", true),
    ("GET", "/mcp", true),
    ("DELETE", "/mcp", false),
    ("POST", "/sse", false),
    ("GET", "/", false),
    ("POST", "/api/v1/dialogs", false),
    ("PUT", "/api/v1/", false),
];

/// Limit of a response; it only matters when the gateway fails.
const RESPONSE_LIMIT: Duration = Duration::from_secs(20);

/// Headers that change the message framing. Inputs of kind `a` may contain them.
const FRAMING_HEADERS: [&str; 5] =
    ["content-length", "transfer-encoding", "expect", "connection", "upgrade"];

/// The gateway's reaction to an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputOutcome {
    /// The connection ended without a response.
    NoResponse,
    Accepted,
    /// An error status or a JSON-RPC error.
    Rejected,
}

/// Returns the seeds by path; names that begin with `bad-` must be rejected.
pub fn load_seeds() -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(workspace_root().join("fuzz/seeds/gateway"))? {
        let path = entry?.path();
        let bytes = std::fs::read(&path)?;
        all.push((path, bytes));
    }
    all.sort();
    Ok(all)
}

/// Sends an input and checks the response. The error describes a missing or malformed response, or a failure
/// of the gateway itself.
pub async fn send_input(
    gateway: SocketAddr,
    session: &str,
    input: &[u8],
) -> Result<InputOutcome, String> {
    let Some((&route, rest)) = input.split_first() else { return Ok(InputOutcome::NoResponse) };
    let route = usize::from(route.wrapping_sub(b'a')) % (ROUTES.len() + 1);
    let request = ROUTES
        .get(route.wrapping_sub(1))
        .map(|route| build_request(*route, gateway, session, rest));
    let response = send_and_receive(gateway, request.as_deref().unwrap_or(rest), request.is_none());
    let response = timeout(RESPONSE_LIMIT, response)
        .await
        .map_err(|_| "no response within the limit".to_owned())?;
    // The test input may break the connection, so the way it ends does not matter.
    let response = response.unwrap_or_default();
    match (request, response.is_empty()) {
        (None, true) => Ok(InputOutcome::NoResponse),
        (Some(_), true) => Err("the connection ended without a response".to_owned()),
        (_, false) => classify_response(&response, route == 1 || route == 2),
    }
}

fn build_request(
    route: (&str, &str, bool),
    gateway: SocketAddr,
    session: &str,
    rest: &[u8],
) -> Vec<u8> {
    let (method, path, in_session) = route;
    let (path_rest, rest) = split_line(rest);
    let mut request = format!("{method} {path}").into_bytes();
    request.extend(path_rest);
    request.extend(format!(" HTTP/1.1\r\nHost: {gateway}\r\nConnection: close\r\n").as_bytes());
    if in_session {
        request.extend(format!("Mcp-Session-Id: {session}\r\n").as_bytes());
    }
    let mut rest = rest;
    loop {
        let (header, after) = split_line(rest);
        rest = after;
        if header.is_empty() {
            break;
        }
        if !is_framing_header(header) {
            request.extend(header);
            request.extend(b"\r\n");
        }
    }
    request.extend(format!("Content-Length: {}\r\n\r\n", rest.len()).as_bytes());
    request.extend(rest);
    request
}

/// Splits the first line from the remaining bytes.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(end);
    (line.strip_suffix(b"\r").unwrap_or(line), rest.get(1..).unwrap_or_default())
}

/// Returns true for headers that affect framing. Continuation lines may contain anything, so they count too.
fn is_framing_header(header: &[u8]) -> bool {
    let name = header.split(|byte| *byte == b':').next().unwrap_or_default();
    let name = name.trim_ascii().to_ascii_lowercase();
    header.starts_with(b" ")
        || header.starts_with(b"\t")
        || header.contains(&b'\r')
        || FRAMING_HEADERS.iter().any(|framing| framing.as_bytes() == name)
}

/// Returns the response up to the end of the connection, or up to the head of an event stream, which may
/// never end.
async fn send_and_receive(
    gateway: SocketAddr,
    request: &[u8],
    ends: bool,
) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(gateway).await?;
    let (mut response, mut chunk) = (Vec::new(), vec![0; 16 << 10]);
    // The gateway does not read the rest of a request that it rejects early.
    let sent = stream.write_all(request).await;
    if ends && sent.is_ok() {
        stream.shutdown().await?;
    }
    while !is_event_stream(&response) {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => response.extend(chunk.iter().take(count)),
        }
    }
    Ok(response)
}

fn is_event_stream(response: &[u8]) -> bool {
    split_response(response).is_some_and(|(head, _)| head.contains("text/event-stream"))
}

/// Splits the head, in lower case, from the body received so far.
fn split_response(response: &[u8]) -> Option<(String, &[u8])> {
    let end = response.windows(4).position(|it| it == b"\r\n\r\n")?;
    let (head, body) = response.split_at(end + 4);
    Some((String::from_utf8_lossy(head).to_lowercase(), body))
}

fn classify_response(response: &[u8], is_mcp: bool) -> Result<InputOutcome, String> {
    let (head, body) = split_response(response).ok_or("the response has no head")?;
    // The gateway answers HTTP/1.0 requests with HTTP/1.0.
    let rest = head.strip_prefix("http/1.1 ").or_else(|| head.strip_prefix("http/1.0 "));
    let status = rest.and_then(|rest| rest.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| format!("the response has no status: {head}"))?;
    match status {
        500.. => Err(format!("gateway failure: {head}")),
        400.. => Ok(InputOutcome::Rejected),
        200 if is_mcp && !is_event_stream(response) => classify_rpc_response(body),
        _ => Ok(InputOutcome::Accepted),
    }
}

/// Classifies one JSON-RPC response or a batch.
fn classify_rpc_response(body: &[u8]) -> Result<InputOutcome, String> {
    let message: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    match (message["jsonrpc"] == "2.0", message.get("result"), message.get("error")) {
        (true, Some(_), None) => Ok(InputOutcome::Accepted),
        (true, None, Some(_)) => Ok(InputOutcome::Rejected),
        _ => Err(format!("not a JSON-RPC response: {message}")),
    }
}

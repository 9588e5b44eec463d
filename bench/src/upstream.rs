//! The benchmark server: finds the request id and sends a prepared response. It is cheap, so that clients
//! never wait for it, and runs in its own process, so that its CPU time does not count.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use crate::BenchResult;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum UpstreamTransport {
    Stdio,
    /// Responses are one message.
    Http,
    /// Responses are an event stream with one message.
    Events,
}

/// Size of a response.
#[derive(Clone, Copy)]
pub enum ResponseSize {
    Small,
    Large,
}

impl ResponseSize {
    /// Name of the tool that returns this size.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

/// Address of the server for a client: a program to start or a URL.
pub enum Upstream {
    Program(String),
    Address { url: String, server: UpstreamProcess },
}

/// The server process; dropping it stops the process.
pub struct UpstreamProcess(Child);

impl Upstream {
    pub fn start(transport: UpstreamTransport) -> BenchResult<Self> {
        Self::start_with(transport, 2)
    }

    /// Starts the server with this many tools.
    pub fn start_with(transport: UpstreamTransport, tools: usize) -> BenchResult<Self> {
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        if transport == UpstreamTransport::Stdio {
            return Ok(Self::Program(program));
        }
        let mut command = Command::new(program);
        command
            .args(["upstream", "http", &tools.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut server = UpstreamProcess(command.spawn()?);
        let mut url = String::new();
        let stdout = server.0.stdout.take().ok_or("no stdout")?;
        BufReader::new(stdout).read_line(&mut url)?;
        let path = if transport == UpstreamTransport::Events { EVENTS } else { "/mcp" };
        Ok(Self::Address { url: url.trim().to_owned() + path, server })
    }
}

impl UpstreamProcess {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for UpstreamProcess {
    fn drop(&mut self) {
        // Killing a dead process fails harmlessly; waiting leaves no zombie.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Path that responds with event streams.
const EVENTS: &str = "/events";

pub fn serve(transport: &str, tools: usize) -> io::Result<()> {
    let responses = PreparedResponses::new(tools);
    match transport {
        "stdio" => serve_stdio(&responses),
        "http" => serve_http(&responses),
        _ => Err(io::Error::other("usage: toolcrib-bench upstream stdio|http")),
    }
}

/// Prepared responses without the id.
struct PreparedResponses {
    initialize: Vec<u8>,
    small: Vec<u8>,
    /// Created on first use: a megabyte of text per process would dominate the start of many servers.
    large: OnceLock<Vec<u8>>,
    list: Vec<u8>,
}

impl PreparedResponses {
    fn new(tools: usize) -> Self {
        let initialize = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"0"}}"#;
        let name = |number| match number {
            0 => "small".to_owned(),
            1 => "large".to_owned(),
            more => format!("tool{more}"),
        };
        let tool = |number| {
            format!(
                r#"{{"name":"{}","description":"What it does, in a sentence as people write them.","inputSchema":{{"type":"object","properties":{{"path":{{"type":"string","description":"Where."}},"count":{{"type":"integer"}}}}}}}}"#,
                name(number)
            )
        };
        let tools: Vec<String> = (0..tools).map(tool).collect();
        Self {
            list: format!(r#"{{"tools":[{}]}}"#, tools.join(",")).into(),
            initialize: initialize.into(),
            small: tool_result("twenty bytes of text").into(),
            large: OnceLock::new(),
        }
    }

    /// Appends the response to a message. Returns false if the message needs none.
    fn append_response(&self, message: &[u8], to: &mut Vec<u8>) -> bool {
        let Some(id) = find_id(message) else { return false };
        if contains(message, b"\"server/discover\"") {
            to.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
            to.extend_from_slice(id);
            to.extend_from_slice(b",\"error\":{\"code\":-32601,\"message\":\"no\"}}");
            return true;
        }
        let result = if contains(message, b"\"initialize\"") {
            &self.initialize
        } else if contains(message, b"\"tools/list\"") {
            &self.list
        } else if contains(message, b"\"large\"") {
            self.large.get_or_init(large_result)
        } else {
            &self.small
        };
        to.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        to.extend_from_slice(id);
        to.extend_from_slice(b",\"result\":");
        to.extend_from_slice(result);
        to.push(b'}');
        true
    }
}

fn large_result() -> Vec<u8> {
    // JSON-escaped, because tool results often contain characters that need escaping.
    let line = r#"    let path = \"C:\\temp\\file\";\t// caf\u00e9 – überall\n"#;
    tool_result(&line.repeat((1 << 20) / line.len())).into()
}

fn tool_result(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}"#)
}

/// Finds the id. Both clients write it before any field of the same name.
fn find_id(message: &[u8]) -> Option<&[u8]> {
    let start = find(message, b"\"id\":")? + 5;
    let length = message[start..].iter().position(|byte| matches!(byte, b',' | b'}'))?;
    Some(&message[start..start + length])
}

fn contains(message: &[u8], word: &[u8]) -> bool {
    find(message, word).is_some()
}

fn find(message: &[u8], word: &[u8]) -> Option<usize> {
    message.windows(word.len()).position(|window| window == word)
}

/// Responds to all messages of one read with one write.
fn serve_stdio(responses: &PreparedResponses) -> io::Result<()> {
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let count = stdin.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..count]);
        let whole = input.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        for line in input[..whole].split_inclusive(|byte| *byte == b'\n') {
            if responses.append_response(line, &mut output) {
                output.push(b'\n');
            }
        }
        input.drain(..whole);
        stdout.write_all(&output)?;
        stdout.flush()?;
        output.clear();
    }
}

fn serve_http(responses: &PreparedResponses) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}", listener.local_addr()?);
    thread::scope(|threads| {
        for stream in listener.incoming() {
            // A disconnecting client ends only its own connection.
            threads.spawn(|| stream.and_then(|stream| serve_connection(stream, responses)));
        }
        Ok(())
    })
}

fn serve_connection(stream: TcpStream, responses: &PreparedResponses) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(64 * 1024, stream);
    let (mut body, mut output, mut answer) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(Head { is_post, is_events, length }) = read_head(&mut reader)? {
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        output.clear();
        answer.clear();
        if !is_post {
            output
                .extend_from_slice(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n");
        } else if responses.append_response(&body, &mut answer) {
            let (kind, before, after) = match is_events {
                true => ("text/event-stream", "data: ", "\n\n"),
                false => ("application/json", "", ""),
            };
            let length = before.len() + answer.len() + after.len();
            write!(
                output,
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{before}"
            )?;
            output.extend_from_slice(&answer);
            output.extend_from_slice(after.as_bytes());
        } else {
            output.extend_from_slice(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
        }
        writer.write_all(&output)?;
    }
    Ok(())
}

struct Head {
    is_post: bool,
    is_events: bool,
    length: usize,
}

/// Returns `None` when the client has disconnected.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let is_events = line.contains(EVENTS);
    let mut head = Head { is_post: line.starts_with("POST "), is_events, length: 0 };
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { return Ok(Some(head)) };
        if name.eq_ignore_ascii_case("content-length") {
            head.length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
}

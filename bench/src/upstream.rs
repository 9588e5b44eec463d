//! The server under both clients: it looks for an id, and answers with what it has ready. Cheap, so that it is
//! never what the clients wait for; in a process of its own, so that it does not count.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use crate::Fallible;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Stdio,
    /// Answers that are one message.
    Http,
    /// Answers that are a stream of events with one message in it.
    Events,
}

/// How large an answer is.
#[derive(Clone, Copy)]
pub enum Size {
    Small,
    Large,
}

impl Size {
    /// The tool that gives it.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

/// Where a client finds a server: a program to start, or an address.
pub enum Upstream {
    Program(String),
    Address { url: String, server: Server },
}

/// Ends with its owner.
pub struct Server(Child);

impl Upstream {
    pub fn start(over: Over) -> Fallible<Self> {
        Self::start_with(over, 2)
    }

    /// The same with so many tools.
    pub fn start_with(over: Over, tools: usize) -> Fallible<Self> {
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        if over == Over::Stdio {
            return Ok(Self::Program(program));
        }
        let mut command = Command::new(program);
        command
            .args(["upstream", "http", &tools.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut server = Server(command.spawn()?);
        let mut url = String::new();
        let stdout = server.0.stdout.take().ok_or("no stdout")?;
        BufReader::new(stdout).read_line(&mut url)?;
        let path = if over == Over::Events { EVENTS } else { "/mcp" };
        Ok(Self::Address { url: url.trim().to_owned() + path, server })
    }
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Failing to end what is gone is fine; waiting leaves no zombie.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Who asks here is answered with events.
const EVENTS: &str = "/events";

pub fn serve(over: &str, tools: usize) -> io::Result<()> {
    let answers = Answers::new(tools);
    match over {
        "stdio" => serve_stdio(&answers),
        "http" => serve_http(&answers),
        _ => Err(io::Error::other("usage: toolcrib-bench upstream stdio|http")),
    }
}

/// What it answers, but for the id.
struct Answers {
    initialize: Vec<u8>,
    small: Vec<u8>,
    /// Made when it is first asked for: most of what a start of many would take is a megabyte of text for each.
    large: OnceLock<Vec<u8>>,
    list: Vec<u8>,
}

impl Answers {
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
            small: result("twenty bytes of text").into(),
            large: OnceLock::new(),
        }
    }

    /// Appends the answer to a message; false if it wants none.
    fn answer(&self, message: &[u8], to: &mut Vec<u8>) -> bool {
        let Some(id) = id(message) else { return false };
        if has(message, b"\"server/discover\"") {
            to.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
            to.extend_from_slice(id);
            to.extend_from_slice(b",\"error\":{\"code\":-32601,\"message\":\"no\"}}");
            return true;
        }
        let result = if has(message, b"\"initialize\"") {
            &self.initialize
        } else if has(message, b"\"tools/list\"") {
            &self.list
        } else if has(message, b"\"large\"") {
            self.large.get_or_init(large)
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

fn large() -> Vec<u8> {
    // As it stands in the JSON: what has to be escaped is frequent in what tools give.
    let line = r#"    let path = \"C:\\temp\\file\";\t// caf\u00e9 – überall\n"#;
    result(&line.repeat((1 << 20) / line.len())).into()
}

fn result(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}"#)
}

/// Both clients write it before anything that may have the same name.
fn id(message: &[u8]) -> Option<&[u8]> {
    let start = find(message, b"\"id\":")? + 5;
    let length = message[start..].iter().position(|byte| matches!(byte, b',' | b'}'))?;
    Some(&message[start..start + length])
}

fn has(message: &[u8], word: &[u8]) -> bool {
    find(message, word).is_some()
}

fn find(message: &[u8], word: &[u8]) -> Option<usize> {
    message.windows(word.len()).position(|window| window == word)
}

/// Answers together whatever came together.
fn serve_stdio(answers: &Answers) -> io::Result<()> {
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
            if answers.answer(line, &mut output) {
                output.push(b'\n');
            }
        }
        input.drain(..whole);
        stdout.write_all(&output)?;
        stdout.flush()?;
        output.clear();
    }
}

fn serve_http(answers: &Answers) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}", listener.local_addr()?);
    thread::scope(|threads| {
        for stream in listener.incoming() {
            // A client that hangs up ends its connection and nothing else.
            threads.spawn(|| stream.and_then(|stream| connection(stream, answers)));
        }
        Ok(())
    })
}

fn connection(stream: TcpStream, answers: &Answers) -> io::Result<()> {
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
        } else if answers.answer(&body, &mut answer) {
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

/// None when the client has gone.
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

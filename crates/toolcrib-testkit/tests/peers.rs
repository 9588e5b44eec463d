//! Each real server that `make setup` installs starts and answers the handshake.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use toolcrib_testkit::peers;

/// A cold interpreter on a busy machine takes seconds; this is only the bound of a hang.
const PATIENCE: Duration = Duration::from_secs(60);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"toolcrib-testkit","version":"0"}}}"#;

const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"toolcrib-testkit","version":"0"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

#[test]
fn everything_answers() {
    greets(npm("mcp-server-everything"), &["stdio"], "mcp-servers/everything");
}

#[test]
fn filesystem_answers() {
    let folder = peers::folder();
    greets(npm("mcp-server-filesystem"), &[&folder.to_string_lossy()], "secure-filesystem-server");
}

#[test]
fn memory_answers() {
    greets(npm("mcp-server-memory"), &[], "memory-server");
}

#[test]
fn sequential_thinking_answers() {
    greets(npm("mcp-server-sequential-thinking"), &[], "sequential-thinking-server");
}

#[test]
fn time_answers() {
    greets(python("mcp-server-time", "mcp-server-time"), &[], "mcp-time");
}

#[test]
fn git_answers() {
    greets(python("mcp-server-git", "mcp-server-git"), &[], "mcp-git");
}

#[test]
fn fastmcp_answers() {
    // Its own launcher is asked for first: the interpreter alone would be there without the package.
    python("fastmcp", "fastmcp");
    let script = peers::folder().join("fastmcp_server.py");
    greets(python("fastmcp", "python"), &[&script.to_string_lossy()], "toolcrib-fastmcp-peer");
}

#[test]
fn playwright_answers() {
    let program = peers::npm("@playwright/mcp", "playwright-mcp");
    let program = program.unwrap_or_else(|missing| panic!("{missing}"));
    let chromium = peers::chromium().unwrap_or_else(|missing| panic!("{missing}"));
    let args = ["--headless", "--no-sandbox", "--isolated", "--executable-path"];
    let chromium = chromium.to_string_lossy();
    greets(program, &[&args[..], &[&chromium]].concat(), "Playwright");
}

#[test]
fn the_reference_server_answers() {
    let [python, script] = peers::reference().unwrap_or_else(|missing| panic!("{missing}"));
    greets(python, &[&script.to_string_lossy(), "stdio"], "mcp-conformance-test-server");
}

#[test]
fn the_rust_sdk_answers_in_each_era() {
    let program = peers::rmcp().unwrap_or_else(|missing| panic!("{missing}"));
    greets(program.clone(), &["legacy", "stdio"], "toolcrib-rmcp-peer");
    for (era, answered) in [("legacy", false), ("modern", true), ("both", true)] {
        let answer = Peer::start(&program, &[era, "stdio"]).ask(DISCOVER).unwrap();
        let versions = answer["result"]["supportedVersions"].as_array();
        let newest = versions.is_some_and(|all| all.contains(&"2026-07-28".into()));
        assert_eq!(newest, answered, "{era}: {answer}");
    }
    let refused = Peer::start(&program, &["modern", "stdio"]).ask(INITIALIZE).unwrap();
    assert_eq!(refused["error"]["code"], -32022, "{refused}");
}

#[test]
fn the_rust_sdk_listens_where_it_says() {
    let program = peers::rmcp().unwrap_or_else(|missing| panic!("{missing}"));
    let mut peer = Peer::start(&program, &["both", "http"]);
    let address = peer.first_line().unwrap();
    let host = address.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
    TcpStream::connect(host.unwrap_or_else(|| panic!("said `{address}`"))).unwrap();
}

/// A newer suite may ask for more; which one answers is pinned by what it requires.
#[test]
fn the_conformance_suite_knows_both_eras() {
    let [node, script] = peers::conformance().unwrap_or_else(|missing| panic!("{missing}"));
    for (version, scenarios) in [("2025-11-25", 48), ("2026-07-28", 69)] {
        let mut suite = Command::new(&node);
        let output = suite.arg(&script).args(["list", "--requirements", version]).output().unwrap();
        let listed = String::from_utf8_lossy(&output.stdout);
        let heading = format!("Required for {version} ({scenarios} scenarios");
        assert!(listed.contains(&heading), "{listed}{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The controls: a program that ends, or says something else, does not count as an answer.
#[test]
#[should_panic(expected = "ended without an answer")]
fn a_program_that_says_nothing_is_noticed() {
    greets("/bin/true".into(), &[], "nobody");
}

#[test]
#[should_panic(expected = "answered as")]
fn an_echo_is_not_a_server() {
    greets("/bin/cat".into(), &[], "nobody");
}

fn npm(binary: &str) -> PathBuf {
    let package = binary.replace("mcp-server-", "@modelcontextprotocol/server-");
    peers::npm(&package, binary).unwrap_or_else(|missing| panic!("{missing}"))
}

fn python(package: &str, binary: &str) -> PathBuf {
    peers::python("v2", package, binary).unwrap_or_else(|missing| panic!("{missing}"))
}

fn greets(program: PathBuf, args: &[&str], name: &str) {
    let mut peer = Peer::start(&program, args);
    let answer = peer.ask(INITIALIZE).unwrap_or_else(|why| panic!("{}: {why}", program.display()));
    let found = &answer["result"]["serverInfo"]["name"];
    assert_eq!(found, name, "{} answered as {found}: {answer}", program.display());
}

/// A child that is ended when the test ends, however it ends.
struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    reader: Option<JoinHandle<()>>,
}

impl Peer {
    fn start(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Self { child, stdin, stdout, reader: None }
    }

    /// Sends one line and waits for one line; stdin stays open, since its end would stop the server.
    fn ask(&mut self, line: &str) -> Result<Value, String> {
        let stdin = self.stdin.as_mut().ok_or("no stdin")?;
        // A child that is already gone shows in what it answers, which says more than a broken pipe.
        let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        let answer = self.first_line()?;
        serde_json::from_str(&answer).map_err(|error| format!("answered `{answer}`: {error}"))
    }

    fn first_line(&mut self) -> Result<String, String> {
        let mut stdout = BufReader::new(self.stdout.take().ok_or("no stdout")?);
        let (send, receive) = sync_channel(1);
        let read = move || {
            let mut line = String::new();
            let _ = send.send(stdout.read_line(&mut line).map(|_| line));
        };
        let reader = thread::Builder::new().name("peer-stdout".into()).spawn(read);
        self.reader = Some(reader.map_err(|error| error.to_string())?);
        match receive.recv_timeout(PATIENCE) {
            Ok(Ok(line)) if !line.is_empty() => Ok(line),
            Ok(Ok(_)) | Err(RecvTimeoutError::Disconnected) => {
                Err("ended without an answer".into())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(RecvTimeoutError::Timeout) => Err(format!("no answer within {PATIENCE:?}")),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Failing to end a child that is already gone is fine; waiting leaves no zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // With the child gone its stdout has ended, and so has the reader.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

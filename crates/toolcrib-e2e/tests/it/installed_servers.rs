//! Starts each real server that `make setup` installs and checks its handshake.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use toolcrib_testkit::peers;

/// A cold interpreter on a busy machine takes seconds; the limit only stops a hang.
const RESPONSE_LIMIT: Duration = Duration::from_secs(60);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"toolcrib-testkit","version":"0"}}}"#;

const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"toolcrib-testkit","version":"0"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

#[test]
fn everything_server_answers_initialize() {
    check_initialize(
        official_npm_program("mcp-server-everything"),
        &["stdio"],
        "mcp-servers/everything",
    );
}

#[test]
fn filesystem_server_answers_initialize() {
    let folder = peers::peers_folder();
    check_initialize(
        official_npm_program("mcp-server-filesystem"),
        &[&folder.to_string_lossy()],
        "secure-filesystem-server",
    );
}

#[test]
fn memory_server_answers_initialize() {
    check_initialize(official_npm_program("mcp-server-memory"), &[], "memory-server");
}

#[test]
fn sequential_thinking_server_answers_initialize() {
    check_initialize(
        official_npm_program("mcp-server-sequential-thinking"),
        &[],
        "sequential-thinking-server",
    );
}

#[test]
fn time_server_answers_initialize() {
    check_initialize(python_program("mcp-server-time", "mcp-server-time"), &[], "mcp-time");
}

#[test]
fn git_server_answers_initialize() {
    check_initialize(python_program("mcp-server-git", "mcp-server-git"), &[], "mcp-git");
}

#[test]
fn fastmcp_server_answers_initialize() {
    // The launcher is checked first, because the interpreter would exist without the package.
    python_program("fastmcp", "fastmcp");
    let script = peers::peers_folder().join("fastmcp_server.py");
    check_initialize(
        python_program("fastmcp", "python"),
        &[&script.to_string_lossy()],
        "toolcrib-fastmcp-peer",
    );
}

#[test]
fn playwright_server_answers_initialize() {
    let program = peers::npm_program("@playwright/mcp", "playwright-mcp");
    let program = program.unwrap_or_else(|missing| panic!("{missing}"));
    let chromium = peers::chromium().unwrap_or_else(|missing| panic!("{missing}"));
    let args = ["--headless", "--no-sandbox", "--isolated", "--executable-path"];
    let chromium = chromium.to_string_lossy();
    check_initialize(program, &[&args[..], &[&chromium]].concat(), "Playwright");
}

#[test]
fn reference_server_answers_initialize() {
    let [python, script] = peers::reference_server().unwrap_or_else(|missing| panic!("{missing}"));
    check_initialize(python, &[&script.to_string_lossy(), "stdio"], "mcp-conformance-test-server");
}

#[test]
fn rust_sdk_peer_answers_in_each_era() {
    let program = peers::rmcp_peer().unwrap_or_else(|missing| panic!("{missing}"));
    check_initialize(program.clone(), &["legacy", "stdio"], "toolcrib-rmcp-peer");
    for (era, answered) in [("legacy", false), ("modern", true), ("both", true)] {
        let answer = PeerProcess::start(&program, &[era, "stdio"]).request(DISCOVER).unwrap();
        let versions = answer["result"]["supportedVersions"].as_array();
        let newest = versions.is_some_and(|all| all.contains(&"2026-07-28".into()));
        assert_eq!(newest, answered, "{era}: {answer}");
    }
    let refused = PeerProcess::start(&program, &["modern", "stdio"]).request(INITIALIZE).unwrap();
    assert_eq!(refused["error"]["code"], -32022, "{refused}");
}

#[test]
fn rust_sdk_peer_listens_on_its_printed_address() {
    let program = peers::rmcp_peer().unwrap_or_else(|missing| panic!("{missing}"));
    let mut peer = PeerProcess::start(&program, &["both", "http"]);
    let address = peer.read_first_line().unwrap();
    let host = address.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
    TcpStream::connect(host.unwrap_or_else(|| panic!("unexpected address line `{address}`")))
        .unwrap();
}

/// A newer suite may require more, so its requirements pin the suite version.
#[test]
fn conformance_suite_lists_both_eras() {
    let [node, script] = peers::conformance_suite().unwrap_or_else(|missing| panic!("{missing}"));
    for (version, scenarios) in [("2025-11-25", 48), ("2026-07-28", 69)] {
        let mut suite = Command::new(&node);
        let output = suite.arg(&script).args(["list", "--requirements", version]).output().unwrap();
        let listed = String::from_utf8_lossy(&output.stdout);
        let heading = format!("Required for {version} ({scenarios} scenarios");
        assert!(listed.contains(&heading), "{listed}{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Controls: a program that ends or prints something else is not a server.
#[test]
#[should_panic(expected = "ended without a response")]
fn silent_program_is_no_server() {
    check_initialize("/bin/true".into(), &[], "any-server");
}

#[test]
#[should_panic(expected = "answered as")]
fn echo_program_is_no_server() {
    check_initialize("/bin/cat".into(), &[], "any-server");
}

fn official_npm_program(binary: &str) -> PathBuf {
    let package = binary.replace("mcp-server-", "@modelcontextprotocol/server-");
    peers::npm_program(&package, binary).unwrap_or_else(|missing| panic!("{missing}"))
}

fn python_program(package: &str, binary: &str) -> PathBuf {
    peers::python_program("v2", package, binary).unwrap_or_else(|missing| panic!("{missing}"))
}

fn check_initialize(program: PathBuf, args: &[&str], name: &str) {
    let mut peer = PeerProcess::start(&program, args);
    let answer =
        peer.request(INITIALIZE).unwrap_or_else(|reason| panic!("{}: {reason}", program.display()));
    let found = &answer["result"]["serverInfo"]["name"];
    assert_eq!(found, name, "{} answered as {found}: {answer}", program.display());
}

/// A child process that ends with the test, even if the test fails.
struct PeerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    reader: Option<JoinHandle<()>>,
}

impl PeerProcess {
    fn start(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Self { child, stdin, stdout, reader: None }
    }

    /// Sends one line and waits for one line. Stdin stays open, because its end would stop the server.
    fn request(&mut self, line: &str) -> Result<Value, String> {
        let stdin = self.stdin.as_mut().ok_or("no stdin")?;
        // The response of a dead child says more than a broken pipe.
        let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        let answer = self.read_first_line()?;
        serde_json::from_str(&answer).map_err(|error| format!("answered `{answer}`: {error}"))
    }

    fn read_first_line(&mut self) -> Result<String, String> {
        let mut stdout = BufReader::new(self.stdout.take().ok_or("no stdout")?);
        let (send, receive) = sync_channel(1);
        let read = move || {
            let mut line = String::new();
            let _ = send.send(stdout.read_line(&mut line).map(|_| line));
        };
        let reader = thread::Builder::new().name("peer-stdout".into()).spawn(read);
        self.reader = Some(reader.map_err(|error| error.to_string())?);
        match receive.recv_timeout(RESPONSE_LIMIT) {
            Ok(Ok(line)) if !line.is_empty() => Ok(line),
            Ok(Ok(_)) | Err(RecvTimeoutError::Disconnected) => {
                Err("ended without a response".into())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(RecvTimeoutError::Timeout) => Err(format!("no response within {RESPONSE_LIMIT:?}")),
        }
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // Killing a dead child fails harmlessly; waiting leaves no zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The child's stdout has ended, and so has the reader.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

//! Starts a real OpenID provider with an MCP server behind it on this machine, and a headless browser.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::peers;

/// Generous, because the limit only matters when a test fails.
const RESPONSE_LIMIT: Duration = Duration::from_secs(60);

/// A running provider. Dropping it stops the process.
#[derive(Debug)]
pub struct OpenIdProvider {
    pub issuer: String,
    /// URL of the MCP server that accepts the provider's tokens.
    pub server: String,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl OpenIdProvider {
    /// Starts the provider with arguments of `provider.mjs`.
    pub async fn start(args: &[&str]) -> io::Result<Self> {
        let [node, script, _] = peers::openid_provider().map_err(io::Error::other)?;
        let mut child = Command::new(node)
            .arg(script)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let no_stream = || io::Error::other("the provider has no standard streams");
        let stdin = child.stdin.take().ok_or_else(no_stream)?;
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(no_stream)?).lines();
        let addresses = read_line(&mut lines).await?;
        let address = |key: &str| addresses[key].as_str().unwrap_or_default().to_owned();
        let (issuer, server) = (address("issuer"), address("server"));
        Ok(Self { issuer, server, stdin, lines, _child: child })
    }

    /// Sends one command and returns its response.
    pub async fn send_command(&mut self, command: &str) -> io::Result<Value> {
        self.stdin.write_all(format!("{command}\n").as_bytes()).await?;
        read_line(&mut self.lines).await
    }
}

/// Opens an address, consents to everything and returns the final address, which the browser could not load.
pub async fn open_in_browser(address: &str) -> io::Result<String> {
    let [node, _, script] = peers::openid_provider().map_err(io::Error::other)?;
    let run = Command::new(node).arg(script).arg(address).kill_on_drop(true).output();
    let output = timeout(RESPONSE_LIMIT, run).await.map_err(io::Error::other)??;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Returns the command of the browser for the variable `BROWSER`.
pub fn browser_command() -> io::Result<String> {
    let [node, _, script] = peers::openid_provider().map_err(io::Error::other)?;
    Ok(format!("{} {}", node.display(), script.display()))
}

async fn read_line(lines: &mut Lines<BufReader<ChildStdout>>) -> io::Result<Value> {
    let line = timeout(RESPONSE_LIMIT, lines.next_line()).await.map_err(io::Error::other)??;
    let line = line.ok_or_else(|| io::Error::other("the provider has ended"))?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

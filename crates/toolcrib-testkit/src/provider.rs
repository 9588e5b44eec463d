//! A real OpenID provider with a real server behind it, both on this machine, and a browser without a person.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::peers;

/// Generous, because it only bounds a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// It ends with this.
#[derive(Debug)]
pub struct Provider {
    pub issuer: String,
    /// The address of the server that takes its tokens.
    pub server: String,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Provider {
    /// With the words that `provider.mjs` takes.
    pub async fn start(args: &[&str]) -> io::Result<Self> {
        let [node, script, _] = peers::provider().map_err(io::Error::other)?;
        let mut child = Command::new(node)
            .arg(script)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let gone = || io::Error::other("the provider has no streams");
        let stdin = child.stdin.take().ok_or_else(gone)?;
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(gone)?).lines();
        let said = line(&mut lines).await?;
        let address = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        let (issuer, server) = (address("issuer"), address("server"));
        Ok(Self { issuer, server, stdin, lines, _child: child })
    }

    /// One order, and what it answers.
    pub async fn order(&mut self, order: &str) -> io::Result<Value> {
        self.stdin.write_all(format!("{order}\n").as_bytes()).await?;
        line(&mut self.lines).await
    }
}

/// Opens an address, consents to everything, and tells the address that it could not show in the end.
pub async fn browse(address: &str) -> io::Result<String> {
    let [node, _, script] = peers::provider().map_err(io::Error::other)?;
    let ran = Command::new(node).arg(script).arg(address).kill_on_drop(true).output();
    let output = timeout(LIMIT, ran).await.map_err(io::Error::other)??;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// The same browser, as the variable `BROWSER` names it.
pub fn browser() -> io::Result<String> {
    let [node, _, script] = peers::provider().map_err(io::Error::other)?;
    Ok(format!("{} {}", node.display(), script.display()))
}

async fn line(lines: &mut Lines<BufReader<ChildStdout>>) -> io::Result<Value> {
    let line = timeout(LIMIT, lines.next_line()).await.map_err(io::Error::other)??;
    let line = line.ok_or_else(|| io::Error::other("the provider has ended"))?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

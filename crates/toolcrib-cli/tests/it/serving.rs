//! Programs that listen for as long as a test needs them: `toolcrib serve`, and servers that it is put in front of.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::Place;

/// A cold interpreter on a busy machine takes seconds; this only bounds a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What programs find, and where they may write.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// `toolcrib serve` on a port of its own.
pub(crate) struct Serving {
    pub(crate) place: Place,
    child: Child,
    /// Without a path.
    url: String,
}

const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--json"];

impl Serving {
    pub(crate) async fn start(place: Place) -> Self {
        Self::start_with(place, &[]).await
    }

    /// With variables in its environment.
    pub(crate) async fn start_in(place: Place, environment: &[(&str, &str)]) -> Self {
        let mut command = place.command(&SERVE);
        command.envs(environment.iter().copied());
        Self::start_command(command, place).await
    }

    /// With more arguments.
    pub(crate) async fn start_with(place: Place, more: &[&str]) -> Self {
        let args = [&SERVE, more].concat();
        Self::start_command(place.command(&args), place).await
    }

    async fn start_command(command: std::process::Command, place: Place) -> Self {
        let mut command = Command::from(command);
        command.env("PATH", PATH).stdin(Stdio::null());
        let (child, line) = first_line(command).await;
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line}"));
        let url = told["url"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
        Self { place, child, url }
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The same address for a client that speaks WebSocket.
    pub(crate) fn socket(&self) -> String {
        self.at("/ws").replace("http:", "ws:")
    }

    /// Its resident memory, in kilobytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id().unwrap());
        let status = std::fs::read_to_string(status).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Tells it to end, and waits until it has.
    pub(crate) async fn end(mut self) {
        let pid = self.child.id().and_then(|pid| pid.try_into().ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = within(self.child.wait()).await.unwrap();
        assert!(status.success(), "{status}");
    }
}

/// A server that says its address in one line and ends when its standard input does.
pub(crate) struct Upstream {
    _child: Child,
    pub(crate) url: String,
}

impl Upstream {
    pub(crate) async fn start(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stderr(Stdio::null());
        let (child, url) = first_line(command).await;
        Self { _child: child, url }
    }
}

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("not within {PATIENCE:?}"))
}

/// Starts a program that ends with its owner; what it says first.
async fn first_line(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = within(lines.next_line()).await.unwrap();
    (child, line.unwrap_or_else(|| panic!("{command:?} ended without a word")))
}

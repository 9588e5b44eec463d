//! Programs that listen during a test: `toolcrib serve` and upstream servers.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::TestWorkspace;

/// A cold interpreter on a busy machine takes seconds. This only bounds a failure.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The `PATH` of started programs.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// `toolcrib serve` on its own port.
pub(crate) struct TestGateway {
    pub(crate) workspace: TestWorkspace,
    child: Child,
    /// Without a path.
    base_url: String,
}

const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--json"];

impl TestGateway {
    pub(crate) async fn start(workspace: TestWorkspace) -> Self {
        Self::start_with_args(workspace, &[]).await
    }

    /// With additional variables.
    pub(crate) async fn start_with_env(
        workspace: TestWorkspace,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = workspace.command(&SERVE);
        command.envs(environment.iter().copied());
        Self::start_command(command, workspace).await
    }

    /// With additional arguments.
    pub(crate) async fn start_with_args(workspace: TestWorkspace, more: &[&str]) -> Self {
        let args = [&SERVE, more].concat();
        Self::start_command(workspace.command(&args), workspace).await
    }

    async fn start_command(command: std::process::Command, workspace: TestWorkspace) -> Self {
        let mut command = Command::from(command);
        command.env("PATH", PATH).stdin(Stdio::null());
        let (child, line) = spawn_and_read_line(command).await;
        let ready: Value =
            serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line}"));
        let base_url = ready["url"].as_str().unwrap_or_else(|| panic!("{ready}")).to_owned();
        Self { workspace, child, base_url }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    /// The URL of the WebSocket endpoint.
    pub(crate) fn websocket_url(&self) -> String {
        self.url("/ws").replace("http:", "ws:")
    }

    /// Resident memory in kilobytes.
    pub(crate) fn resident_kilobytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id().unwrap());
        let status = std::fs::read_to_string(status).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn stop(mut self) {
        let pid = self.child.id().and_then(|pid| pid.try_into().ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = with_time_limit(self.child.wait()).await.unwrap();
        assert!(status.success(), "{status}");
    }
}

/// A server that prints its URL and ends with its standard input.
pub(crate) struct UpstreamProcess {
    _child: Child,
    pub(crate) url: String,
}

impl UpstreamProcess {
    pub(crate) async fn start(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stderr(Stdio::null());
        let (child, url) = spawn_and_read_line(command).await;
        Self { _child: child, url }
    }
}

pub(crate) async fn with_time_limit<F: Future>(future: F) -> F::Output {
    timeout(TIME_LIMIT, future).await.unwrap_or_else(|_| panic!("not within {TIME_LIMIT:?}"))
}

/// Starts a program that ends when dropped, and returns its first line.
async fn spawn_and_read_line(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = with_time_limit(lines.next_line()).await.unwrap();
    (child, line.unwrap_or_else(|| panic!("{command:?} ended without output")))
}

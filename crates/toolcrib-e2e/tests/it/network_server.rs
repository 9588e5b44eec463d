//! A server process with a network address. The process ends on drop.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Time limit for a cold start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct NetworkServer {
    _child: Child,
    origin: String,
}

impl NetworkServer {
    /// Starts a program that listens on `PORT` and does not report when.
    pub(crate) async fn start_on_port(program: &Path, args: &[&str]) -> Self {
        let port = free_port().await;
        let child = command(program, args)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let listening = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                // The server does not report when it listens, so poll it.
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(START_TIMEOUT, listening).await.unwrap();
        Self { _child: child, origin: format!("http://127.0.0.1:{port}") }
    }

    /// Starts a program that prints its address, `/mcp` included, as its first line and ends with its stdin.
    pub(crate) async fn start_reporting_address(program: &Path, args: &[&str]) -> Self {
        let mut child =
            command(program, args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = timeout(START_TIMEOUT, lines.next_line()).await.unwrap().unwrap().unwrap();
        let origin = address.trim().strip_suffix("/mcp").unwrap().to_owned();
        Self { _child: child, origin }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }
}

fn command(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stderr(Stdio::null()).kill_on_drop(true);
    command
}

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

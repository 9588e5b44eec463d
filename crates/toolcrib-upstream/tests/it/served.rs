//! A real server at an address: its process, which ends with it, and where it listens.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// A cold start on a busy machine; this only bounds a failure.
const START: Duration = Duration::from_secs(60);

pub(crate) struct Served {
    _child: Child,
    origin: String,
}

impl Served {
    /// A program that listens on the port in its environment, and does not tell when it does.
    pub(crate) async fn on_a_port(program: &Path, args: &[&str]) -> Self {
        let port = free_port().await;
        let child = command(program, args)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let listening = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                // It does not tell when it listens, so it is asked.
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(START, listening).await.unwrap();
        Self { _child: child, origin: format!("http://127.0.0.1:{port}") }
    }

    /// A program that says its address, `/mcp`, in its first line, and ends when its stdin does.
    pub(crate) async fn where_it_says(program: &Path, args: &[&str]) -> Self {
        let mut child =
            command(program, args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = timeout(START, lines.next_line()).await.unwrap().unwrap().unwrap();
        let origin = said.trim().strip_suffix("/mcp").unwrap().to_owned();
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

//! `server-everything` of npm, as a server at an address.

use std::process::Stdio;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use toolcrib::transport::{Incoming, Link};
use toolcrib_testkit::peers;
use toolcrib_wire::{Message, Packet};

use crate::remote::next;

/// A cold start of Node on a busy machine; this only bounds a failure.
const START: Duration = Duration::from_secs(60);

/// The server. Its process ends with it.
pub(crate) struct Everything {
    _child: Child,
    port: u16,
}

impl Everything {
    pub(crate) async fn start(transport: &str) -> Self {
        let program =
            peers::npm("@modelcontextprotocol/server-everything", "mcp-server-everything");
        let port = free_port().await;
        let child = Command::new(program.unwrap())
            .arg(transport)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let listening = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                // It does not tell when it listens, so it is asked.
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(START, listening).await.unwrap();
        Self { _child: child, port }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// How many tools the next answer lists. The server may have other things to say before.
    pub(crate) async fn tools(&self, link: &mut Link) -> usize {
        loop {
            match next(link).await {
                Incoming::Packet { packet: Packet::One(Message::Response(response)), .. } => {
                    let result = response.into_answer().unwrap();
                    return result.json().get("tools").unwrap().items().count();
                }
                Incoming::Packet { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

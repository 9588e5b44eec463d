//! `server-everything` of npm, as a server at an address.

use std::path::PathBuf;

use toolcrib_testkit::peers;
use toolcrib_upstream::transport::{Incoming, Link};
use toolcrib_wire::{Message, Packet};

use crate::remote::next;
use crate::served::Served;

pub(crate) fn program() -> PathBuf {
    peers::npm("@modelcontextprotocol/server-everything", "mcp-server-everything").unwrap()
}

/// The server. Its process ends with it.
pub(crate) struct Everything(Served);

impl Everything {
    pub(crate) async fn start(transport: &str) -> Self {
        Self(Served::on_a_port(&program(), &[transport]).await)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        self.0.url(path)
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

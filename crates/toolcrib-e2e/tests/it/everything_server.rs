//! The npm package `server-everything` as a network server.

use std::path::PathBuf;

use toolcrib_testkit::peers;
use toolcrib_upstream::transport::{Incoming, Link};
use toolcrib_wire::{Message, Packet};

use crate::link_fixture::next_incoming;
use crate::network_server::NetworkServer;

pub(crate) fn program() -> PathBuf {
    peers::npm_program("@modelcontextprotocol/server-everything", "mcp-server-everything").unwrap()
}

/// The running server. Its process ends on drop.
pub(crate) struct EverythingServer(NetworkServer);

impl EverythingServer {
    pub(crate) async fn start(transport: &str) -> Self {
        Self(NetworkServer::start_on_port(&program(), &[transport]).await)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        self.0.url(path)
    }

    /// Counts the tools in the next response. Other messages may come first.
    pub(crate) async fn count_tools(&self, link: &mut Link) -> usize {
        loop {
            match next_incoming(link).await {
                Incoming::Packet { packet: Packet::One(Message::Response(response)), .. } => {
                    let result = response.into_result().unwrap();
                    return result.json().get("tools").unwrap().items().count();
                }
                Incoming::Packet { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

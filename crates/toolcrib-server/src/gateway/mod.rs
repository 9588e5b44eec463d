//! One MCP server in front of all others: what a client sees is what its dialog sees.
//!
//! [`Gateway`] is the same for every client. A client is a [`Client`], which is a dialog of the host; its requests
//! are answered side by side, each on the stream that it came on. What a server asks within a call goes to the
//! client that made the call: as a request of its own in the legacy era, inside of an `input_required` result in the
//! modern one, while the call stays open in the host.

mod answer;
mod call;
mod caller;
mod changes;
mod client;
mod lists;
mod stream;

use std::sync::Arc;

use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite};
use toolcrib::Host;
use toolcrib_wire::Limits;
use toolcrib_wire::handshake::Implementation;

pub use client::Client;

use crate::front::Front;

/// What a client may send.
const LIMITS: Limits = Limits { size: 64 << 20, depth: 128, batch: 100 };

/// Messages that wait for a client; whoever has more waits, and only he.
const QUEUE: usize = 64;

/// The host as one server.
#[derive(Debug)]
pub struct Gateway {
    host: Host,
    server: Implementation,
}

impl Gateway {
    pub fn new(host: Host) -> Arc<Self> {
        let server = Implementation::new("toolcrib", env!("CARGO_PKG_VERSION"));
        Arc::new(Gateway { host, server })
    }

    /// Serves one client on a stream, one message a line, until its end. Its dialog is of that agent.
    pub async fn serve(
        self: &Arc<Self>,
        agent: &str,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> std::io::Result<()> {
        stream::serve(self, agent, input, output).await
    }
}

/// `/mcp` and what else clients may speak.
pub(crate) fn routes() -> Router<Arc<Front>> {
    Router::new()
}

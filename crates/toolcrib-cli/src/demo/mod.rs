//! A small MCP server in the binary, so that a first run needs no other server. It has every primitive in both protocol
//! eras.
//!
//! `respond` is pure: it turns a request into a [`request_action::RequestAction`], a result or the work that leads to
//! one. `server` performs the action. The transports `stdio` and `http` carry messages.

mod caller;
mod catalog;
mod client_session;
mod request_action;
mod resources;
mod respond;
mod server;
mod state;
mod tools;

pub(crate) mod http;
pub(crate) mod stdio;

pub(crate) use server::DemoServer;
pub(crate) use state::State;

use std::time::Duration;

use toolcrib_wire::MessageLimits;

/// The demo server needs no large messages.
const LIMITS: MessageLimits = MessageLimits { size: 4 << 20, depth: 128, batch: 100 };

/// Maximum number of messages that wait in one stream. A sender waits when the queue is full.
const QUEUE_CAPACITY: usize = 64;

/// Time limit for requests in flight at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

//! A small MCP server in the binary, so that a first run needs nothing else: every primitive, both eras.
//!
//! `respond` decides and does no IO: a request becomes [`work::Work`], which is an answer or what leads to one.
//! `hub` does the work, and the two shells, `stdio` and `http`, carry messages.

mod caller;
mod desk;
mod hub;
mod offer;
mod reading;
mod respond;
mod state;
mod tools;
mod work;

pub(crate) mod http;
pub(crate) mod stdio;

pub(crate) use hub::Hub;
pub(crate) use state::State;

use std::time::Duration;

use toolcrib_wire::Limits;

/// A demonstration needs no large messages.
const LIMITS: Limits = Limits { size: 4 << 20, depth: 128, batch: 100 };

/// Messages that wait to be sent on one stream; whoever has more waits.
const QUEUE: usize = 64;

/// How long what is under way may take to say goodbye.
const GRACE: Duration = Duration::from_secs(2);

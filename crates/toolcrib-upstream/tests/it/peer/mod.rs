//! Tests `Peer` with the scripted server over pipes, and with a manually driven server over an in-memory stream.

mod byte_stream;
mod calls;
mod fake_docker_engine;
mod server_failures;
mod server_messages;
mod stdio;

use crate::peer_fixture::*;

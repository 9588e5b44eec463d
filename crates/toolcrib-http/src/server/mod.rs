//! Server end: request heads, responses, connections and the threads that serve them.

mod busy_poll;
mod connection_io;
mod prefixed_stream;
mod request_head;
pub mod response_writer;
mod worker_threads;

pub use busy_poll::BusyPoll;
pub use connection_io::{ConnectionIo, ReadError, ReadOutcome};
pub use prefixed_stream::PrefixedStream;
pub use request_head::{AmbiguousHeader, HeaderBlock, ParsedHead, RequestFraming, parse_head};
pub use worker_threads::{ThreadSlot, WorkerThreads};

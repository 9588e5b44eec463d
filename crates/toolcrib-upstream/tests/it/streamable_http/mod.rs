//! Tests Streamable HTTP with a scripted server.

mod failures;
mod responses;
mod sessions;
mod token_renewal;

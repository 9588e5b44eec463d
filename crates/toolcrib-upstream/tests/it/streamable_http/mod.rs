//! Tests Streamable HTTP with a scripted and a real server.

mod responses;
mod failures;
mod real_server;
mod sessions;
mod token_renewal;

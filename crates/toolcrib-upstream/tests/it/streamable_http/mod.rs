//! Tests Streamable HTTP with a scripted and a real server.

mod failures;
mod real_server;
mod responses;
mod sessions;
mod token_renewal;

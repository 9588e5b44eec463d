//! Integration tests of the client for one server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot set its scene has failed"
)]

mod auth;
mod conformance;
mod conn;
mod everything_server;
mod peer;
mod third_party;
mod process;
mod link_fixture;
mod test_host;
mod secrets;
mod network_server;
mod sse;
mod streamable_http;
mod supervise;
mod tls;
mod torture;
mod websocket;

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
mod link_fixture;
mod network_server;
mod peer;
mod process;
mod secrets;
mod sse;
mod streamable_http;
mod streamable_http_reqwest;
mod supervise;
mod test_host;
mod third_party;
mod tls;
mod torture;
mod websocket;

//! Integration tests of the client for one server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot set its scene has failed"
)]

mod conn;
mod link_fixture;
mod peer;
mod peer_fixture;
mod process;
mod secrets;
mod secrets_fixture;
mod sse;
mod streamable_http;
mod streamable_http_reqwest;
mod supervise;
mod test_host;
mod tls;
mod websocket;

//! Behaviour of one upstream server through its public surface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot set its scene has failed"
)]

mod auth;
mod conformance;
mod conn;
mod everything;
mod peer;
mod peers;
mod process;
mod remote;
mod scene;
mod secrets;
mod served;
mod sse;
mod streamable_http;
mod supervise;
mod tls;
mod torture;
mod websocket;

//! Behaviour of the library through its public surface.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod everything;
mod peer;
mod process;
mod remote;
mod sse;
mod store;
mod streamable_http;
mod websocket;

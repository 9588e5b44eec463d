//! Tests of the library through its public API.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot prepare its fixture has failed"
)]

mod host;
mod public_api;
mod store;

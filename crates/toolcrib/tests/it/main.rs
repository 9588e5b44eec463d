//! Behaviour of the library through its public surface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot set its scene has failed"
)]

mod host;
mod store;

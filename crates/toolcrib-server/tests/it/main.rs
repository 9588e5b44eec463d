//! The gateway through a client's eyes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot set its scene has failed"
)]

mod api;
mod documents;
mod gateway;
mod http;
mod limits;
mod own_lists;
mod passed_on;
mod quick;
mod scene;
mod slow;
mod traces;
mod web;

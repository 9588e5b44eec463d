//! Integration tests of the gateway, the control API and the HTTP front.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test setup fails the test"
)]

mod api;
mod resources_and_prompts;
mod gateway;
mod http_transports;
mod limits;
mod dialog_lists;
mod passthrough;
mod keep_alive;
mod fixture;
mod slow_clients;
mod traces;
mod http_client;

//! Integration tests of the gateway, the control API and the HTTP front.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test setup fails the test")]

use toolcrib_config::model::host::HttpMode;

mod api;
mod dialog_lists;
mod fixture;
mod gateway;
mod http_client;
mod http_mode_hyper;
mod http_transports;
mod keep_alive;
mod limits;
mod passthrough;
mod resources_and_prompts;
mod slow_clients;
mod traces;

/// HTTP mode of the test modules here; `http_mode_hyper` runs some of them again in the other mode.
const HTTP_MODE: HttpMode = HttpMode::Auto;

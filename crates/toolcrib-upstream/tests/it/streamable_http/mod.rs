//! Tests Streamable HTTP with a scripted and a real server.

use toolcrib_config::model::host::HttpMode;

mod failures;
mod real_server;
mod responses;
mod sessions;
mod token_renewal;

const HTTP_MODE: HttpMode = HttpMode::Auto;

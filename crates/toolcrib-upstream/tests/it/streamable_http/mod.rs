//! Tests Streamable HTTP with a scripted server.

use toolcrib_config::model::host::HttpMode;

mod failures;
mod responses;
mod sessions;
mod token_renewal;

const HTTP_MODE: HttpMode = HttpMode::Auto;

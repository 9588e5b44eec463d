//! The Streamable HTTP tests again, with reqwest for every server (`gateway.http: hyper`).
#![expect(clippy::duplicate_mod, reason = "the same tests run in another HTTP mode")]

use toolcrib_config::model::host::HttpMode;

#[path = "../streamable_http/failures.rs"]
mod failures;
#[path = "../streamable_http/responses.rs"]
mod responses;
#[path = "../streamable_http/sessions.rs"]
mod sessions;
#[path = "../streamable_http/token_renewal.rs"]
mod token_renewal;

const HTTP_MODE: HttpMode = HttpMode::Hyper;

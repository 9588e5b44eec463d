//! HTTP tests again, with hyper for every connection (`gateway.http: hyper`).
//!
//! `keep_alive` is not among them: it tests guarantees of the fast path that hyper does not give, such as noticing a
//! disconnect behind pipelined input.
#![expect(clippy::duplicate_mod, reason = "the same tests run in another HTTP mode")]

use toolcrib_config::model::host::HttpMode;

#[path = "../http_transports.rs"]
mod http_transports;
#[path = "../limits.rs"]
mod limits;
#[path = "../slow_clients.rs"]
mod slow_clients;

const HTTP_MODE: HttpMode = HttpMode::Hyper;

//! The control API: thin handlers over the library, the same fields as the command line prints.
//!
//! `table.rs` lists every endpoint with its rights and shapes; `shape/` is what they take and answer; `fail.rs` is
//! the only place where an error becomes a status.

mod asked;
mod calls;
mod dialogs;
mod endpoint;
mod events;
mod fail;
mod host;
mod lists;
mod openapi;
pub(crate) mod scope;
mod servers;
mod settle;
pub mod shape;
mod table;
mod visits;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;

use crate::front::{Front, route};
use fail::Kind;

pub(crate) use fail::Fail;
pub use openapi::document as openapi;
pub(crate) use visits::Visits;

/// The API by itself, for a program that has a host and needs no network: requests carry a
/// [`Door`](crate::identity::Door) among their extensions.
pub fn router(front: &Arc<Front>) -> Router {
    let known = from_fn_with_state(Arc::clone(front), route::identify);
    Router::new().nest("/api/v1", routes()).layer(known).with_state(Arc::clone(front))
}

/// Everything below `/api/v1`.
pub(crate) fn routes() -> Router<Arc<Front>> {
    let router = table::endpoints().into_iter().fold(Router::new(), |router, it| it.add_to(router));
    router.fallback(unknown).method_not_allowed_fallback(not_so)
}

async fn unknown() -> Fail {
    Fail::new(Kind::NotFound, "endpoint.unknown", "there is no such endpoint")
}

async fn not_so() -> Fail {
    Fail::new(Kind::NotAllowed, "endpoint.method", "this endpoint has no such method")
}

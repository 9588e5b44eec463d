//! The control API: thin HTTP handlers over the library.
//!
//! The JSON fields are those that the command line prints. `endpoint_table.rs` lists every endpoint with its
//! permissions and schemas, `schema/` defines the bodies, and `error.rs` maps errors to statuses.

mod calls;
mod dialog_activity;
mod dialogs;
mod endpoint;
mod endpoint_table;
mod error;
mod events;
mod extract;
mod host;
mod list_wait;
mod lists;
mod openapi;
pub mod schema;
pub(crate) mod scope;
mod servers;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;

use crate::front::{Front, route};
use error::ApiErrorKind;

pub(crate) use dialog_activity::DialogActivity;
pub(crate) use error::ApiError;
pub use openapi::document as openapi;

/// The API without a network listener. Requests carry an [`EntryPoint`](crate::identity::EntryPoint) extension.
pub fn router(front: &Arc<Front>) -> Router {
    let known = from_fn_with_state(Arc::clone(front), route::identify_principal);
    Router::new().nest("/api/v1", routes()).layer(known).with_state(Arc::clone(front))
}

/// Routes below `/api/v1`.
pub(crate) fn routes() -> Router<Arc<Front>> {
    let router =
        endpoint_table::endpoints().into_iter().fold(Router::new(), |router, it| it.add_to(router));
    router.fallback(endpoint_not_found).method_not_allowed_fallback(method_not_allowed)
}

async fn endpoint_not_found() -> ApiError {
    ApiError::new(ApiErrorKind::NotFound, "endpoint.unknown", "unknown endpoint")
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(
        ApiErrorKind::MethodNotAllowed,
        "endpoint.method",
        "this endpoint does not support this method",
    )
}

//! The control API: thin handlers over the host.

use std::sync::Arc;

use axum::Router;

use crate::front::Front;

/// Everything below `/api/v1`.
pub(crate) fn routes() -> Router<Arc<Front>> {
    Router::new()
}

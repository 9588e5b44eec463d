//! Which path leads where, and who is let in.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::routing::get;

use super::reply::{self, Reply};
use super::{Front, pipe};
use crate::identity::{Door, gate};
use crate::{api, gateway};

/// Everything that is served.
pub(super) fn router(front: &Arc<Front>) -> Router {
    let known = Router::new()
        .merge(gateway::routes())
        .merge(pipe::routes())
        .nest("/api/v1", api::routes())
        .layer(from_fn_with_state(Arc::clone(front), identify));
    let open = Router::new().route("/healthz", get(alive)).route("/readyz", get(ready));
    known.merge(open).layer(from_fn(guard)).with_state(Arc::clone(front))
}

/// Pages of elsewhere are kept out, whoever shows them.
async fn guard(request: Request, next: Next) -> Reply {
    if !is_meant(&request) {
        let reason = "this server answers programs of this machine only";
        return reply::refuse(StatusCode::FORBIDDEN, reason);
    }
    next.run(request).await
}

fn is_meant(request: &Request) -> bool {
    let said = |name| text(request.headers(), name);
    request.extensions().get() == Some(&Door::Socket)
        || gate::admits(said(header::HOST), said(header::ORIGIN))
}

/// From here on it is known who asks.
pub(crate) async fn identify(
    State(front): State<Arc<Front>>,
    mut request: Request,
    next: Next,
) -> Reply {
    let door = request.extensions().get().copied().unwrap_or(Door::Tcp);
    match front.identity.who(request.headers(), door) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(refused) => reply::refuse(StatusCode::UNAUTHORIZED, &refused.to_string()),
    }
}

async fn alive() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn ready(State(front): State<Arc<Front>>) -> StatusCode {
    match front.host.is_ready() {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

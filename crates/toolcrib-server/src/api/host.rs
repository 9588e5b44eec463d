//! Handlers for the whole host: status, problems, definitions, reload and call history.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use super::error::{ApiError, ApiErrorKind};
use super::extract::{Authenticated, DialogHeader, JsonBody, QueryParams};
use super::list_wait::WaitMode;
use super::schema::{
    AcceptDefinitions, CallHistory, CallHistoryEntry, DefinitionChanges, HostStatus, ProblemList,
    ReloadReport,
};
use super::scope;
use super::servers::ServersQuery;
use crate::front::Front;

/// Maximum number of calls per page.
const MAX_PAGE: u32 = 1000;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct CallHistoryQuery {
    /// Only calls with a lower number.
    below: Option<u64>,
    /// Maximum number of calls; 100 by default.
    limit: Option<u32>,
}

pub(crate) async fn status(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    DialogHeader(header): DialogHeader,
    QueryParams(query): QueryParams<ServersQuery>,
) -> Result<Json<HostStatus>, ApiError> {
    if query.wait == Some(true) {
        let dialog = scope::resolve_dialog(&front, &principal, None, header).await?;
        WaitMode::AllServers.wait_for_turn(&dialog, |_| false).await;
    }
    let visible = front.visibility_for(&principal);
    let (figures, servers) = (
        scope::visible_stats(&front, &principal, &visible),
        scope::visible_servers(&front, &visible),
    );
    Ok(Json(HostStatus::new(&front.host, figures, &servers)))
}

pub(crate) async fn problems(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
) -> Json<ProblemList> {
    Json(ProblemList::new(scope::visible_problems(&front, &front.visibility_for(&principal))))
}

/// Lists tools whose definition has changed, for servers whose tools are listed.
pub(crate) async fn changed_definitions(
    State(front): State<Arc<Front>>,
) -> Json<DefinitionChanges> {
    Json(DefinitionChanges::new(front.host.changed_definitions().await))
}

pub(crate) async fn accept_definitions(
    State(front): State<Arc<Front>>,
    JsonBody(accept, _reservation): JsonBody<AcceptDefinitions>,
) -> Result<Json<DefinitionChanges>, ApiError> {
    let accepted = front.host.accept_definitions(accept.tool.as_deref()).await?;
    match (accepted.is_empty(), accept.tool) {
        (true, Some(tool)) => {
            let text = format!("no tool `{tool}` has changed since it was first seen or accepted");
            Err(ApiError::new(ApiErrorKind::NotFound, "definition.unchanged", text))
        }
        _ => Ok(Json(DefinitionChanges::new(accepted))),
    }
}

pub(crate) async fn reload(
    State(front): State<Arc<Front>>,
) -> Result<Json<ReloadReport>, ApiError> {
    let reload = front.host.reload().await.ok_or_else(ApiError::shutting_down)?;
    Ok(Json(ReloadReport::from(&*reload)))
}

/// Returns the newest reload report. The start of the host counts as a reload.
pub(crate) async fn last_reload(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
) -> Result<Json<ReloadReport>, ApiError> {
    let reload = front.host.last_reload().await.ok_or_else(ApiError::shutting_down)?;
    Ok(Json(ReloadReport::from(&front.visibility_for(&principal).filter_reload(&reload))))
}

pub(crate) async fn call_history(
    State(front): State<Arc<Front>>,
    QueryParams(query): QueryParams<CallHistoryQuery>,
) -> Result<Json<CallHistory>, ApiError> {
    let store = front.host.store();
    let limit = query.limit.unwrap_or(100).min(MAX_PAGE);
    let calls = store.calls(query.below, limit).await?.iter().map(CallHistoryEntry::from).collect();
    Ok(Json(CallHistory { calls }))
}

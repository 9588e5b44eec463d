//! Handlers for dialogs and their servers, leases, reminders and pending requests.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{Dialog, Lease};
use toolcrib_wire::RpcError;

use super::error::{ApiError, ApiErrorKind};
use super::extract::{Authenticated, JsonBody, PathParams, QueryParams};
use super::list_wait::WaitMode;
use super::schema::{
    AnswerReceipt, DialogList, DialogStatus, LeaseList, LeaseView, NewDialog, PendingRequestList,
    ReminderList, RequestAnswer, ServerSwitch, ServerSwitchResult, ToolList,
};
use super::{lists, scope};
use crate::front::Front;
use crate::identity::Principal;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct DialogToolsQuery {
    /// Only the tools of this server.
    server: Option<String>,
    wait: Option<bool>,
}

pub(crate) async fn create(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    JsonBody(new, _reservation): JsonBody<NewDialog>,
) -> Result<Response, ApiError> {
    front.host.wait_until_ready().await;
    let dialog = scope::create_dialog(&front, &principal, new).await?;
    let status = status(&front, &principal, &dialog);
    Ok((StatusCode::CREATED, Json(status)).into_response())
}

pub(crate) async fn list(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
) -> Json<DialogList> {
    let all = front.host.dialogs();
    let own = all.iter().filter(|dialog| scope::may_use_dialog(dialog, &principal));
    Json(DialogList { dialogs: own.map(|dialog| status(&front, &principal, dialog)).collect() })
}

/// Status of a dialog under its name for the principal, with the servers visible to the dialog's agent. The owner sees
/// all servers.
fn status(front: &Front, principal: &Principal, dialog: &Dialog) -> DialogStatus {
    let servers = scope::visible_servers(front, &front.visibility_as(principal, dialog.agent()));
    let id = principal.dialog_name(dialog.id());
    DialogStatus { id, ..DialogStatus::for_dialog(dialog, &servers) }
}

pub(crate) async fn get(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
) -> Result<Json<DialogStatus>, ApiError> {
    let dialog = scope::require_dialog(&front, &principal, &id)?;
    Ok(Json(status(&front, &principal, &dialog)))
}

pub(crate) async fn delete(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    scope::require_dialog(&front, &principal, &id)?.close().await;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn tools(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<DialogToolsQuery>,
) -> Result<Json<ToolList>, ApiError> {
    let dialog = scope::require_dialog(&front, &principal, &id)?;
    let wait = WaitMode::from_query(query.wait);
    lists::list_tools(&front, &principal, &dialog, query.server.as_deref(), wait).await.map(Json)
}

/// Switches a server for one dialog. The switch applies from the next snapshot on and lasts as long as the dialog.
pub(crate) async fn switch_server(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams((id, server)): PathParams<(String, String)>,
    JsonBody(switch, _reservation): JsonBody<ServerSwitch>,
) -> Result<Json<ServerSwitchResult>, ApiError> {
    let dialog = scope::require_dialog(&front, &principal, &id)?;
    let find = || {
        let servers = status(&front, &principal, &dialog).servers;
        servers.into_iter().find(|it| it.id == server || it.key == server)
    };
    if find().is_some() {
        dialog.set_switch(&server, switch.enabled).await?;
    }
    let found = find();
    let unknown = || {
        ApiError::new(
            ApiErrorKind::NotFound,
            "server.unknown",
            format!("unknown server `{server}`"),
        )
    };
    Ok(Json(ServerSwitchResult { server: found.ok_or_else(unknown)? }))
}

pub(crate) async fn leases(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
) -> Result<Json<LeaseList>, ApiError> {
    let leases = scope::require_dialog(&front, &principal, &id)?.leases();
    let shown = |lease: &Lease| LeaseView {
        dialog: principal.dialog_name(lease.dialog.as_ref()),
        ..LeaseView::from(lease)
    };
    Ok(Json(LeaseList { leases: leases.iter().map(shown).collect() }))
}

pub(crate) async fn release_lease(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams((id, server)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    match scope::require_dialog(&front, &principal, &id)?.release_lease(&server) {
        true => Ok(StatusCode::NO_CONTENT),
        false => {
            let text = format!("this dialog has no lease of `{server}`");
            Err(ApiError::new(ApiErrorKind::NotFound, "lease.unknown", text))
        }
    }
}

pub(crate) async fn reminders(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
) -> Result<Json<ReminderList>, ApiError> {
    let reminders = scope::require_dialog(&front, &principal, &id)?.reminders();
    Ok(Json(ReminderList { reminders: reminders.into_iter().map(Into::into).collect() }))
}

pub(crate) async fn requests(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
) -> Result<Json<PendingRequestList>, ApiError> {
    let waiting = scope::require_dialog(&front, &principal, &id)?.pending_requests();
    Ok(Json(PendingRequestList { requests: waiting.into_iter().map(Into::into).collect() }))
}

pub(crate) async fn answer_request(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams((id, request)): PathParams<(String, u64)>,
    JsonBody(answer, _reservation): JsonBody<RequestAnswer>,
) -> Result<Json<AnswerReceipt>, ApiError> {
    let dialog = scope::require_dialog(&front, &principal, &id)?;
    let answer = match (answer.result, answer.error) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => Err(RpcError::new(error.code, error.message)),
        _ => {
            return Err(ApiError::bad_request(
                "a response must contain either `result` or `error`",
            ));
        }
    };
    match dialog.answer_request(request, answer) {
        true => Ok(Json(AnswerReceipt { ok: true })),
        false => {
            let text = format!("no pending request {request}");
            Err(ApiError::new(ApiErrorKind::NotFound, "request.unknown", text))
        }
    }
}

//! Handlers for servers: status, log, and operations.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolcrib::{ServerOperationError, ServerStatus};

use super::error::ApiError;
use super::extract::{Authenticated, DialogHeader, JsonBody, PathParams, QueryParams};
use super::list_wait::WaitMode;
use super::schema::{OperationResult, ServerList, ServerLog, ServerView};
use super::scope;
use crate::front::Front;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct ServersQuery {
    /// `true`: waits until each server has listed its items or has failed once.
    pub(super) wait: Option<bool>,
}

/// A native server entry with its id.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct NewServer {
    id: String,
    #[serde(flatten)]
    entry: Map<String, Value>,
}

pub(crate) async fn list(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    DialogHeader(header): DialogHeader,
    QueryParams(query): QueryParams<ServersQuery>,
) -> Result<Json<ServerList>, ApiError> {
    if query.wait == Some(true) {
        let dialog = scope::resolve_dialog(&front, &principal, None, header).await?;
        WaitMode::AllServers.wait_for_turn(&dialog, |_| false).await;
    }
    let servers = scope::visible_servers(&front, &front.visibility_for(&principal));
    let servers = servers.iter().map(ServerView::from).collect();
    Ok(Json(ServerList { version: front.host.snapshot_version(), servers }))
}

pub(crate) async fn get(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
) -> Result<Json<ServerView>, ApiError> {
    front.host.wait_until_ready().await;
    Ok(Json(ServerView::from(&scope::visible_server(
        &front,
        &front.visibility_for(&principal),
        &id,
    )?)))
}

pub(crate) async fn log(
    State(front): State<Arc<Front>>,
    PathParams(id): PathParams<String>,
) -> Result<Json<ServerLog>, ApiError> {
    let server = find_server(&front, &id).await?;
    Ok(Json(ServerLog { server: server.spec.id.clone(), log: server.stderr }))
}

/// Adds a server that exists until the host closes.
pub(crate) async fn add(
    State(front): State<Arc<Front>>,
    JsonBody(new, _reservation): JsonBody<NewServer>,
) -> Result<Response, ApiError> {
    front.host.wait_until_ready().await;
    front.host.add_server(&new.id, &Value::Object(new.entry).to_string()).await?;
    let added = ServerView::from(&front.host.server(&new.id)?);
    Ok((StatusCode::CREATED, Json(added)).into_response())
}

pub(crate) async fn remove(
    State(front): State<Arc<Front>>,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    let server = find_server(&front, &id).await?;
    front.host.remove_server(&server.key).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn connect(
    State(front): State<Arc<Front>>,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    let server = find_server(&front, &id).await?;
    let done = front.host.connect_server(&server.key).await;
    operation_response(&front, &server, done)
}

pub(crate) async fn disconnect(
    State(front): State<Arc<Front>>,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    let server = find_server(&front, &id).await?;
    let done = front.host.disconnect_server(&server.key).await;
    operation_response(&front, &server, done)
}

pub(crate) async fn restart(
    State(front): State<Arc<Front>>,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    let server = find_server(&front, &id).await?;
    let done = front.host.restart_server(&server.key).await;
    operation_response(&front, &server, done)
}

pub(crate) async fn refresh(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    front.host.wait_until_ready().await;
    let server = scope::visible_server(&front, &front.visibility_for(&principal), &id)?;
    let done = front.host.refresh_server(&server.key).await;
    operation_response(&front, &server, done)
}

pub(crate) async fn enable(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    let server = find_server(&front, &id).await?;
    let done = front.host.enable_server(&server.key, &principal.name).await;
    operation_response(&front, &server, done)
}

pub(crate) async fn disable(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    let server = find_server(&front, &id).await?;
    let done = front.host.disable_server(&server.key, &principal.name).await;
    operation_response(&front, &server, done)
}

/// Finds a server by id or key, after the first configuration is loaded.
async fn find_server(front: &Front, name: &str) -> Result<ServerStatus, ApiError> {
    front.host.wait_until_ready().await;
    Ok(front.host.server(name)?)
}

/// The response contains the resulting status of the server, whether the operation succeeded or not.
fn operation_response(
    front: &Front,
    before: &ServerStatus,
    done: Result<(), ServerOperationError>,
) -> Result<Response, ApiError> {
    let now = front.host.server(&before.key);
    let server = ServerView::from(now.as_ref().unwrap_or(before));
    let api_error = done.err().map(ApiError::from);
    let status = api_error.as_ref().map_or(StatusCode::OK, |api_error| api_error.status);
    let result = OperationResult {
        ok: api_error.is_none(),
        server,
        error: api_error.map(|api_error| *api_error.body),
    };
    Ok((status, Json(result)).into_response())
}

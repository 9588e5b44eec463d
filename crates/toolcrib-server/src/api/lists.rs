//! Handlers for tools, access explanations, resources and prompts of an agent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{Dialog, Turn};
use toolcrib_upstream::conn;
use toolcrib_wire::{ObjectWriter, RawJson};

use super::error::ApiError;
use super::extract::{Authenticated, DialogHeader, JsonBody, PathParams, QueryParams};
use super::list_wait::{WaitMode, is_server_settled};
use super::schema::{
    AccessReport, PromptArguments, PromptList, PromptListItem, ResourceList, ResourceListItem,
    ResourceTemplateListItem, ToolList, ToolListItem,
};
use super::scope;
use crate::front::Front;
use crate::front::response::{self, HttpResponse};
use crate::identity::Principal;

/// Selects the tools, and how long to wait for them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct ToolsQuery {
    /// Only the tools of this server.
    server: Option<String>,
    agent: Option<String>,
    dialog: Option<String>,
    /// `true`: waits until each server has listed its tools or has failed once; `false`: returns what is known now.
    wait: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    agent: Option<String>,
    dialog: Option<String>,
    wait: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ExplainQuery {
    tool: String,
    agent: Option<String>,
    dialog: Option<String>,
    wait: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ReadQuery {
    uri: String,
    /// Selects the server if several have the URI.
    server: Option<String>,
    agent: Option<String>,
    dialog: Option<String>,
    wait: Option<bool>,
}

pub(crate) async fn tools(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    DialogHeader(header): DialogHeader,
    QueryParams(query): QueryParams<ToolsQuery>,
) -> Result<Json<ToolList>, ApiError> {
    let dialog =
        scope::resolve_dialog(&front, &principal, query.agent.as_deref(), query.dialog.or(header))
            .await?;
    list_tools(
        &front,
        &principal,
        &dialog,
        query.server.as_deref(),
        WaitMode::from_query(query.wait),
    )
    .await
    .map(Json)
}

/// Lists the tools that a dialog sees, of one server or of all.
pub(crate) async fn list_tools(
    front: &Front,
    principal: &Principal,
    dialog: &Dialog,
    server: Option<&str>,
    wait: WaitMode,
) -> Result<ToolList, ApiError> {
    let host = &front.host;
    let visible = || front.visibility_as(principal, dialog.agent());
    // Invisible servers must wait no longer than unknown ones, so that they cannot be told apart.
    let is_enough = |turn: &Turn| {
        server.is_some_and(|name| {
            is_server_settled(host, turn, name) || (turn.version() > 0 && !visible().includes(name))
        })
    };
    let turn = wait.wait_for_turn(dialog, is_enough).await;
    let mut tools = turn.tools();
    if let Some(name) = server {
        let key = scope::visible_server(front, &visible(), name)?.key;
        tools.retain(|tool| tool.server().is_some_and(|of| of.key == key));
    }
    Ok(ToolList {
        version: turn.version(),
        tools: tools.iter().map(|tool| ToolListItem::from(&**tool)).collect(),
        problems: scope::visible_problems(front, &visible()),
    })
}

pub(crate) async fn explain(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    DialogHeader(header): DialogHeader,
    QueryParams(query): QueryParams<ExplainQuery>,
) -> Result<Json<AccessReport>, ApiError> {
    let dialog =
        scope::resolve_dialog(&front, &principal, query.agent.as_deref(), query.dialog.or(header))
            .await?;
    // A tool may be cached from an earlier run while its server is still connecting.
    let seen = |turn: &Turn| {
        turn.explain_tool(&query.tool)
            .for_viewer(&front.visibility_as(&principal, dialog.agent()), &query.tool)
    };
    let is_enough = |turn: &Turn| {
        let why = seen(turn);
        let server = why.server.as_deref().and_then(|key| front.host.server(key).ok());
        why.gates.is_some()
            && why.dropped_reason.is_none()
            && server.is_none_or(|server| server.state != conn::ServerState::Connecting)
    };
    let turn = WaitMode::from_query(query.wait).wait_for_turn(&dialog, is_enough).await;
    Ok(Json(AccessReport::new(&seen(&turn), dialog.agent())))
}

pub(crate) async fn resources(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    DialogHeader(header): DialogHeader,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<Json<ResourceList>, ApiError> {
    let dialog =
        scope::resolve_dialog(&front, &principal, query.agent.as_deref(), query.dialog.or(header))
            .await?;
    let turn = WaitMode::from_query(query.wait).wait_for_turn(&dialog, |_| false).await;
    Ok(Json(ResourceList {
        version: turn.version(),
        resources: turn.resources().iter().map(|it| ResourceListItem::from(&**it)).collect(),
        templates: turn
            .templates()
            .iter()
            .map(|it| ResourceTemplateListItem::from(&**it))
            .collect(),
    }))
}

/// Returns the result of `resources/read` byte for byte.
pub(crate) async fn read_resource(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    DialogHeader(header): DialogHeader,
    QueryParams(query): QueryParams<ReadQuery>,
) -> Result<HttpResponse, ApiError> {
    let dialog =
        scope::resolve_dialog(&front, &principal, query.agent.as_deref(), query.dialog.or(header))
            .await?;
    let is_listed = |turn: &Turn| {
        query.server.is_none() && turn.resources().iter().any(|it| it.uri() == query.uri)
    };
    let turn = WaitMode::from_query(query.wait).wait_for_turn(&dialog, is_listed).await;
    let read = turn.read_resource(&query.uri, query.server.as_deref()).await;
    read.map(|raw| response::json(StatusCode::OK, &raw)).map_err(|error| ApiError::from(&error))
}

pub(crate) async fn prompts(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    DialogHeader(header): DialogHeader,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<Json<PromptList>, ApiError> {
    let dialog =
        scope::resolve_dialog(&front, &principal, query.agent.as_deref(), query.dialog.or(header))
            .await?;
    let turn = WaitMode::from_query(query.wait).wait_for_turn(&dialog, |_| false).await;
    let prompts = turn.prompts().iter().map(|it| PromptListItem::from(&**it)).collect();
    Ok(Json(PromptList { version: turn.version(), prompts }))
}

/// Returns the result of `prompts/get` byte for byte.
pub(crate) async fn get_prompt(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    DialogHeader(header): DialogHeader,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<ListQuery>,
    JsonBody(sent, _held): JsonBody<PromptArguments>,
) -> Result<HttpResponse, ApiError> {
    let dialog =
        scope::resolve_dialog(&front, &principal, query.agent.as_deref(), query.dialog.or(header))
            .await?;
    let is_listed = |turn: &Turn| turn.prompts().iter().any(|it| it.name() == name);
    let turn = WaitMode::from_query(query.wait).wait_for_turn(&dialog, is_listed).await;
    let got = turn.get_prompt(&name, arguments_json(&sent)).await;
    got.map(|raw| response::json(StatusCode::OK, &raw)).map_err(|error| ApiError::from(&error))
}

fn arguments_json(sent: &PromptArguments) -> RawJson {
    let empty = ObjectWriter::new();
    sent.arguments.iter().fold(empty, |writer, (name, text)| writer.string(name, text)).finish()
}

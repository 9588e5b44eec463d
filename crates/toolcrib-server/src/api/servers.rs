//! Servers: how they are, and what can be done to one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolcrib::ServerStatus;
use toolcrib::host::OpError;

use super::asked::{At, Header, Said, Sent, Who};
use super::fail::Fail;
use super::scope;
use super::settle::Wait;
use super::shape::{Log, Operated, ServerShape, Servers};
use crate::front::Front;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct ServersAsked {
    /// `true`: until each server has told what it offers or has failed once.
    pub(super) wait: Option<bool>,
}

/// A native server entry, with its id.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct NewServer {
    id: String,
    #[serde(flatten)]
    entry: Map<String, Value>,
}

pub(crate) async fn list(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    Header(header): Header,
    Said(asked): Said<ServersAsked>,
) -> Result<Json<Servers>, Fail> {
    if asked.wait == Some(true) {
        let dialog = scope::dialog(&front, &who, None, header).await?;
        Wait::All.turn(&dialog, |_| false).await;
    }
    let servers = scope::servers(&front, &front.visible_to(&who));
    let servers = servers.iter().map(ServerShape::from).collect();
    Ok(Json(Servers { version: front.host.version(), servers }))
}

pub(crate) async fn one(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
) -> Result<Json<ServerShape>, Fail> {
    front.host.ready().await;
    Ok(Json(ServerShape::from(&scope::server(&front, &front.visible_to(&who), &id)?)))
}

pub(crate) async fn log(
    State(front): State<Arc<Front>>,
    At(id): At<String>,
) -> Result<Json<Log>, Fail> {
    let server = there(&front, &id).await?;
    Ok(Json(Log { server: server.spec.id.clone(), log: server.stderr }))
}

/// It lives until the host ends.
pub(crate) async fn add(
    State(front): State<Arc<Front>>,
    Sent(new, _held): Sent<NewServer>,
) -> Result<Response, Fail> {
    front.host.ready().await;
    front.host.add(&new.id, &Value::Object(new.entry).to_string()).await?;
    let added = ServerShape::from(&front.host.server(&new.id)?);
    Ok((StatusCode::CREATED, Json(added)).into_response())
}

pub(crate) async fn remove(
    State(front): State<Arc<Front>>,
    At(id): At<String>,
) -> Result<StatusCode, Fail> {
    let server = there(&front, &id).await?;
    front.host.remove(&server.key).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn connect(
    State(front): State<Arc<Front>>,
    At(id): At<String>,
) -> Result<Response, Fail> {
    let server = there(&front, &id).await?;
    let done = front.host.connect(&server.key).await;
    operated(&front, &server, done)
}

pub(crate) async fn disconnect(
    State(front): State<Arc<Front>>,
    At(id): At<String>,
) -> Result<Response, Fail> {
    let server = there(&front, &id).await?;
    let done = front.host.disconnect(&server.key).await;
    operated(&front, &server, done)
}

pub(crate) async fn restart(
    State(front): State<Arc<Front>>,
    At(id): At<String>,
) -> Result<Response, Fail> {
    let server = there(&front, &id).await?;
    let done = front.host.restart(&server.key).await;
    operated(&front, &server, done)
}

pub(crate) async fn refresh(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
) -> Result<Response, Fail> {
    front.host.ready().await;
    let server = scope::server(&front, &front.visible_to(&who), &id)?;
    let done = front.host.refresh(&server.key).await;
    operated(&front, &server, done)
}

pub(crate) async fn enable(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
) -> Result<Response, Fail> {
    let server = there(&front, &id).await?;
    let done = front.host.enable(&server.key, &who.name).await;
    operated(&front, &server, done)
}

pub(crate) async fn disable(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
) -> Result<Response, Fail> {
    let server = there(&front, &id).await?;
    let done = front.host.disable(&server.key, &who.name).await;
    operated(&front, &server, done)
}

/// A server by its id or key, once it is known which there are.
async fn there(front: &Front, name: &str) -> Result<ServerStatus, Fail> {
    front.host.ready().await;
    Ok(front.host.server(name)?)
}

/// How the server is afterwards belongs to the answer, whether it was done or not.
fn operated(
    front: &Front,
    before: &ServerStatus,
    done: Result<(), OpError>,
) -> Result<Response, Fail> {
    let now = front.host.server(&before.key);
    let server = ServerShape::from(now.as_ref().unwrap_or(before));
    let fail = done.err().map(Fail::from);
    let status = fail.as_ref().map_or(StatusCode::OK, |fail| fail.status);
    let told = Operated { ok: fail.is_none(), server, error: fail.map(|fail| *fail.fault) };
    Ok((status, Json(told)).into_response())
}

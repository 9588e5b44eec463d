//! The host as a whole.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use super::asked::{Header, Said, Who};
use super::fail::Fail;
use super::scope;
use super::servers::ServersAsked;
use super::settle::Wait;
use super::shape::{Called, Calls, HostStatus, Problems, Reloaded};
use crate::front::Front;

/// Records that are told at a time.
const PAGE: u32 = 1000;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct CallsAsked {
    /// Only those with a lower number.
    below: Option<u64>,
    /// 100 where nothing is said.
    limit: Option<u32>,
}

pub(crate) async fn status(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    Header(header): Header,
    Said(asked): Said<ServersAsked>,
) -> Result<Json<HostStatus>, Fail> {
    if asked.wait == Some(true) {
        let dialog = scope::dialog(&front, &who, None, header).await?;
        Wait::All.turn(&dialog, |_| false).await;
    }
    Ok(Json(HostStatus::of(&front.host)))
}

pub(crate) async fn problems(State(front): State<Arc<Front>>) -> Json<Problems> {
    Json(Problems::of(front.host.problems()))
}

pub(crate) async fn reload(State(front): State<Arc<Front>>) -> Result<Json<Reloaded>, Fail> {
    let reload = front.host.reload().await.ok_or_else(Fail::ending)?;
    Ok(Json(Reloaded::from(&*reload)))
}

/// The newest one; starting is a reload from nothing.
pub(crate) async fn last_reload(State(front): State<Arc<Front>>) -> Result<Json<Reloaded>, Fail> {
    let reload = front.host.last_reload().await.ok_or_else(Fail::ending)?;
    Ok(Json(Reloaded::from(&*reload)))
}

pub(crate) async fn calls(
    State(front): State<Arc<Front>>,
    Said(asked): Said<CallsAsked>,
) -> Result<Json<Calls>, Fail> {
    let store = front.host.store();
    let limit = asked.limit.unwrap_or(100).min(PAGE);
    let calls = store.calls(asked.below, limit).await?.iter().map(Called::from).collect();
    Ok(Json(Calls { calls }))
}

//! The host as a whole.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use super::asked::{Header, Said, Sent, Who};
use super::fail::{Fail, Kind};
use super::scope;
use super::servers::ServersAsked;
use super::settle::Wait;
use super::shape::{Accept, Called, Calls, Definitions, HostStatus, Problems, Reloaded};
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
    let visible = front.visible_to(&who);
    let (figures, servers) =
        (scope::figures(&front, &who, &visible), scope::servers(&front, &visible));
    Ok(Json(HostStatus::of(&front.host, figures, &servers)))
}

pub(crate) async fn problems(State(front): State<Arc<Front>>, Who(who): Who) -> Json<Problems> {
    Json(Problems::of(scope::problems(&front, &front.visible_to(&who))))
}

/// What has changed of tools, as far as their servers have listed them.
pub(crate) async fn definitions(State(front): State<Arc<Front>>) -> Json<Definitions> {
    Json(Definitions::of(front.host.changed_definitions().await))
}

pub(crate) async fn accept(
    State(front): State<Arc<Front>>,
    Sent(accept, _held): Sent<Accept>,
) -> Result<Json<Definitions>, Fail> {
    let accepted = front.host.accept(accept.tool.as_deref()).await?;
    match (accepted.is_empty(), accept.tool) {
        (true, Some(tool)) => {
            let text = format!("no tool `{tool}` has changed since it was first seen or accepted");
            Err(Fail::new(Kind::NotFound, "definition.unchanged", text))
        }
        _ => Ok(Json(Definitions::of(accepted))),
    }
}

pub(crate) async fn reload(State(front): State<Arc<Front>>) -> Result<Json<Reloaded>, Fail> {
    let reload = front.host.reload().await.ok_or_else(Fail::ending)?;
    Ok(Json(Reloaded::from(&*reload)))
}

/// The newest one; starting is a reload from nothing.
pub(crate) async fn last_reload(
    State(front): State<Arc<Front>>,
    Who(who): Who,
) -> Result<Json<Reloaded>, Fail> {
    let reload = front.host.last_reload().await.ok_or_else(Fail::ending)?;
    Ok(Json(Reloaded::from(&front.visible_to(&who).reload(&reload))))
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

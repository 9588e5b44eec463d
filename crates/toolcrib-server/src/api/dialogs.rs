//! Dialogs, and what belongs to one: servers, leases, reminders, questions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{Dialog, Lease};
use toolcrib_wire::RpcError;

use super::asked::{At, Said, Sent, Who};
use super::fail::{Fail, Kind};
use super::settle::Wait;
use super::shape::{
    Answer, Answered, DialogStatus, Dialogs, Leased, Leases, NewDialog, Reminders, Requests,
    Switch, Switched, Tools,
};
use super::{lists, scope};
use crate::front::Front;
use crate::identity::Principal;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct DialogTools {
    /// Only those of one server.
    server: Option<String>,
    wait: Option<bool>,
}

pub(crate) async fn create(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    Sent(new, _held): Sent<NewDialog>,
) -> Result<Response, Fail> {
    front.host.ready().await;
    let dialog = scope::create(&front, &who, new).await?;
    let status = status(&front, &who, &dialog);
    Ok((StatusCode::CREATED, Json(status)).into_response())
}

pub(crate) async fn list(State(front): State<Arc<Front>>, Who(who): Who) -> Json<Dialogs> {
    let all = front.host.dialogs();
    let own = all.iter().filter(|dialog| scope::is_of(dialog, &who));
    Json(Dialogs { dialogs: own.map(|dialog| status(&front, &who, dialog)).collect() })
}

/// A dialog under the name that the principal gave it, with the servers that its agent has a grant on. The owner
/// sees all servers.
fn status(front: &Front, who: &Principal, dialog: &Dialog) -> DialogStatus {
    let servers = scope::servers(front, &front.visible_as(who, dialog.agent()));
    let id = who.dialog_name(dialog.id());
    DialogStatus { id, ..DialogStatus::of(dialog, &servers) }
}

pub(crate) async fn one(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
) -> Result<Json<DialogStatus>, Fail> {
    let dialog = scope::own(&front, &who, &id)?;
    Ok(Json(status(&front, &who, &dialog)))
}

pub(crate) async fn end(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
) -> Result<StatusCode, Fail> {
    scope::own(&front, &who, &id)?.end().await;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn tools(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
    Said(asked): Said<DialogTools>,
) -> Result<Json<Tools>, Fail> {
    let dialog = scope::own(&front, &who, &id)?;
    let wait = Wait::of(asked.wait);
    lists::listed(&front, &who, &dialog, asked.server.as_deref(), wait).await.map(Json)
}

/// Takes effect with the next turn, and is kept for as long as the dialog.
pub(crate) async fn switch(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At((id, server)): At<(String, String)>,
    Sent(switch, _held): Sent<Switch>,
) -> Result<Json<Switched>, Fail> {
    let dialog = scope::own(&front, &who, &id)?;
    let find = || {
        let servers = status(&front, &who, &dialog).servers;
        servers.into_iter().find(|it| it.id == server || it.key == server)
    };
    if find().is_some() {
        dialog.switch(&server, switch.enabled).await?;
    }
    let found = find();
    let gone = || Fail::new(Kind::NotFound, "server.unknown", format!("no server `{server}`"));
    Ok(Json(Switched { server: found.ok_or_else(gone)? }))
}

pub(crate) async fn leases(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
) -> Result<Json<Leases>, Fail> {
    let held = scope::own(&front, &who, &id)?.leases();
    let shown = |lease: &Lease| Leased {
        dialog: who.dialog_name(lease.dialog.as_ref()),
        ..Leased::from(lease)
    };
    Ok(Json(Leases { leases: held.iter().map(shown).collect() }))
}

pub(crate) async fn release(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At((id, server)): At<(String, String)>,
) -> Result<StatusCode, Fail> {
    match scope::own(&front, &who, &id)?.release(&server) {
        true => Ok(StatusCode::NO_CONTENT),
        false => {
            let text = format!("this dialog has no lease of `{server}`");
            Err(Fail::new(Kind::NotFound, "lease.unknown", text))
        }
    }
}

pub(crate) async fn reminders(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
) -> Result<Json<Reminders>, Fail> {
    let reminders = scope::own(&front, &who, &id)?.reminders();
    Ok(Json(Reminders { reminders: reminders.into_iter().map(Into::into).collect() }))
}

pub(crate) async fn requests(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
) -> Result<Json<Requests>, Fail> {
    let waiting = scope::own(&front, &who, &id)?.questions();
    Ok(Json(Requests { requests: waiting.into_iter().map(Into::into).collect() }))
}

pub(crate) async fn answer(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At((id, request)): At<(String, u64)>,
    Sent(answer, _held): Sent<Answer>,
) -> Result<Json<Answered>, Fail> {
    let dialog = scope::own(&front, &who, &id)?;
    let answer = match (answer.result, answer.error) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => Err(RpcError::new(error.code, error.message)),
        _ => return Err(Fail::bad("an answer has either `result` or `error`")),
    };
    match dialog.answer(request, answer) {
        true => Ok(Json(Answered { ok: true })),
        false => {
            let text = format!("nobody waits for an answer to request {request}");
            Err(Fail::new(Kind::NotFound, "request.unknown", text))
        }
    }
}

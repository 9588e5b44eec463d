//! One call of a dialog: waited for, followed as a stream, or started and looked at later.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib::host::{Besides, Execution, OpError};
use toolcrib::shape::{ErrorKind, Facts, arguments};
use toolcrib::{CallError, CallRequest, Dialog, Tool};
use toolcrib_upstream::conn::FailureKind;
use toolcrib_upstream::conn::peer::{Receiver, Remark, mailbox};
use toolcrib_wire::{Json, Limits, ObjectWriter, Raw, SseEvent};

use super::asked::{ARGUMENTS_DEPTH, At, Said, Sent, Who};
use super::fail::{Fail, Kind};
use super::scope;
use super::settle::{Wait, is_up};
use super::shape::{CallStarted, Extra, NewCall, Reported};
use crate::front::Front;
use crate::front::reply;
use crate::lines::LIMITS;

/// Remarks that wait for a client; then the oldest are dropped.
const REMARKS: usize = 4096;

/// Events that wait to be written.
const EVENTS: usize = 64;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct CallAsked {
    /// `false`: the answer is the call's number, and the call goes on.
    wait: Option<bool>,
}

/// Whoever goes away before the end cancels the call, unless he said that it is to go on.
pub(crate) async fn make(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At(id): At<String>,
    Said(asked): Said<CallAsked>,
    headers: HeaderMap,
    Sent(mut new, held): Sent<NewCall>,
) -> Result<Response, Fail> {
    let dialog = scope::own(&front, &who, &id)?;
    // The call may go on after its request has ended.
    new.arguments = new.arguments.map(|arguments| arguments.holding(held.into_held()));
    let with = new.with.clone();
    let wants_events = wants_events(&headers);
    let (told, remarks) = mailbox(REMARKS);
    let request = match prepared(&dialog, new).await {
        Ok(mut request) => {
            request.besides.remarks = wants_events.then_some(told);
            request
        }
        Err(unmade) if wants_events => return Ok(stream_of(&unmade, &with)),
        Err(unmade) => return Ok(report(&unmade, &with)),
    };
    let call = dialog.start(request).map_err(|error| Fail::from(&error))?;
    if wants_events {
        return Ok(stream(Underway::new(dialog, call), remarks, with));
    }
    if asked.wait == Some(false) {
        return Ok((StatusCode::ACCEPTED, axum::Json(CallStarted { call })).into_response());
    }
    let ended = Underway::new(dialog, call).end().await;
    Ok(report(&ended.ok_or_else(cancelled)?, &with))
}

/// How a call ended, or that it goes on.
pub(crate) async fn look(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At((id, call)): At<(String, u64)>,
) -> Result<Response, Fail> {
    let dialog = scope::own(&front, &who, &id)?;
    match dialog.poll(call) {
        Some(done) => Ok(report(&done, &[])),
        None if dialog.is_underway(call) => {
            Ok((StatusCode::ACCEPTED, axum::Json(CallStarted { call })).into_response())
        }
        None => Err(no_call(call)),
    }
}

pub(crate) async fn cancel(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    At((id, call)): At<(String, u64)>,
) -> Result<StatusCode, Fail> {
    match scope::own(&front, &who, &id)?.cancel(call) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_call(call)),
    }
}

fn no_call(call: u64) -> Fail {
    Fail::new(Kind::NotFound, "call.unknown", format!("call {call} is not under way"))
}

fn cancelled() -> Fail {
    Fail::new(Kind::Call(ErrorKind::Cancelled), "cancelled", "the call was cancelled")
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts
        .flat_map(|value| value.split(','))
        .any(|kind| kind.trim().starts_with("text/event-stream"))
}

/// That a call failed is in its report, and in the status.
fn report(done: &Execution, with: &[Extra]) -> Response {
    let status = done.outcome.as_ref().err().map(|error| Kind::Call(error.kind()).status());
    reply::json(status.unwrap_or(StatusCode::OK), &Reported::raw(done, with))
}

/// `call` with its number, then `progress` and `log`, then one `result`.
fn stream(underway: Underway, mut remarks: Receiver<Remark>, with: Vec<Extra>) -> Response {
    let (queue, events) = mpsc::channel(EVENTS);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let started = Raw::of(&CallStarted { call: underway.call }).ok();
        // Whoever has gone ends this task.
        let _ = queue.send(event("call", started.as_ref())).await;
        let dialog = underway.dialog.clone();
        let ended = dialog.wait(underway.call);
        tokio::pin!(ended);
        let ended = loop {
            tokio::select! {
                biased;
                Some(remark) = remarks.next() => {
                    let _ = queue.send(remarked(&remark)).await;
                }
                ended = &mut ended => break ended,
            }
        };
        while let Some(remark) = remarks.try_next() {
            let _ = queue.send(remarked(&remark)).await;
        }
        underway.ended();
        let told = ended.map(|done| Reported::raw(&done, &with));
        let _ = queue.send(last(told)).await;
    });
    reply::named_events(events, tasks)
}

fn stream_of(done: &Execution, with: &[Extra]) -> Response {
    let (queue, events) = mpsc::channel(1);
    // There is room for one.
    let _ = queue.try_send(last(Some(Reported::raw(done, with))));
    reply::named_events(events, JoinSet::new())
}

fn last(report: Option<Raw>) -> SseEvent {
    match report {
        Some(report) => event("result", Some(&report)),
        None => {
            let fault = super::shape::Faulted { error: *cancelled().fault };
            event("error", Raw::of(&fault).ok().as_ref())
        }
    }
}

fn remarked(remark: &Remark) -> SseEvent {
    let kind = match remark {
        Remark::Progress(_) => "progress",
        Remark::Log(_) => "log",
    };
    event(kind, Some(remark.params()))
}

fn event(kind: &str, data: Option<&Raw>) -> SseEvent {
    let data = data.map(|raw| raw.as_bytes().to_vec()).unwrap_or_default();
    SseEvent { event: Some(kind.to_owned()), data, id: None }
}

/// A call that is cancelled if nobody waits for it any more.
struct Underway {
    dialog: Dialog,
    call: u64,
    goes_on: bool,
}

impl Underway {
    fn new(dialog: Dialog, call: u64) -> Self {
        Underway { dialog, call, goes_on: true }
    }

    async fn end(self) -> Option<Execution> {
        let ended = self.dialog.wait(self.call).await;
        self.ended();
        ended
    }

    fn ended(mut self) {
        self.goes_on = false;
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if self.goes_on {
            self.dialog.cancel(self.call);
        }
    }
}

/// The call as it is to be made; where it cannot be, what became of it.
async fn prepared(dialog: &Dialog, new: NewCall) -> Result<CallRequest, Box<Execution>> {
    let tool = match new.once || !new.words.is_empty() {
        true => {
            let turn = Wait::All.turn(dialog, |turn| turn.tool(&new.tool).is_some()).await;
            match turn.tool(&new.tool) {
                Some(tool) => Some(tool),
                None => dialog.turn_with(&new.tool).await.tool(&new.tool),
            }
        }
        false => None,
    };
    let mut given = new.arguments.unwrap_or_else(|| ObjectWriter::new().finish());
    if let Some(tool) = tool {
        if !new.words.is_empty() {
            given = made(&tool, &new.words).map_err(|error| unmade(&tool, error))?;
        }
        if new.once {
            reached(dialog, &tool).await.map_err(|error| unmade(&tool, error))?;
        }
    }
    let request_id = new.request_id.or(new.mcp.and_then(|mcp| mcp.request_id));
    Ok(CallRequest {
        timeout: new.timeout_ms.map(Duration::from_millis),
        check: new.check,
        besides: Besides { request_id, ..Besides::default() },
        ..CallRequest::new(new.tool, given)
    })
}

/// Words become what the tool's schema asks for.
fn made(tool: &Tool, words: &[(String, String)]) -> Result<Raw, CallError> {
    let words = words.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let invalid = |why: &dyn Display| {
        let text = format!("invalid arguments for `{}`: {why}", tool.name());
        CallError::new(ErrorKind::InvalidArguments, text)
    };
    let made = arguments(tool.input_schema(), words).map_err(|bad| invalid(&bad))?;
    // A word may be JSON itself, whose depth nobody has seen before.
    let limits = Limits { depth: ARGUMENTS_DEPTH, ..LIMITS };
    Json::parse(made.text(), &limits).map_err(|fault| invalid(&fault))?;
    Ok(made)
}

/// Whoever waits wants the first failure, not the last. What else may be wrong with the server the call itself
/// finds out.
async fn reached(dialog: &Dialog, tool: &Tool) -> Result<(), CallError> {
    let Some(server) = tool.server() else { return Ok(()) };
    let host = dialog.host();
    if host.server(&server.key).is_ok_and(|server| is_up(&server)) {
        return Ok(());
    }
    match host.connect(&server.key).await {
        Err(OpError::Failed { cause, .. }) if cause.kind == FailureKind::Connection => {
            Err(CallError::not_connected(server.id()).with_cause(cause))
        }
        _ => Ok(()),
    }
}

/// A call that was not made.
fn unmade(tool: &Tool, error: CallError) -> Box<Execution> {
    let server = tool.server().map_or("", |server| server.id());
    Box::new(Execution {
        call: 0,
        facts: Facts {
            server: server.to_owned(),
            tool: tool.name().to_owned(),
            duration: Duration::ZERO,
            attempts: 0,
            repeated: false,
        },
        outcome: Err(error.with_tool(tool.name()).with_server(server)),
        results: tool.server().map(|it| it.spec.policy.results.clone()).unwrap_or_default(),
        reminder: None,
    })
}

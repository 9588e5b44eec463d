//! Handlers for tool calls: waiting, streaming, and in the background.

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
use toolcrib::internal::parse_arguments;
use toolcrib::{
    CallContext, CallError, CallFacts, CallRequest, Dialog, ErrorKind, Execution,
    ServerOperationError, Tool,
};
use toolcrib_upstream::conn::FailureKind;
use toolcrib_upstream::conn::peer::{CallNotification, MailboxReceiver, mailbox};
use toolcrib_wire::{Json, MessageLimits, ObjectWriter, RawJson, SseEvent};

use super::error::{ApiError, ApiErrorKind};
use super::extract::{ARGUMENTS_DEPTH, Authenticated, JsonBody, PathParams, QueryParams};
use super::list_wait::{WaitMode, is_up};
use super::schema::{CallReport, CallStarted, NewCall, ReportExtra};
use super::scope;
use crate::front::Front;
use crate::front::response;
use crate::message_stream::LIMITS;

/// Capacity of the notification queue of one call. The oldest notifications are dropped when it is full.
const MAX_NOTIFICATIONS: usize = 4096;

/// Capacity of the event queue of one stream.
const EVENTS: usize = 64;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct StartCallQuery {
    /// `false`: returns the number of the call at once, and the call continues.
    wait: Option<bool>,
}

/// Calls a tool. A client that disconnects cancels the call, unless it asked for `wait=false`.
pub(crate) async fn start(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<StartCallQuery>,
    headers: HeaderMap,
    JsonBody(mut new, reservation): JsonBody<NewCall>,
) -> Result<Response, ApiError> {
    let dialog = scope::require_dialog(&front, &principal, &id)?;
    // The call may outlive its request, so the arguments keep their memory reserved.
    new.arguments = new.arguments.map(|arguments| arguments.with_guard(reservation.into_held()));
    let with = new.with.clone();
    let wants_events = wants_events(&headers);
    let (notification_sender, notifications) = mailbox(MAX_NOTIFICATIONS);
    let request = match prepare_call(&dialog, new).await {
        Ok(mut request) => {
            request.context.notifications = wants_events.then_some(notification_sender);
            request
        }
        Err(failed) if wants_events => return Ok(finished_stream(&failed, &with)),
        Err(failed) => return Ok(report_response(&failed, &with)),
    };
    let call = dialog.start_call(request).map_err(|error| ApiError::from(&error))?;
    if wants_events {
        return Ok(stream_response(CancelOnDrop::new(dialog, call), notifications, with));
    }
    if query.wait == Some(false) {
        return Ok((StatusCode::ACCEPTED, axum::Json(CallStarted { call })).into_response());
    }
    let execution = CancelOnDrop::new(dialog, call).wait().await;
    Ok(report_response(&execution.ok_or_else(cancelled_error)?, &with))
}

/// Returns the report of a call, or 202 while it runs.
pub(crate) async fn get(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams((id, call)): PathParams<(String, u64)>,
) -> Result<Response, ApiError> {
    let dialog = scope::require_dialog(&front, &principal, &id)?;
    match dialog.poll_call(call) {
        Some(execution) => Ok(report_response(&execution, &[])),
        None if dialog.is_call_running(call) => {
            Ok((StatusCode::ACCEPTED, axum::Json(CallStarted { call })).into_response())
        }
        None => Err(unknown_call(call)),
    }
}

pub(crate) async fn cancel(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
    PathParams((id, call)): PathParams<(String, u64)>,
) -> Result<StatusCode, ApiError> {
    match scope::require_dialog(&front, &principal, &id)?.cancel_call(call) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(unknown_call(call)),
    }
}

fn unknown_call(call: u64) -> ApiError {
    ApiError::new(ApiErrorKind::NotFound, "call.unknown", format!("no call {call} in this dialog"))
}

fn cancelled_error() -> ApiError {
    ApiError::new(ApiErrorKind::Call(ErrorKind::Cancelled), "cancelled", "the call was cancelled")
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts
        .flat_map(|value| value.split(','))
        .any(|kind| kind.trim().starts_with("text/event-stream"))
}

/// A failed call sets both the report and the status.
fn report_response(execution: &Execution, with: &[ReportExtra]) -> Response {
    let status =
        execution.outcome.as_ref().err().map(|error| ApiErrorKind::Call(error.kind()).status());
    response::json(status.unwrap_or(StatusCode::OK), &CallReport::to_json(execution, with))
}

/// Streams `call` with the number of the call, then `progress` and `log` events, then one `result`.
fn stream_response(
    call_guard: CancelOnDrop,
    mut notifications: MailboxReceiver<CallNotification>,
    with: Vec<ReportExtra>,
) -> Response {
    let (queue, events) = mpsc::channel(EVENTS);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let started = RawJson::from_value(&CallStarted { call: call_guard.call }).ok();
        // A client that disconnects ends this task.
        let _ = queue.send(sse_event("call", started.as_ref())).await;
        let dialog = call_guard.dialog.clone();
        let execution = dialog.wait_for_call(call_guard.call);
        tokio::pin!(execution);
        let execution = loop {
            tokio::select! {
                biased;
                Some(notification) = notifications.next() => {
                    let _ = queue.send(notification_event(&notification)).await;
                }
                execution = &mut execution => break execution,
            }
        };
        while let Some(notification) = notifications.try_next() {
            let _ = queue.send(notification_event(&notification)).await;
        }
        call_guard.disarm();
        let report = execution.map(|execution| CallReport::to_json(&execution, &with));
        let _ = queue.send(final_event(report)).await;
    });
    response::named_events(events, tasks)
}

fn finished_stream(execution: &Execution, with: &[ReportExtra]) -> Response {
    let (queue, events) = mpsc::channel(1);
    // The queue has room for one event.
    let _ = queue.try_send(final_event(Some(CallReport::to_json(execution, with))));
    response::named_events(events, JoinSet::new())
}

fn final_event(report: Option<RawJson>) -> SseEvent {
    match report {
        Some(report) => sse_event("result", Some(&report)),
        None => {
            let error_body = super::schema::ErrorResponse { error: *cancelled_error().body };
            sse_event("error", RawJson::from_value(&error_body).ok().as_ref())
        }
    }
}

fn notification_event(notification: &CallNotification) -> SseEvent {
    let kind = match notification {
        CallNotification::Progress(_) => "progress",
        CallNotification::Log(_) => "log",
    };
    sse_event(kind, Some(notification.params()))
}

fn sse_event(kind: &str, data: Option<&RawJson>) -> SseEvent {
    let data = data.map(|raw| raw.as_bytes().to_vec()).unwrap_or_default();
    SseEvent { event: Some(kind.to_owned()), data, id: None }
}

/// Cancels the call when it is dropped without being waited for.
struct CancelOnDrop {
    dialog: Dialog,
    call: u64,
    is_armed: bool,
}

impl CancelOnDrop {
    fn new(dialog: Dialog, call: u64) -> Self {
        CancelOnDrop { dialog, call, is_armed: true }
    }

    async fn wait(self) -> Option<Execution> {
        let execution = self.dialog.wait_for_call(self.call).await;
        self.disarm();
        execution
    }

    fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.is_armed {
            self.dialog.cancel_call(self.call);
        }
    }
}

/// Prepares the call. Returns the failed execution if it cannot be made.
async fn prepare_call(dialog: &Dialog, new: NewCall) -> Result<CallRequest, Box<Execution>> {
    let tool = match new.once || !new.words.is_empty() {
        true => {
            let turn = WaitMode::AllServers
                .wait_for_turn(dialog, |turn| turn.tool(&new.tool).is_some())
                .await;
            match turn.tool(&new.tool) {
                Some(tool) => Some(tool),
                None => dialog.turn_with_running_server(&new.tool).await.tool(&new.tool),
            }
        }
        false => None,
    };
    let mut arguments = new.arguments.unwrap_or_else(|| ObjectWriter::new().finish());
    if let Some(tool) = tool {
        if !new.words.is_empty() {
            arguments = arguments_from_words(&tool, &new.words)
                .map_err(|error| failed_execution(&tool, error))?;
        }
        if new.once {
            ensure_connected(dialog, &tool)
                .await
                .map_err(|error| failed_execution(&tool, error))?;
        }
    }
    let request_id = new.request_id.or(new.mcp.and_then(|mcp| mcp.request_id));
    Ok(CallRequest {
        timeout: new.timeout_ms.map(Duration::from_millis),
        validate_arguments: new.check,
        context: CallContext { request_id, ..CallContext::default() },
        ..CallRequest::new(new.tool, arguments)
    })
}

/// Converts words to the types of the tool's input schema.
fn arguments_from_words(tool: &Tool, words: &[(String, String)]) -> Result<RawJson, CallError> {
    let words = words.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let invalid = |why: &dyn Display| {
        let text = format!("invalid arguments for `{}`: {why}", tool.name());
        CallError::new(ErrorKind::InvalidArguments, text)
    };
    let arguments = parse_arguments(tool.input_schema(), words).map_err(|bad| invalid(&bad))?;
    // A word may itself be JSON of unchecked depth.
    let limits = MessageLimits { depth: ARGUMENTS_DEPTH, ..LIMITS };
    Json::parse(arguments.text(), &limits).map_err(|error| invalid(&error))?;
    Ok(arguments)
}

/// Returns the first connection failure instead of retrying until the call times out. The call itself reports any other
/// failure.
async fn ensure_connected(dialog: &Dialog, tool: &Tool) -> Result<(), CallError> {
    let Some(server) = tool.server() else { return Ok(()) };
    let host = dialog.host();
    if host.server(&server.key).is_ok_and(|server| is_up(&server)) {
        return Ok(());
    }
    match host.connect_server(&server.key).await {
        Err(ServerOperationError::Failed { cause, .. })
            if cause.kind == FailureKind::Connection =>
        {
            Err(CallError::not_connected(server.id()).with_cause(cause))
        }
        _ => Ok(()),
    }
}

/// The execution record of a call that was never sent.
fn failed_execution(tool: &Tool, error: CallError) -> Box<Execution> {
    let server = tool.server().map_or("", |server| server.id());
    Box::new(Execution {
        call: 0,
        facts: CallFacts {
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

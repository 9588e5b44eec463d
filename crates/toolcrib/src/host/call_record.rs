//! Writes one record, one event, one metric and at most one log line per call, however the call
//! ends.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use toolcrib_config::model::policy::Results;
use toolcrib_wire::view::CallToolResult;

use super::call::{CallRequest, Execution};
use super::call_metrics::{CallMetrics, RunningCall};
use super::core::Core;
use super::events::HostEvent;
use super::turn::Turn;
use crate::lease::Reminder;
use crate::registry::{RegisteredServer, Tool};
use crate::results::{Blame, CallError, CallFacts, ErrorKind};
use crate::store::CallRecord;

/// Records a running call. Dropping it without [`CallRecorder::finish`] records the call as
/// cancelled.
pub(super) struct CallRecorder<'a> {
    core: &'a Core,
    call: u64,
    began: Instant,
    started: SystemTime,
    agent: Arc<str>,
    dialog: Arc<str>,
    /// The name that the caller asked for.
    requested_name: &'a str,
    tool: Option<Arc<str>>,
    server: Option<Arc<RegisteredServer>>,
    results: Results,
    arguments: Option<Box<str>>,
    request_id: Option<Box<str>>,
    attempts: u32,
    repeated: bool,
    denied: bool,
    running_call: Option<RunningCall>,
    reminder: Option<Box<Reminder>>,
    is_finished: bool,
}

impl<'a> CallRecorder<'a> {
    pub(super) fn start(turn: &'a Turn, call: u64, request: &'a CallRequest) -> Self {
        let (core, inner) = (turn.core(), turn.dialog_state());
        CallRecorder {
            core,
            call,
            began: Instant::now(),
            started: SystemTime::now(),
            agent: Arc::clone(&inner.agent),
            dialog: Arc::clone(&inner.id),
            requested_name: &request.tool,
            tool: None,
            server: None,
            results: Results::default(),
            arguments: core.records_arguments.then(|| request.arguments.text().into()),
            request_id: request.context.request_id(),
            attempts: 0,
            repeated: false,
            denied: false,
            running_call: None,
            reminder: None,
            is_finished: false,
        }
    }

    pub(super) fn call(&self) -> u64 {
        self.call
    }

    /// Sets the tool after it was found and permitted.
    pub(super) fn set_tool(&mut self, turn: &Turn, tool: &Tool) {
        let server = tool.server();
        let running = server.and_then(|server| turn.running_server(server));
        let metrics: &Arc<CallMetrics> =
            running.map_or(&self.core.native_metrics, |running| &running.metrics);
        self.running_call.get_or_insert_with(|| metrics.start_call());
        self.tool = Some(Arc::clone(tool.shared_name()));
        if let Some(server) = server {
            self.server = Some(Arc::clone(server));
            self.results = server.spec.policy.results.clone();
        }
    }

    /// Starts the metrics of a call that waits for its server's restart.
    pub(super) fn set_waiting_server(
        &mut self,
        server: &RegisteredServer,
        metrics: &Arc<CallMetrics>,
    ) {
        self.running_call.get_or_insert_with(|| metrics.start_call());
        self.results = server.spec.policy.results.clone();
    }

    fn tool(&self) -> &str {
        self.tool.as_deref().unwrap_or(self.requested_name)
    }

    pub(super) fn mark_denied(&mut self) {
        self.denied = true;
    }

    /// Counts another attempt and returns its number.
    pub(super) fn next_attempt(&mut self) -> u32 {
        self.attempts += 1;
        self.attempts
    }

    /// Sets the reminder of a new lease.
    pub(super) fn set_reminder(&mut self, reminder: Option<Box<Reminder>>) {
        self.reminder = reminder;
    }

    /// Records that the call is repeated. `may_have_run` tells whether the server may have executed
    /// it before.
    pub(super) fn mark_repeated(&mut self, may_have_run: bool) {
        self.repeated |= may_have_run;
    }

    pub(super) fn finish(mut self, outcome: Result<CallToolResult, CallError>) -> Execution {
        let outcome = outcome.map_err(|error| self.complete_error(error));
        if let (Some(running_call), Some(text)) =
            (&self.running_call, server_fault(self.tool(), &outcome))
        {
            running_call.set_failure(text, SystemTime::now());
        }
        let ended = match &outcome {
            Ok(result) if result.is_error() => ErrorKind::Tool.as_str(),
            Ok(_) => "ok",
            Err(_) if self.denied => ErrorKind::Denied.as_str(),
            Err(error) => error.kind().as_str(),
        };
        if let Err(error) = &outcome {
            let (server, tool) = (self.server.as_ref().map(|it| it.id()), self.tool());
            tracing::warn!(server, tool, "call failed: {}", error.chain());
        }
        self.is_finished = true;
        let duration = self.write_record(ended);
        Execution {
            call: self.call,
            facts: CallFacts {
                server: self.server.as_ref().map_or_else(String::new, |it| it.id().to_owned()),
                tool: self.tool().to_owned(),
                duration,
                attempts: self.attempts,
                repeated: self.repeated,
            },
            outcome,
            results: std::mem::take(&mut self.results),
            reminder: self.reminder.take(),
        }
    }

    /// Adds the server, the tool and the time to an error.
    fn complete_error(&self, mut error: CallError) -> CallError {
        if let (None, Some(server)) = (error.server(), &self.server) {
            error = error.with_server(server.id());
        }
        if error.tool().is_none() {
            error = error.with_tool(self.tool());
        }
        error.with_time(SystemTime::now())
    }

    /// Writes the record and returns the call's duration.
    fn write_record(&mut self, ended: &'static str) -> Duration {
        let duration = self.began.elapsed();
        if let Some(running_call) = self.running_call.take() {
            running_call.finish(ended == "ok", duration);
        }
        let server = self.server.as_ref().map(|server| &server.key);
        // Only existing tools are counted: the number of names that callers can invent is
        // unlimited.
        if let Some(tool) = &self.tool {
            self.core.tool_counters.count(server, tool, ended);
        }
        let record = CallRecord {
            agent: Arc::clone(&self.agent),
            dialog: Some(Arc::clone(&self.dialog)),
            server: server.cloned(),
            tool: self.tool.clone().unwrap_or_else(|| self.requested_name.into()),
            started: self.started,
            duration,
            ended: Cow::Borrowed(ended),
            arguments: self.arguments.take(),
            request_id: self.request_id.take(),
        };
        let Core { events, store, .. } = self.core;
        if events.has_listeners() {
            events.publish(HostEvent::CallEnded {
                call: self.call,
                record: Arc::new(record.clone()),
            });
        }
        store.record(record);
        duration
    }
}

/// The text about a failed call for its server's status, or `None` if the call succeeded or failed
/// by the caller's fault. Every principal may read the status, so the text contains nothing that
/// the server wrote about this caller's arguments.
fn server_fault(tool: &str, outcome: &Result<CallToolResult, CallError>) -> Option<String> {
    match outcome {
        Ok(result) => result.is_error().then(|| format!("tool `{tool}` reported an error")),
        Err(error) if error.blame() == Blame::Caller => None,
        Err(error) => Some(match error.rpc() {
            Some(_) => format!("the server refused to call `{tool}` ({})", error.code()),
            None => format!("call of `{tool}` failed: {}", error.chain()),
        }),
    }
}

impl Drop for CallRecorder<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.write_record(ErrorKind::Cancelled.as_str());
        }
    }
}

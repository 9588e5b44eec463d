//! What is written down of one call, however it ends: one record, one event, one count, one line in the log.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use toolcrib_config::model::policy::Results;
use toolcrib_wire::view::CallToolResult;

use super::call::{CallRequest, Execution};
use super::core::Core;
use super::events::Event;
use super::meters::{Meter, Running};
use super::turn::Turn;
use crate::lease::Reminder;
use crate::registry::{Server, Tool};
use crate::shape::{Blame, CallError, ErrorKind, Facts};
use crate::store::CallRecord;

/// A call under way. Dropped before its end, it was cancelled.
pub(super) struct Note<'a> {
    core: &'a Core,
    call: u64,
    began: Instant,
    started: SystemTime,
    agent: Arc<str>,
    dialog: Arc<str>,
    /// As it was asked for, and as it is known where it is.
    asked: &'a str,
    tool: Option<Arc<str>>,
    server: Option<Arc<Server>>,
    results: Results,
    arguments: Option<Box<str>>,
    request_id: Option<Box<str>>,
    attempts: u32,
    repeated: bool,
    denied: bool,
    running: Option<Running>,
    reminder: Option<Box<Reminder>>,
    is_over: bool,
}

impl<'a> Note<'a> {
    pub(super) fn begin(turn: &'a Turn, call: u64, request: &'a CallRequest) -> Self {
        let (core, inner) = (turn.core(), turn.inner());
        Note {
            core,
            call,
            began: Instant::now(),
            started: SystemTime::now(),
            agent: Arc::clone(&inner.agent),
            dialog: Arc::clone(&inner.id),
            asked: &request.tool,
            tool: None,
            server: None,
            results: Results::default(),
            arguments: core.keeps_arguments.then(|| request.arguments.text().into()),
            request_id: request.besides.request_id(),
            attempts: 0,
            repeated: false,
            denied: false,
            running: None,
            reminder: None,
            is_over: false,
        }
    }

    pub(super) fn call(&self) -> u64 {
        self.call
    }

    /// The tool is known, and may be called.
    pub(super) fn is_of(&mut self, turn: &Turn, tool: &Tool) {
        let server = tool.server();
        let serving = server.and_then(|server| turn.serving(server));
        let meter: &Arc<Meter> = serving.map_or(&self.core.meter, |serving| &serving.meter);
        self.running.get_or_insert_with(|| meter.begin());
        self.tool = Some(Arc::clone(tool.shared_name()));
        if let Some(server) = server {
            self.server = Some(Arc::clone(server));
            self.results = server.spec.policy.results.clone();
        }
    }

    /// The call waits for its server, which is being started again.
    pub(super) fn waits_for(&mut self, server: &Server, meter: &Arc<Meter>) {
        self.running.get_or_insert_with(|| meter.begin());
        self.results = server.spec.policy.results.clone();
    }

    fn tool(&self) -> &str {
        self.tool.as_deref().unwrap_or(self.asked)
    }

    pub(super) fn is_denied(&mut self) {
        self.denied = true;
    }

    /// One more try begins: which one it is.
    pub(super) fn attempt(&mut self) -> u32 {
        self.attempts += 1;
        self.attempts
    }

    /// The dialog is to be reminded of a lease.
    pub(super) fn remind(&mut self, reminder: Option<Box<Reminder>>) {
        self.reminder = reminder;
    }

    /// It is made again, and the server may have done it before.
    pub(super) fn repeats(&mut self, may_have_run: bool) {
        self.repeated |= may_have_run;
    }

    pub(super) fn end(mut self, outcome: Result<CallToolResult, CallError>) -> Execution {
        let outcome = outcome.map_err(|error| self.complete(error));
        if let (Some(running), Some(text)) = (&self.running, server_fault(self.tool(), &outcome)) {
            running.failed(text, SystemTime::now());
        }
        let ended = match &outcome {
            Ok(result) if result.is_error() => ErrorKind::Tool.as_str(),
            Ok(_) => "ok",
            Err(_) if self.denied => ErrorKind::Denied.as_str(),
            Err(error) => error.kind().as_str(),
        };
        if let Err(error) = &outcome {
            let (server, tool) = (self.server.as_ref().map(|it| it.id()), self.tool());
            tracing::warn!(server, tool, "a call failed: {}", error.chain());
        }
        self.is_over = true;
        let duration = self.write(ended);
        Execution {
            call: self.call,
            facts: Facts {
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

    /// An error says what it is about and when it was.
    fn complete(&self, mut error: CallError) -> CallError {
        if let (None, Some(server)) = (error.server(), &self.server) {
            error = error.with_server(server.id());
        }
        if error.tool().is_none() {
            error = error.with_tool(self.tool());
        }
        error.at(SystemTime::now())
    }

    /// How long it has taken.
    fn write(&mut self, ended: &'static str) -> Duration {
        let duration = self.began.elapsed();
        if let Some(running) = self.running.take() {
            running.end(ended == "ok", duration);
        }
        let server = self.server.as_ref().map(|server| &server.key);
        // Only tools that exist: names that callers make up are without end.
        if let Some(tool) = &self.tool {
            self.core.tally.count(server, tool, ended);
        }
        let record = CallRecord {
            agent: Arc::clone(&self.agent),
            dialog: Some(Arc::clone(&self.dialog)),
            server: server.cloned(),
            tool: self.tool.clone().unwrap_or_else(|| self.asked.into()),
            started: self.started,
            duration,
            ended: Cow::Borrowed(ended),
            arguments: self.arguments.take(),
            request_id: self.request_id.take(),
        };
        let Core { events, store, .. } = self.core;
        if events.are_heard() {
            events.tell(Event::Called { call: self.call, record: Arc::new(record.clone()) });
        }
        store.record(record);
        duration
    }
}

/// What a failed call says about its server, for the server's status. Everybody may read that, so it holds nothing that
/// the server wrote about this caller's arguments. `None` if the call succeeded or failed by its caller's fault.
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

impl Drop for Note<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.write(ErrorKind::Cancelled.as_str());
        }
    }
}

//! Request and response bodies of the control API, and the output of commands with `--json`.
//!
//! No other module defines them. Fields may be added and are never renamed; `null` means unknown.

mod call;
mod definition;
mod dialog;
mod document;
mod event;
mod error;
mod host;
mod server;
mod tool;

pub use call::{CallMetadata, CallStarted, CallHistoryEntry, CallHistory, DeliveredOutput, ReportExtra, NewCall, CallReport};
pub use definition::{AcceptDefinitions, DefinitionChange, DefinitionChanges};
pub use dialog::{
    RequestAnswer, RequestAnswerError, AnswerReceipt, AnswerableRequests, DialogServer, DialogStatus, DialogList, LeaseView, LeaseList,
    NewDialog, ReminderView, ReminderList, PendingRequestView, PendingRequestList, ServerSwitch, ServerSwitchResult,
};
pub use document::{
    PromptArguments, PromptListItem, PromptList, ResourceListItem, ResourceList, ResourceTemplateListItem,
};
pub use event::event_json;
pub use error::{ErrorBody, ErrorResponse};
pub use host::{HostStatus, PRIVILEGES, ProblemList, ReloadStep, ReloadReport};
pub use server::{ServerLog, OperationResult, ServerCallCounts, ServerView, ServerList};
pub use tool::{GateView, AccessReport, ToolListItem, ToolList};

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use toolcrib_upstream::signals::format_timestamp;

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Converts a monotonic time to a timestamp.
fn wall_clock_time(at: Instant) -> String {
    let now = SystemTime::now();
    format_timestamp(now.checked_sub(at.elapsed()).unwrap_or(now))
}

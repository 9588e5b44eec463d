//! Request and response bodies of the control API, and the output of commands with `--json`.
//!
//! No other module defines them. Fields may be added and are never renamed; `null` means unknown.

mod call;
mod definition;
mod dialog;
mod document;
mod error;
mod event;
mod host;
mod server;
mod tool;

pub use call::{
    CallHistory, CallHistoryEntry, CallMetadata, CallReport, CallStarted, DeliveredOutput, NewCall,
    ReportExtra,
};
pub use definition::{AcceptDefinitions, DefinitionChange, DefinitionChanges};
pub use dialog::{
    AnswerReceipt, AnswerableRequests, DialogList, DialogServer, DialogStatus, LeaseList,
    LeaseView, NewDialog, PendingRequestList, PendingRequestView, ReminderList, ReminderView,
    RequestAnswer, RequestAnswerError, ServerSwitch, ServerSwitchResult,
};
pub use document::{
    PromptArguments, PromptList, PromptListItem, ResourceList, ResourceListItem,
    ResourceTemplateListItem,
};
pub use error::{ErrorBody, ErrorResponse};
pub use event::event_json;
pub use host::{HostStatus, PRIVILEGES, ProblemList, ReloadReport, ReloadStep};
pub use server::{OperationResult, ServerCallCounts, ServerList, ServerLog, ServerView};
pub use tool::{AccessReport, GateView, ToolList, ToolListItem};

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

//! What the control API takes and answers, and what commands print with `--json`: the only place that says so.
//!
//! Fields may be added and are never renamed; `null` is what is not known.

mod call;
mod definition;
mod dialog;
mod document;
mod event;
mod fault;
mod host;
mod server;
mod tool;

pub use call::{CallMetadata, CallStarted, Called, Calls, Delivered, Extra, NewCall, Reported};
pub use definition::{Accept, Definition, Definitions};
pub use dialog::{
    Answer, AnswerError, Answered, Answers, DialogServer, DialogStatus, Dialogs, Leased, Leases,
    NewDialog, Reminded, Reminders, Requested, Requests, Switch, Switched,
};
pub use document::{
    PromptArguments, PromptShape, Prompts, ResourceShape, Resources, TemplateShape,
};
pub use event::event;
pub use fault::{Fault, Faulted};
pub use host::{HostStatus, PRIVILEGES, Problems, ReloadStep, Reloaded};
pub use server::{Log, Operated, ServerCalls, ServerShape, Servers};
pub use tool::{GateShape, Gates, ToolShape, Tools};

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use toolcrib_upstream::signals::timestamp;

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A moment of this process's clock on the clock on the wall.
fn past(at: Instant) -> String {
    let now = SystemTime::now();
    timestamp(now.checked_sub(at.elapsed()).unwrap_or(now))
}

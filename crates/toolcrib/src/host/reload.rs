//! The report of a reload, which is logged, published as an event and returned to the caller.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_config::{ChangeAction, Problem};

/// The report of a reload. The start of a host is a reload from nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Reload {
    /// The number of the snapshot that the reload published.
    pub version: u64,
    /// The steps of the reload, one per server.
    pub steps: Vec<ReloadedServer>,
    /// All problems of the configuration.
    pub problems: Vec<Problem>,
    /// Duration of the reload.
    pub took: Duration,
}

/// The step of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadedServer {
    /// `<source>#<id>`.
    pub server: Arc<str>,
    /// The planned change.
    pub action: ChangeAction,
    /// The result of the change.
    pub outcome: ReloadOutcome,
}

/// The result of a change of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// The change is complete.
    Done,
    /// The server starts in the background or on demand.
    Coming,
    /// The server did not start, for this reason. Its predecessor keeps running, and the start is
    /// retried by the server's policy.
    Failed(String),
}

impl Reload {
    /// Whether the reload changed nothing.
    pub fn is_empty(&self) -> bool {
        self.steps
            .iter()
            .all(|step| matches!(step.action, ChangeAction::Keep | ChangeAction::KeepLastGood))
    }
}

impl ReloadOutcome {
    /// A stable name for machines.
    pub fn as_str(&self) -> &'static str {
        match self {
            ReloadOutcome::Done => "done",
            ReloadOutcome::Coming => "coming",
            ReloadOutcome::Failed(_) => "failed",
        }
    }
}

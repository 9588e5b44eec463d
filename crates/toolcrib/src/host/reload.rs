//! What a reload did: a value that is logged, told as an event and handed to whoever asked for it.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_config::{Action, Problem};

/// The outcome of a reload. Starting is a reload from nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Reload {
    /// The number of the snapshot that was published with it.
    pub version: u64,
    /// What was to be done, server by server.
    pub steps: Vec<Step>,
    /// Everything that is wrong with the configuration.
    pub problems: Vec<Problem>,
    pub took: Duration,
}

/// What became of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `<source>#<id>`.
    pub server: Arc<str>,
    pub action: Action,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// It comes up beside, or when it is wanted.
    Coming,
    /// It did not start; for this reason. What served before goes on, and it is tried again by its policy.
    Failed(String),
}

impl Reload {
    /// Whether nothing had to be done.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| matches!(step.action, Action::Keep | Action::KeepLastGood))
    }
}

impl Outcome {
    /// Stable, for machines.
    pub fn as_str(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Coming => "coming",
            Outcome::Failed(_) => "failed",
        }
    }
}

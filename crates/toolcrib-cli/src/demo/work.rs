//! What answering a request takes, as a value: the shells do it and decide nothing.

use std::time::Duration;

use toolcrib_wire::notice::Progress;
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::{ProgressToken, Raw, RpcError};

use super::caller::Caller;
use super::tools;

/// Seconds that the tool `slow` may take at most.
pub(crate) const LONGEST: u32 = 3600;

#[derive(Debug)]
pub(crate) enum Work {
    /// There is nothing left to do.
    Done(Result<Raw, RpcError>),
    Slow(Slow),
    /// `elicitation/create` is to be sent with these params; [`tools::greeting`] makes the answer of its answer.
    Ask(Raw),
    /// These changes are to be told until somebody ends it.
    Listen(SubscriptionFilter),
}

/// A wait in steps.
#[derive(Debug)]
pub(crate) struct Slow {
    seconds: f64,
    pub(crate) steps: u32,
    token: Option<ProgressToken>,
    caller: Caller,
}

impl Slow {
    /// None if nobody could wait for so long.
    pub(crate) fn new(seconds: f64, token: Option<ProgressToken>, caller: &Caller) -> Option<Self> {
        if !(0.0..=f64::from(LONGEST)).contains(&seconds) {
            return None;
        }
        // About one a second, and a few even where it is quick.
        let steps = (seconds.ceil() as u32).max(4);
        Some(Self { seconds, steps, token, caller: caller.clone() })
    }

    pub(crate) fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.steps))
    }

    /// The news of a step that is done, for those who want it.
    pub(crate) fn progress(&self, step: u32) -> Option<Raw> {
        let progress = Progress {
            token: self.token.clone()?,
            progress: step.into(),
            total: Some(self.steps.into()),
            message: Some(format!("step {step} of {}", self.steps).into()),
        };
        Some(progress.build())
    }

    pub(crate) fn result(&self) -> Result<Raw, RpcError> {
        let took = tools::text(&format!("That took {} seconds.", self.seconds));
        Ok(self.caller.seal(&tools::raw(&took)?, None))
    }
}

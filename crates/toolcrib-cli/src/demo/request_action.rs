//! The action that answers a request, as a value. Transports perform it.

use std::time::Duration;

use toolcrib_wire::notification::Progress;
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::{ProgressToken, RawJson, RpcError};

use super::caller::Caller;
use super::tools;

/// Longest duration of the tool `slow`, in seconds.
pub(crate) const MAX_SECONDS: u32 = 3600;

#[derive(Debug)]
pub(crate) enum RequestAction {
    /// The result is complete.
    Done(Result<RawJson, RpcError>),
    Wait(TimedCall),
    /// Send `elicitation/create` with these params. [`tools::greeting`] turns the response into the result.
    Elicit(RawJson),
    /// Send these changes until the stream ends.
    Listen(SubscriptionFilter),
}

/// A wait in steps.
#[derive(Debug)]
pub(crate) struct TimedCall {
    seconds: f64,
    pub(crate) steps: u32,
    token: Option<ProgressToken>,
    caller: Caller,
}

impl TimedCall {
    /// Returns `None` if the duration is negative or too long.
    pub(crate) fn new(seconds: f64, token: Option<ProgressToken>, caller: &Caller) -> Option<Self> {
        if !(0.0..=f64::from(MAX_SECONDS)).contains(&seconds) {
            return None;
        }
        // About one step a second, and at least four.
        let steps = (seconds.ceil() as u32).max(4);
        Some(Self { seconds, steps, token, caller: caller.clone() })
    }

    pub(crate) fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.steps))
    }

    /// Returns the progress notification of a step, if the client asked for progress.
    pub(crate) fn progress(&self, step: u32) -> Option<RawJson> {
        let progress = Progress {
            token: self.token.clone()?,
            progress: step.into(),
            total: Some(self.steps.into()),
            message: Some(format!("step {step} of {}", self.steps).into()),
        };
        Some(progress.build())
    }

    pub(crate) fn result(&self) -> Result<RawJson, RpcError> {
        let took = tools::text_result(&format!("That took {} seconds.", self.seconds));
        Ok(self.caller.complete_result(&tools::to_raw(&took)?, None))
    }
}

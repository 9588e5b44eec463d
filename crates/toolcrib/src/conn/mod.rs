//! One connection to a server: what it does next, which era it speaks, what was found on it.

mod backoff;
mod era;
mod state;
mod step;

pub use backoff::Backoff;
pub use era::{Agreed, Heard, Next, Probe, ProbeError, SILENCE};
pub use state::{
    CacheState, Failure, FailureKind, Life, Link, Moment, Outlook, Settings, State, Tries, Words,
};
pub use step::{Effect, Event, LIST_CHANGE_WINDOW, LONGEST_RETRY_AFTER, Want, step};

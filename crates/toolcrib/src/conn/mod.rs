//! One connection to a server: what it does next, which era it speaks, what was found on it.

mod backoff;
mod catalog;
mod changes;
mod era;
mod settings;
mod state;
mod step;

pub use backoff::Backoff;
pub use catalog::{Ask, Catalog, Gathering, List, ListError, Odd, Oddity, asks, heeds};
pub use changes::{Change, ChangeKind, changes};
pub use era::{Agreed, Heard, Next, Probe, ProbeError, SILENCE};
pub use settings::{Settings, Tries};
pub use state::{CacheState, Failure, FailureKind, Life, Link, Moment, Outlook, State, Words};
pub use step::{Effect, Event, LIST_CHANGE_WINDOW, LONGEST_RETRY_AFTER, Want, step};

//! The life of one connection to a server, and the conversation over it.

mod backoff;
mod catalog;
mod changes;
mod connect;
mod era;
mod failure;
mod handle;
mod listening;
mod listing;
pub mod peer;
mod rounds;
mod session;
mod settings;
mod setup;
mod standstill;
mod state;
mod step;
mod stored;
mod task;
mod usage;

pub use backoff::Backoff;
pub use catalog::{Ask, Catalog, Gathering, List, ListError, Odd, Oddity, asks, heeds};
pub use changes::{Change, ChangeKind, changes};
pub use era::{Agreed, Heard, Next, Probe, ProbeError, SILENCE};
pub use failure::{Failure, FailureKind};
pub use handle::{Conn, Listener, News, Ticket, View};
pub use session::Session;
pub use settings::{Settings, Tries};
pub use setup::{Caller, Learned, Memory, Permits, Setup, World};
pub use standstill::{Late, Standstill};
pub use state::{CacheState, Life, Link, Moment, Outlook, State, Words};
pub use step::{Effect, Event, LIST_CHANGE_WINDOW, LONGEST_RETRY_AFTER, Want, step};

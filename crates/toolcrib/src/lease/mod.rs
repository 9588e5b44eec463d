//! Leases: which dialog holds which session of a server, with limits and a queue.
//!
//! [`LeasePool`] holds the sessions of one server. Acquiring one returns a [`LeaseGuard`]; dropping the guard ends
//! the call but not the lease. A lease ends with its dialog, by its release, or after its idle timeout, and never
//! while a call uses it. `LeaseTable` decides all of this as a pure value. The [`LeaseWorker`] opens and closes
//! sessions, so a caller that gives up does not abort an opening that others wait for.

mod error;
mod event;
mod lease_guard;
mod lease_policy;
mod lease_pool;
mod lease_table;
mod lease_worker;
mod reminder;
mod session_entry;

pub(crate) use error::AcquireError;
pub(crate) use lease_guard::LeaseGuard;
pub(crate) use lease_policy::LeasePolicy;
pub(crate) use lease_pool::LeasePool;
pub(crate) use lease_worker::{LeaseWorker, SessionOpener, SessionRequest};
pub use reminder::Reminder;
pub(crate) use reminder::{reminder_for_lease, reminder_for_server};
pub use session_entry::Lease;

#[cfg(test)]
mod tests;

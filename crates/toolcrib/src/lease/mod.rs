//! Which dialog has which session of a server: leases, their limits, and the queue before them.
//!
//! [`Leases`] are the sessions of one server. Taking one gives a [`Guard`]; dropping it ends the call, not the
//! lease. A lease ends with its dialog, by its release or after its idle time, and is never taken from whoever
//! uses it. `Book` decides all of this as a pure value; the [`Clerk`] opens and closes sessions as it says,
//! so that a caller who gives up does not end a start that others wait for.

mod book;
mod clerk;
mod error;
mod event;
mod guard;
mod instance;
mod reminder;
mod shared;
mod terms;

pub use clerk::{Clerk, Order, Sessions};
pub use error::TakeError;
pub use guard::Guard;
pub use instance::{InstanceId, Lease};
pub use reminder::{Reminder, reminder, reminder_of};
pub use shared::Leases;
pub use terms::Terms;

#[cfg(test)]
mod tests;

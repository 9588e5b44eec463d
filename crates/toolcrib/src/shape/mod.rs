//! What goes into a call and what comes out of it, in the form that policy asks for. All of it is pure.
//!
//! In: [`arguments`] makes a call's arguments of words on a command line, [`Checker`] holds them against
//! the server's own schema. Out: [`CallResult`] is what came, byte for byte; [`deliver`] hands it on by
//! policy, [`report`] as the JSON of the command line, [`cut`] within a size, [`items`] with its images
//! set aside. [`CallError`] is why there is none.

mod artifact;
mod coerce;
mod content;
mod cut;
mod error;
mod judge;
mod message;
mod outcome;
mod output;
mod report;
mod view;

#[cfg(test)]
mod tests;

pub use artifact::{Artifact, Item, items};
pub use coerce::{BadArgument, arguments};
pub use cut::{Cut, Kept, cut};
pub use error::{Blame, CallError, ErrorKind, Retry};
pub use judge::{Strictness, check_output, judge_input, judge_output};
pub use message::message;
pub use outcome::{CallResult, Delivered, Facts, deliver};
pub use report::report;
pub use view::{Audience, View, view};

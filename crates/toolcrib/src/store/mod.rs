//! What outlives the host: switches of dialogs, overrides of servers, records of calls, remembered catalogues.
//!
//! It is one SQLite file in the state folder. One thread has the connection; everybody else sends it work through
//! a bounded channel and waits for the answer. What was answered is on disk and survives any end of the host.
//! Records of calls are different: they go into a bounded ring that no call ever waits for, and from there to disk
//! in batches, so that a kill loses the last batch at most.
//!
//! Several stores may use one file, so that a command can look into it beside a running host: SQLite's log (WAL)
//! lets them read and write next to each other. What may happen only alone, migrating the file and moving a
//! damaged one aside, is kept apart by a lock file.

mod calls;
mod catalog;
mod error;
mod file;
mod handle;
mod learned;
mod limits;
mod pins;
mod ring;
mod schema;
mod settings;
mod time;
mod trust_file;
mod writer;

pub use calls::{CallRecord, Recorded};
pub use catalog::Remembered;
pub use error::{OpenError, StoreError};
pub use handle::Store;
pub use limits::Limits;
pub use pins::{Pin, PinnedServer};
pub use settings::Override;
pub use trust_file::{TrustError, TrustFile, TrustedFolder};

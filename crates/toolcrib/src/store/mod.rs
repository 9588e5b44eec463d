//! Persistent state of the host: dialog switches, server overrides, call records, pins and catalogs.
//!
//! The store is one SQLite file in the state folder. One thread owns the connection; other threads send it jobs
//! through a bounded channel and wait for the reply. A replied write is on disk and survives any end of the host.
//! Call records are the exception: they go into a bounded queue that never blocks a call, and are written in batches,
//! so a kill loses at most the last batch.
//!
//! Several stores may use one file, so a command can read it while a host runs: SQLite's write-ahead log allows
//! concurrent reads and writes. A lock file gives exclusive access for migrating the file and for moving a damaged
//! file aside.

mod call_records;
mod catalog;
mod error;
mod handle;
mod limits;
mod pins;
mod record_queue;
mod schema;
mod server_traits;
mod settings;
mod store_file;
mod store_writer;
mod timestamps;
mod trust_file;

pub use call_records::{CallRecord, StoredCall};
pub use catalog::StoredCatalog;
pub use error::StoreError;
pub(crate) use error::StoreOpenError;
pub use handle::Store;
pub use limits::StoreLimits;
pub(crate) use pins::{Pin, PinnedServer};
pub use settings::ServerOverride;
pub(crate) use trust_file::TrustError;
pub use trust_file::TrustFile;

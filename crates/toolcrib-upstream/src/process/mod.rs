//! Child processes: started without a shell, stopped step by step, and never left behind.
//!
//! An [`Instance`] starts children on a thread of its own and notes each in a ledger on disk before it exists.
//! A [`Child`] is stopped by a ladder (stdin closed, SIGTERM, SIGKILL) that covers its group and whatever left
//! the group: all of its cgroup where there is one, else what carries its mark ([`Guarantee`] says which). What a killed host leaves behind, [`reap`] ends at the next start. Processes in containers are
//! [`Guest`]s: noted in the same ledger, ended by whoever knows their engine. No sandbox is claimed: children
//! have the host's privileges.

mod child;
mod containment;
mod decide;
mod error;
mod family;
mod guest;
mod instance;
mod keeper;
mod ladder;
mod launch;
mod leash;
mod ledger;
mod mark;
mod minder;
mod orphans;
mod reap;
mod reap_cgroups;
mod spawn;
mod stderr;
mod sys;

pub use child::{Child, Ended, Exit};
pub use containment::{CgroupParent, Containment, Guarantee, Held};
pub use decide::Proof;
pub use error::SpawnError;
pub use guest::{Estate, Guest, Home};
pub(crate) use guest::{Farewell, Lodging};
pub use instance::{Instance, OpenError};
pub use ladder::Means;
pub use launch::{Graces, Launch};
pub use mark::{InstanceId, Mark, OWNER_VARIABLE};
pub use reap::{Orphan, ReapError, Reaped, reap};
pub use reap_cgroups::reap_cgroups;
pub use stderr::StderrTail;

/// The memory that this process has in use, in bytes; none where the system does not tell.
pub fn memory() -> Option<u64> {
    sys::memory()
}

/// The memory that this process may use, in bytes: that of its control group, or of the machine where that is less;
/// none where the system does not tell.
pub fn memory_limit() -> Option<u64> {
    sys::memory_limit()
}

/// How many files this process may have open at a time; none where there is no limit.
pub fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Gives back the memory of the program's own code, most of which only its start has needed. What is needed again
/// comes back by itself.
pub fn forget_code() -> std::io::Result<()> {
    sys::forget_code()
}

//! Child processes: spawning without a shell, stopping in stages, and reaping orphans of killed hosts.
//!
//! An [`Instance`] starts children on a dedicated thread and records each child in a ledger on disk before
//! the child exists. [`Child::stop`] runs the stop sequence: close stdin, then SIGTERM, then SIGKILL. The
//! sequence covers the process group and every process that left the group. With cgroups, these are all
//! members of the child's cgroup. Without cgroups, these are all processes that carry the child's owner mark.
//! [`Guarantee`] says which of the two applies. [`reap`] ends the processes of a killed host at the next
//! start.
//!
//! Processes in containers are [`RemoteProcess`]es. The same ledger records them, and the transport that
//! knows the container engine ends them. This module does not sandbox children: a child has the host's
//! privileges.

mod adopted_orphans;
mod child;
mod child_monitor;
mod child_thread;
mod containment;
mod error;
mod instance;
mod launch;
mod ledger;
mod owner_mark;
mod ownership;
mod process_group;
mod process_tree;
mod reap;
mod reap_cgroups;
mod remote_process;
mod spawn;
mod stderr;
mod stop_sequence;
mod sys;

pub use child::{Child, ProcessExit, StopOutcome};
pub use containment::{CgroupParent, Containment, ContainmentStatus, Guarantee};
pub use error::SpawnError;
pub use instance::{Instance, InstanceError};
pub use launch::{GracePeriods, LaunchSpec};
pub use owner_mark::{HostInstanceId, OWNER_VARIABLE, OwnerMark};
pub use ownership::OwnershipProof;
pub use reap::{Orphan, ReapError, ReapReport, reap};
pub use reap_cgroups::reap_cgroups;
pub use remote_process::{ContainerBinding, RemoteLeftovers, RemoteProcess};
pub(crate) use remote_process::{RemoteProcessHandle, StopMode};
pub use stderr::StderrTail;
pub use stop_sequence::StopMethod;

/// Resident memory of this process in bytes. `None` if the system does not report it.
pub fn memory_usage() -> Option<u64> {
    sys::memory_usage()
}

/// Memory limit of this process in bytes: the smallest limit of its control groups, or the memory of the
/// machine if that is less. `None` if the system does not report it.
pub fn memory_limit() -> Option<u64> {
    sys::memory_limit()
}

/// Maximum number of open files of this process. `None` if there is no limit.
pub fn open_file_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Releases the memory of the program's own code. Most of that code runs only at startup. The kernel reloads
/// a page from the executable when the program needs it again.
pub fn release_code_pages() -> std::io::Result<()> {
    sys::release_code_pages()
}

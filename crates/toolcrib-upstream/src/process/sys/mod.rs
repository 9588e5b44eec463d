//! What only the operating system knows: which processes there are, and how to bind a child's life to ours.

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod cgroup_path;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
pub(crate) use cgroup::{Cgroup, abandoned_cgroups, current_cgroup};
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    become_subreaper, forget_code, identity, identity_in, lives, memory, memory_limit, processes,
    realm, signal,
};
#[cfg(target_os = "linux")]
pub(crate) use spawn::spawn;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    Cgroup, abandoned_cgroups, become_subreaper, current_cgroup, forget_code, identity,
    identity_in, lives, memory, memory_limit, processes, realm, signal, spawn,
};

use std::process::{ChildStderr, ChildStdin, ChildStdout};

use rustix::process::Pid;

use super::mark::Mark;

/// A process that was just started, and our ends of its pipes. It stays in the table until it is waited for.
#[derive(Debug)]
pub(crate) struct Born {
    pub(crate) pid: Pid,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
    /// Whether it is in the cgroup that was made for it.
    pub(crate) is_in_cgroup: bool,
}

/// As the table and people write it.
pub(crate) fn number(pid: Pid) -> u32 {
    pid.as_raw_pid().cast_unsigned()
}

/// One row of the process table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// Ticks since boot. Together with the pid it names one process for ever, where the pid alone is reused.
    pub(crate) start: u64,
    /// Dead, but its parent has not asked for its status.
    pub(crate) zombie: bool,
    /// `None` where the environment has no mark or cannot be read.
    pub(crate) mark: Option<Mark>,
    /// It was in the middle of `execve` each time it was looked at: it may have a mark all the same.
    pub(crate) unsettled: bool,
}

/// One process, told apart from every other that has had or will have its pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) realm: Realm,
}

/// Where a pid means something: one boot of one machine, and there one pid namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Realm {
    pub(crate) boot: String,
    pub(crate) pids: String,
}

impl Identity {
    /// Whether a row of the table of `realm` is this process.
    pub(crate) fn is(&self, realm: &Realm, process: &Process) -> bool {
        self.pid == process.pid && self.start == process.start && self.realm == *realm
    }
}

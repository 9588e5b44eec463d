//! Operating-system interface: process table, cgroups, and spawning of children that die with their parent.

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
    become_subreaper, identity, identity_in_scope, is_alive, list_processes, memory_limit,
    memory_usage, pid_scope, release_code_pages, signal_process,
};
#[cfg(target_os = "linux")]
pub(crate) use spawn::spawn;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    Cgroup, abandoned_cgroups, become_subreaper, current_cgroup, identity, identity_in_scope,
    is_alive, list_processes, memory_limit, memory_usage, pid_scope, release_code_pages,
    signal_process, spawn,
};

use std::process::{ChildStderr, ChildStdin, ChildStdout};

use rustix::process::Pid;

use super::owner_mark::OwnerMark;

/// A process that was just started, and the parent's ends of its pipes. It stays in the process table until
/// it is reaped.
#[derive(Debug)]
pub(crate) struct SpawnedProcess {
    pub(crate) pid: Pid,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
    /// True if the process has joined the cgroup that was made for it.
    pub(crate) is_in_cgroup: bool,
}

/// Returns the pid as an unsigned number, as `/proc` and messages write it.
pub(crate) fn raw_pid(pid: Pid) -> u32 {
    pid.as_raw_pid().cast_unsigned()
}

/// One row of the process table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessInfo {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// Start time in ticks since boot. Pid and start time together identify a process uniquely; a pid alone
    /// is reused.
    pub(crate) start: u64,
    /// The process is dead, but not reaped.
    pub(crate) zombie: bool,
    /// `None` if the environment has no mark or is unreadable.
    pub(crate) mark: Option<OwnerMark>,
    /// The process was in the middle of `execve` at each read, so it may have a mark that was not readable.
    pub(crate) is_mid_exec: bool,
}

/// Identity of one process across pid reuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) pid_scope: PidScope,
}

/// Scope in which a pid is valid: one boot of one machine and one pid namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PidScope {
    pub(crate) boot: String,
    pub(crate) pids: String,
}

impl ProcessIdentity {
    /// Returns whether a row of the process table of `pid_scope` is this process.
    pub(crate) fn matches(&self, pid_scope: &PidScope, process: &ProcessInfo) -> bool {
        self.pid == process.pid && self.start == process.start && self.pid_scope == *pid_scope
    }
}

//! Other Unix systems: children are stopped by process group, and there is no process table to verify
//! orphans.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};

use super::{PidScope, ProcessIdentity, ProcessInfo, SpawnedProcess};
use crate::process::launch::LaunchSpec;
use crate::process::owner_mark::{HostInstanceId, OWNER_VARIABLE, OwnerMark};

/// Uninhabited: only Linux has cgroups.
#[derive(Clone, Debug)]
pub(crate) enum Cgroup {}

pub(crate) fn abandoned_cgroups(_parent: &Path) -> io::Result<Vec<(HostInstanceId, Cgroup)>> {
    Ok(Vec::new())
}

pub(crate) fn current_cgroup() -> io::Result<PathBuf> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no cgroups"))
}

impl Cgroup {
    pub(crate) fn instance_path(parent: &Path, _instance: HostInstanceId) -> PathBuf {
        parent.to_owned()
    }

    pub(crate) fn create(_path: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn existing(_path: &Path, _instance: HostInstanceId) -> Option<Self> {
        None
    }

    pub(crate) fn contains_this_process(&self) -> bool {
        match *self {}
    }

    pub(crate) fn create_child(&self, _session: u64) -> io::Result<Self> {
        match *self {}
    }

    pub(crate) fn children(&self) -> io::Result<Vec<(u64, Self)>> {
        match *self {}
    }

    pub(crate) fn is_populated(&self) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn members(&self) -> io::Result<Vec<ProcessInfo>> {
        match *self {}
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        match *self {}
    }
}

pub(crate) fn become_subreaper() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Starts a program in its own process group. The child cannot be bound to its parent: if the host is killed,
/// the child only sees the end of its stdin.
pub(crate) fn spawn(
    launch: &LaunchSpec,
    mark: OwnerMark,
    _cgroup: Option<&Cgroup>,
) -> io::Result<SpawnedProcess> {
    let mut child = Command::new(&launch.program)
        .args(&launch.args)
        .env_clear()
        .envs(&launch.env)
        .env(OWNER_VARIABLE, mark.to_string())
        .current_dir(&launch.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let piped = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = piped else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let pid = Pid::from_child(&child);
    Ok(SpawnedProcess { pid, stdin, stdout, stderr, is_in_cgroup: false })
}

/// Does nothing: the system reclaims unused code pages itself.
pub(crate) fn release_code_pages() -> io::Result<()> {
    Ok(())
}

pub(crate) fn pid_scope() -> io::Result<PidScope> {
    Ok(PidScope::default())
}

pub(crate) fn identity(pid: u32) -> io::Result<ProcessIdentity> {
    identity_in_scope(pid_scope()?, pid)
}

pub(crate) fn identity_in_scope(pid_scope: PidScope, pid: u32) -> io::Result<ProcessIdentity> {
    Ok(ProcessIdentity { pid, start: 0, pid_scope })
}

pub(crate) fn is_alive(_identity: &ProcessIdentity) -> io::Result<bool> {
    Ok(true)
}

pub(crate) fn list_processes(_since: u64) -> io::Result<Vec<ProcessInfo>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn signal_process(_process: &ProcessInfo, _signal: Signal) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn memory_usage() -> Option<u64> {
    None
}

pub(crate) fn memory_limit() -> Option<u64> {
    None
}

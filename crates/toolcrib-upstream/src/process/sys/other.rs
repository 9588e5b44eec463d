//! Other Unix systems: children are stopped by their group; there is no process table to verify orphans with.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};

use super::{Born, Identity, Process, Realm};
use crate::process::launch::Launch;
use crate::process::mark::{InstanceId, Mark, OWNER_VARIABLE};

/// There are no cgroups here.
#[derive(Clone, Debug)]
pub(crate) enum Cgroup {}

pub(crate) fn abandoned_cgroups(_parent: &Path) -> io::Result<Vec<(InstanceId, Cgroup)>> {
    Ok(Vec::new())
}

pub(crate) fn current_cgroup() -> io::Result<PathBuf> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no cgroups"))
}

impl Cgroup {
    pub(crate) fn path_of(parent: &Path, _instance: InstanceId) -> PathBuf {
        parent.to_owned()
    }

    pub(crate) fn create(_path: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn existing(_path: &Path, _instance: InstanceId) -> Option<Self> {
        None
    }

    pub(crate) fn is_around_this_process(&self) -> bool {
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

    pub(crate) fn members(&self) -> io::Result<Vec<Process>> {
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

/// Starts a program in its own group. It cannot be bound to its parent here: a child of a killed host sees the end of
/// its stdin and no more.
pub(crate) fn spawn(launch: &Launch, mark: Mark, _cgroup: Option<&Cgroup>) -> io::Result<Born> {
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
    Ok(Born { pid, stdin, stdout, stderr, is_in_cgroup: false })
}

/// What is not needed is taken back by the system itself when it wants it.
pub(crate) fn forget_code() -> io::Result<()> {
    Ok(())
}

pub(crate) fn realm() -> io::Result<Realm> {
    Ok(Realm::default())
}

pub(crate) fn identity(pid: u32) -> io::Result<Identity> {
    identity_in(realm()?, pid)
}

pub(crate) fn identity_in(realm: Realm, pid: u32) -> io::Result<Identity> {
    Ok(Identity { pid, start: 0, realm })
}

pub(crate) fn lives(_identity: &Identity) -> io::Result<bool> {
    Ok(true)
}

pub(crate) fn processes(_since: u64) -> io::Result<Vec<Process>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn signal(_process: &Process, _signal: Signal) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn memory() -> Option<u64> {
    None
}

pub(crate) fn memory_limit() -> Option<u64> {
    None
}

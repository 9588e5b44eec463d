//! Other Unix systems: children are stopped by their group; there is no process table to verify orphans with.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};

use super::{Born, Identity, Process, Realm};
use crate::process::launch::Launch;
use crate::process::mark::{Mark, OWNER_VARIABLE};

/// Starts a program in its own group. It cannot be bound to its parent here: a child of a killed host sees the end of
/// its stdin and no more.
pub(crate) fn spawn(launch: &Launch, mark: Mark) -> io::Result<Born> {
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
    Ok(Born { pid: Pid::from_child(&child), stdin, stdout, stderr })
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

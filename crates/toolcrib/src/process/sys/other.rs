//! Other Unix systems: children are stopped by their group; there is no process table to verify orphans with.

use std::io;
use std::process::Command;

use rustix::process::Signal;

use super::{Identity, Process, Realm};

/// There is no such request here: a child of a killed host sees the end of its stdin and no more.
pub(crate) fn die_with_parent(_command: &mut Command) {}

/// What is not needed is taken back by the system itself when it wants it.
pub(crate) fn forget_code() -> io::Result<()> {
    Ok(())
}

pub(crate) fn realm() -> io::Result<Realm> {
    Ok(Realm::default())
}

pub(crate) fn identity(pid: u32) -> io::Result<Identity> {
    Ok(Identity { pid, start: 0, realm: realm()? })
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

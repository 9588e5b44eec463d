//! The ledger: on disk, which children a host instance has, so that the next start can end what outlived it.
//!
//! `<state>/ledger/<instance>.jsonl`, locked while the instance lives. The kernel releases the lock when the
//! instance dies, however it dies; a file that can be locked is therefore a dead instance's. The descriptor is
//! closed on exec, as all of std's are, so that no child keeps its host's lock. A child of a host that was killed
//! before its `execve` keeps it until it has died too, which it does at once.

mod dead;
mod line;
mod own;

pub(crate) use dead::{Claim, Dead, claim};
pub(crate) use line::Entry;
pub(crate) use own::Ledger;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::mark::InstanceId;

pub(crate) fn folder(state: &Path) -> PathBuf {
    state.join("ledger")
}

fn file_name(instance: InstanceId) -> String {
    format!("{instance}.jsonl")
}

/// Where compaction writes before it renames; it exists beside the ledger only for that moment.
fn draft_of(ledger: &Path) -> PathBuf {
    ledger.with_extension("jsonl.next")
}

/// Whether `path` still leads to this very file: between opening and locking somebody may have replaced it.
fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

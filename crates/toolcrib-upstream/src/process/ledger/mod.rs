//! The ledger: a file that records an instance's children, so that the next start can reap orphans.
//!
//! Path: `<state>/ledger/<instance>.jsonl`. The instance locks the file while it lives. The kernel releases
//! the lock when the instance dies, so a file that can be locked belongs to a dead instance. Like all of
//! std's descriptors, the descriptor closes on exec, so children do not keep the lock. A child of a killed
//! host keeps the lock until its `execve`, and dies at once.

mod claim;
mod format;
mod writer;

pub(crate) use claim::{ClaimOutcome, ClaimedLedger, claim_ledger};
pub(crate) use format::ChildEntry;
pub(crate) use writer::Ledger;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::owner_mark::HostInstanceId;

pub(crate) fn ledger_folder(state: &Path) -> PathBuf {
    state.join("ledger")
}

fn file_name(instance: HostInstanceId) -> String {
    format!("{instance}.jsonl")
}

/// Temporary file of the compaction. It exists only until the compaction renames it over the ledger.
fn compaction_path(ledger: &Path) -> PathBuf {
    ledger.with_extension("jsonl.next")
}

/// Returns whether `path` still refers to this open file. Another process may have replaced it between opening and
/// locking.
fn is_same_file(path: &Path, file: &File) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

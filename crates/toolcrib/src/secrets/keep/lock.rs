//! Locks between processes: files that the kernel unlocks, however their holder ends.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::disk::{private_file, private_folder};
use super::error::KeepError;

/// How often a lock that is held is tried: a lock has no other bounded wait.
const AGAIN: Duration = Duration::from_millis(10);

/// Nobody else has the credentials of this name while this lives.
#[derive(Debug)]
pub struct KeepLock {
    _file: File,
}

/// The lock of the file at `path`, within `wait`.
pub(super) async fn lock(path: PathBuf, name: &str, wait: Duration) -> Result<KeepLock, KeepError> {
    let deadline = Instant::now() + wait;
    let at = path.clone();
    let failed = |cause| KeepError::File { what: "lock", path: path.clone(), cause };
    let opened = spawn_blocking(move || open(&at)).await;
    let file = opened.unwrap_or_else(|error| Err(error.into())).map_err(failed)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(KeepLock { _file: file }),
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(KeepError::Held { name: name.to_owned(), waited: wait });
            }
            Err(TryLockError::WouldBlock) => sleep(AGAIN.min(deadline - Instant::now())).await,
        }
    }
}

/// The lock's file stays when the lock goes: whoever waits for it has it open.
fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    private_file(path)
}

//! Locks on credentials, awaited without blocking a thread.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::error::CredentialStoreError;
use crate::disk::{FileLock, LOCK_RETRY_INTERVAL, LockFile};

/// Exclusive lock on the credential of one name.
#[derive(Debug)]
pub struct CredentialLock {
    _lock: FileLock,
}

/// Takes the lock of the file at `path` within `wait`.
pub(super) async fn acquire_lock(
    path: PathBuf,
    name: &str,
    wait: Duration,
) -> Result<CredentialLock, CredentialStoreError> {
    let deadline = Instant::now() + wait;
    let at = path.clone();
    let failed =
        |cause| CredentialStoreError::File { operation: "lock", path: path.clone(), cause };
    let opened = spawn_blocking(move || LockFile::open(&at)).await;
    let mut file = opened.unwrap_or_else(|error| Err(error.into())).map_err(failed)?;
    loop {
        file = match file.try_lock().map_err(failed)? {
            Ok(lock) => return Ok(CredentialLock { _lock: lock }),
            Err(_) if Instant::now() >= deadline => {
                return Err(CredentialStoreError::Held { name: name.to_owned(), waited: wait });
            }
            Err(file) => file,
        };
        sleep(LOCK_RETRY_INTERVAL.min(deadline - Instant::now())).await;
    }
}

//! The lock of what is kept, waited for without a thread.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::error::KeepError;
use crate::disk::{AGAIN, Lock, LockFile};

/// Nobody else has the credentials of this name while this lives.
#[derive(Debug)]
pub struct KeepLock {
    _lock: Lock,
}

/// The lock of the file at `path`, within `wait`.
pub(super) async fn lock(path: PathBuf, name: &str, wait: Duration) -> Result<KeepLock, KeepError> {
    let deadline = Instant::now() + wait;
    let at = path.clone();
    let failed = |cause| KeepError::File { what: "lock", path: path.clone(), cause };
    let opened = spawn_blocking(move || LockFile::open(&at)).await;
    let mut file = opened.unwrap_or_else(|error| Err(error.into())).map_err(failed)?;
    loop {
        file = match file.try_lock().map_err(failed)? {
            Ok(lock) => return Ok(KeepLock { _lock: lock }),
            Err(_) if Instant::now() >= deadline => {
                return Err(KeepError::Held { name: name.to_owned(), waited: wait });
            }
            Err(held) => held,
        };
        sleep(AGAIN.min(deadline - Instant::now())).await;
    }
}

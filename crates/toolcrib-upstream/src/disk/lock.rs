//! Locks between processes: lock files that the kernel unlocks when their holder exits.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::file_system::{create_private_folder, open_private_file};

/// Interval between attempts to take a held lock, because file locks have no wait with a timeout.
pub(crate) const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// A lock file. It stays on disk after unlocking, because waiting processes have it open.
#[derive(Debug)]
pub struct LockFile(File);

/// An exclusive lock, released on drop.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl LockFile {
    /// Opens the lock file. Creates the file and its folder if they are missing. Blocks.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            create_private_folder(folder)?;
        }
        open_private_file(path).map(LockFile)
    }

    /// Takes the lock, or returns the file if another process holds the lock.
    pub fn try_lock(self) -> io::Result<Result<FileLock, Self>> {
        match self.0.try_lock() {
            Ok(()) => Ok(Ok(FileLock { _file: self.0 })),
            Err(TryLockError::WouldBlock) => Ok(Err(self)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Takes the lock within `wait`. Blocks.
    pub fn lock(mut self, wait: Duration) -> io::Result<FileLock> {
        let started = Instant::now();
        loop {
            self = match self.try_lock()? {
                Ok(lock) => return Ok(lock),
                Err(_) if started.elapsed() >= wait => {
                    let text =
                        format!("another process has held the lock for {} ms", wait.as_millis());
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
                }
                Err(file) => file,
            };
            std::thread::sleep(LOCK_RETRY_INTERVAL);
        }
    }
}

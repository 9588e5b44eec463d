//! Locks between processes: files that the kernel unlocks, however their holder ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::steps::{private_file, private_folder};

/// How often a lock that is held is tried: a lock has no other bounded wait.
pub(crate) const AGAIN: Duration = Duration::from_millis(10);

/// A file that is there to be locked. It stays when the lock goes: whoever waits for it has it open.
#[derive(Debug)]
pub struct LockFile(File);

/// Nobody else has the lock while this lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl LockFile {
    /// Makes it, and its folder, where it is not there. Blocks.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            private_folder(folder)?;
        }
        private_file(path).map(LockFile)
    }

    /// The lock, or the file again where somebody else has it.
    pub fn try_lock(self) -> io::Result<Result<Lock, Self>> {
        match self.0.try_lock() {
            Ok(()) => Ok(Ok(Lock { _file: self.0 })),
            Err(TryLockError::WouldBlock) => Ok(Err(self)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The lock, within some time. Blocks.
    pub fn lock(mut self, wait: Duration) -> io::Result<Lock> {
        let begun = Instant::now();
        loop {
            self = match self.try_lock()? {
                Ok(lock) => return Ok(lock),
                Err(_) if begun.elapsed() >= wait => {
                    let text = format!("another process has held it for {} ms", wait.as_millis());
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
                }
                Err(held) => held,
            };
            std::thread::sleep(AGAIN);
        }
    }
}

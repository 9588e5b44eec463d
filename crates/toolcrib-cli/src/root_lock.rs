//! A second lock for a workspace's host, outside of the state folder. A running host keeps it when its state folder is
//! deleted, so that no second host starts.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::settings::path_digest;

/// Maximum number of attempts. The holder removes the file while it holds the lock, so a process that locked the
/// removed file opens it again.
const MAX_ATTEMPTS: usize = 100;

/// The lock, held until dropped.
#[derive(Debug)]
pub(crate) struct RootLock {
    file: File,
    path: PathBuf,
}

/// Result of a lock attempt.
#[derive(Debug)]
pub(crate) enum LockAttempt {
    Locked(RootLock),
    /// Another host holds the lock. Contains its announcement, which is empty at first.
    Held(Vec<u8>),
}

impl RootLock {
    /// Tries to lock the workspace with this state folder. `folder` exists and is the same for all processes of the
    /// user.
    pub(crate) fn try_lock(folder: &Path, state: &Path) -> io::Result<LockAttempt> {
        let path = lock_path(folder, state);
        for _ in 0..MAX_ATTEMPTS {
            let mut open = OpenOptions::new();
            open.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = open.open(&path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    return Ok(LockAttempt::Locked(RootLock { file, path }));
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Ok(LockAttempt::Held(fs::read(&path).unwrap_or_default()));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other("cannot lock: the lock file is being replaced continuously"))
    }

    /// Returns the announcement of the host that holds the lock, or `None` if the lock is free.
    pub(crate) fn read_holder(folder: &Path, state: &Path) -> Option<Vec<u8>> {
        let path = lock_path(folder, state);
        let file = File::open(&path).ok()?;
        // A shared lock does not block other readers. A host that starts at this moment tries again.
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => fs::read(&path).ok(),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    pub(crate) fn announce(&mut self, text: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(text)
    }
}

impl Drop for RootLock {
    fn drop(&mut self) {
        // If the removal fails, the next host locks the same file.
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_path(folder: &Path, state: &Path) -> PathBuf {
    folder.join(format!("{}.lock", path_digest(state)))
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(there)) => identity(held) == identity(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_process_holds_the_lock_and_its_announcement_is_readable() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = |state: &str| RootLock::try_lock(folder.path(), Path::new(state)).unwrap();
        let LockAttempt::Locked(mut lock) = attempt("/state/a") else { panic!("the lock is held") };
        lock.announce(b"first").unwrap();
        let LockAttempt::Held(text) = attempt("/state/a") else { panic!("the lock is free") };
        assert_eq!(text, b"first");
        let holder = |state: &str| RootLock::read_holder(folder.path(), Path::new(state));
        assert_eq!(holder("/state/a").as_deref(), Some(&b"first"[..]));
        assert_eq!(holder("/state/b"), None);
        assert!(matches!(attempt("/state/b"), LockAttempt::Locked(_)), "another root");
        drop(lock);
        assert!(matches!(attempt("/state/a"), LockAttempt::Locked(_)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "lock files remain");
    }
}

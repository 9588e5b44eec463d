//! A second lock of a root's host, outside of the state folder: a running host whose state folder is deleted holds it
//! still, so that no second host starts.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::settings::digits;

/// The file is removed by its holder while the lock is held; a file that was locked too late is opened again.
const ATTEMPTS: usize = 100;

/// The lock, for as long as this lives.
#[derive(Debug)]
pub(crate) struct RootLock {
    file: File,
    path: PathBuf,
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Attempt {
    Locked(RootLock),
    /// Another host holds the lock; this is its announcement, empty before there is one.
    Held(Vec<u8>),
}

impl RootLock {
    /// Tries to lock the root whose state is in `state`. `folder` is the same for all processes of this user and
    /// exists.
    pub(crate) fn try_lock(folder: &Path, state: &Path) -> io::Result<Attempt> {
        let path = lock_path(folder, state);
        for _ in 0..ATTEMPTS {
            let mut open = OpenOptions::new();
            open.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = open.open(&path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    return Ok(Attempt::Locked(RootLock { file, path }));
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Ok(Attempt::Held(fs::read(&path).unwrap_or_default()));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other("the lock file is replaced all the time"))
    }

    /// The announcement of the host that holds the lock of this root; `None` if nobody holds the lock.
    pub(crate) fn holder(folder: &Path, state: &Path) -> Option<Vec<u8>> {
        let path = lock_path(folder, state);
        let file = File::open(&path).ok()?;
        // A shared lock is no obstacle to other readers. A host that starts meanwhile tries again.
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
        // A file that cannot be removed is locked again by the next host.
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_path(folder: &Path, state: &Path) -> PathBuf {
    folder.join(format!("{}.lock", digits(state)))
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
    fn one_process_holds_the_lock_and_its_announcement_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = |state: &str| RootLock::try_lock(folder.path(), Path::new(state)).unwrap();
        let Attempt::Locked(mut lock) = attempt("/state/a") else { panic!("it is free") };
        lock.announce(b"first").unwrap();
        let Attempt::Held(text) = attempt("/state/a") else { panic!("it is held") };
        assert_eq!(text, b"first");
        let holder = |state: &str| RootLock::holder(folder.path(), Path::new(state));
        assert_eq!(holder("/state/a").as_deref(), Some(&b"first"[..]));
        assert_eq!(holder("/state/b"), None);
        assert!(matches!(attempt("/state/b"), Attempt::Locked(_)), "another root");
        drop(lock);
        assert!(matches!(attempt("/state/a"), Attempt::Locked(_)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }
}

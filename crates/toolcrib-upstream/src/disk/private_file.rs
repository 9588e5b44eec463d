//! A file that only its owner can access, changed under a lock and replaced atomically.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file_system::{PRIVATE_MODE, replace_file};
use super::lock::{FileLock, LockFile};

/// Maximum size that is read. No file of this program is larger.
const MAX_SIZE: u64 = 16 << 20;

/// Timeout for another writer's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Path of the file. The content is not cached.
#[derive(Clone, Debug)]
pub struct PrivateFile(PathBuf);

impl PrivateFile {
    /// Creates a handle for `path` without any I/O.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        PrivateFile(path.into())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the file; returns `None` if it does not exist. Blocks.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let read = File::open(&self.0).and_then(|file| {
            let mut content = Vec::new();
            file.take(MAX_SIZE).read_to_end(&mut content)?;
            Ok(content)
        });
        match read {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Locks the file for a read-modify-write. Blocks for at most a few seconds.
    pub fn lock(&self) -> io::Result<FileLock> {
        self.lock_with_timeout(LOCK_TIMEOUT)
    }

    /// Replaces the file atomically. The lock guarantees that the temporary file beside it is free. Blocks.
    pub fn replace(&self, _lock: &FileLock, content: &[u8]) -> io::Result<()> {
        replace_file(&self.0.with_extension("new"), &self.0, content, PRIVATE_MODE)
    }

    fn lock_with_timeout(&self, wait: Duration) -> io::Result<FileLock> {
        LockFile::open(&self.0.with_extension("lock"))?.lock(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lock_is_exclusive_and_waits_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let file = PrivateFile::new(folder.path().join("deep/a.json"));
        assert_eq!(file.read().unwrap(), None);
        let lock = file.lock().unwrap();
        let error = file.lock_with_timeout(Duration::from_millis(30)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        file.replace(&lock, b"one").unwrap();
        file.replace(&lock, b"2").unwrap();
        drop(lock);
        assert_eq!(file.read().unwrap().as_deref(), Some(&b"2"[..]));
        let lock = file.lock_with_timeout(Duration::ZERO).unwrap();
        for path in [file.path().to_owned(), file.path().with_extension("lock")] {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
        drop(lock);
    }
}

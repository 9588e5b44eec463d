//! A file of its owner's alone, which is changed by one at a time and replaced as a whole.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lock::{Lock, LockFile};
use super::steps::{PRIVATE, replace};

/// A file that is larger is not ours.
const MOST: u64 = 16 << 20;

/// Another process that writes is done within this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// The file. Nothing of it is held.
#[derive(Clone, Debug)]
pub struct PrivateFile(PathBuf);

impl PrivateFile {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        PrivateFile(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is there, if anything is. Blocks.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let read = File::open(&self.0).and_then(|file| {
            let mut content = Vec::new();
            file.take(MOST).read_to_end(&mut content)?;
            Ok(content)
        });
        match read {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// For reading, changing and replacing it. Blocks, but not for ever.
    pub fn lock(&self) -> io::Result<Lock> {
        self.lock_within(PATIENCE)
    }

    /// Whoever has the lock is alone, so that the name beside the file is free. Blocks.
    pub fn replace(&self, _alone: &Lock, content: &[u8]) -> io::Result<()> {
        replace(&self.0.with_extension("new"), &self.0, content, PRIVATE)
    }

    fn lock_within(&self, wait: Duration) -> io::Result<Lock> {
        LockFile::open(&self.0.with_extension("lock"))?.lock(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_nobody_waits_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let file = PrivateFile::new(folder.path().join("deep/a.json"));
        assert_eq!(file.read().unwrap(), None);
        let alone = file.lock().unwrap();
        let error = file.lock_within(Duration::from_millis(30)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        file.replace(&alone, b"one").unwrap();
        file.replace(&alone, b"2").unwrap();
        drop(alone);
        assert_eq!(file.read().unwrap().as_deref(), Some(&b"2"[..]));
        let alone = file.lock_within(Duration::ZERO).unwrap();
        for path in [file.path().to_owned(), file.path().with_extension("lock")] {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
        drop(alone);
    }
}

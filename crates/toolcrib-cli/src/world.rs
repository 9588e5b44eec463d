//! The real environment and the real files.

use std::io::Read;
use std::path::{Path, PathBuf};

use toolcrib_config::{File, Lookup};

/// No file of a configuration is larger; what is beyond is not read, and reported as too large.
const MOST: u64 = 9 << 20;

/// The process's environment and file system.
#[derive(Debug)]
pub(crate) struct Real {
    cwd: PathBuf,
}

impl Real {
    #[expect(clippy::disallowed_methods, reason = "the binary is where the process is asked")]
    pub(crate) fn of_process() -> Self {
        Self { cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")) }
    }

    /// All variables; those that are no text are left out, since no configuration can name them.
    #[expect(clippy::disallowed_methods, reason = "the binary is where the process is asked")]
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        std::env::vars_os().filter_map(text).collect()
    }

    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }
}

impl Lookup for Real {
    #[expect(clippy::disallowed_methods, reason = "the binary is where the process is asked")]
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> File {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        match read(path) {
            Ok(content) => content,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => File::Missing,
            Err(error) => File::Unreadable(error.to_string()),
        }
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

/// Only regular files are read: a pipe could keep the reader waiting for ever.
fn read(path: &Path) -> std::io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(File::Unreadable("it is not a regular file".to_string()));
    }
    let mut content = Vec::new();
    std::fs::File::open(path)?.take(MOST).read_to_end(&mut content)?;
    Ok(File::Content(content))
}

//! The real environment and the real files.

use std::path::{Path, PathBuf};

use toolcrib_config::{File, Lookup};

/// The process's environment and file system.
#[derive(Clone, Debug)]
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
        toolcrib::host::file(path)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

//! The process's environment and file system.

use std::path::{Path, PathBuf};

use toolcrib_config::{FileLookup, Lookup};

/// Lookup in the real environment and the real file system.
#[derive(Clone, Debug)]
pub(crate) struct ProcessEnvironment {
    cwd: PathBuf,
}

impl ProcessEnvironment {
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary reads the environment of the process"
    )]
    pub(crate) fn current() -> Self {
        Self { cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")) }
    }

    /// Returns all variables that are valid Unicode. No configuration can name the others.
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary reads the environment of the process"
    )]
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

impl Lookup for ProcessEnvironment {
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary reads the environment of the process"
    )]
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> FileLookup {
        toolcrib::internal::read_config_file(path)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

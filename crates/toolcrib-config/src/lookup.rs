//! Access to the environment and to files, implemented by the caller.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Access to the environment and the files that a configuration refers to.
pub trait Lookup {
    /// Returns an environment variable.
    fn env(&self, name: &str) -> Option<String>;
    /// Reads a file.
    fn file(&self, path: &Path) -> FileLookup;
    /// Returns whether a path is a folder.
    fn is_dir(&self, path: &Path) -> bool;
}

/// Result of looking up a file.
#[derive(Clone, Debug, PartialEq)]
pub enum FileLookup {
    /// The content of the file.
    Content(Vec<u8>),
    /// The file does not exist.
    Missing,
    /// The file exists and cannot be read, for this reason.
    Unreadable(String),
}

/// An in-memory lookup for tests, fuzzing and programs without files.
#[derive(Clone, Debug, Default)]
pub struct MemoryLookup {
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Files by absolute path.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
}

impl MemoryLookup {
    /// Adds an environment variable.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_string(), value.to_string());
        self
    }

    /// Adds a file.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), content.into());
        self
    }
}

impl Lookup for MemoryLookup {
    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn file(&self, path: &Path) -> FileLookup {
        self.files
            .get(path)
            .map_or(FileLookup::Missing, |content| FileLookup::Content(content.clone()))
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.files.keys().any(|file| file != path && file.starts_with(path))
    }
}

/// Records every requested file, existing or not, so that all of them can be watched.
pub(crate) struct RecordingLookup<'a> {
    inner: &'a dyn Lookup,
    requested: RefCell<BTreeSet<PathBuf>>,
}

impl<'a> RecordingLookup<'a> {
    pub(crate) fn new(inner: &'a dyn Lookup) -> Self {
        Self { inner, requested: RefCell::default() }
    }

    pub(crate) fn into_requested_files(self) -> BTreeSet<PathBuf> {
        self.requested.into_inner()
    }
}

impl Lookup for RecordingLookup<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.inner.env(name)
    }

    fn file(&self, path: &Path) -> FileLookup {
        self.requested.borrow_mut().insert(path.to_path_buf());
        self.inner.file(path)
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.inner.is_dir(path)
    }
}

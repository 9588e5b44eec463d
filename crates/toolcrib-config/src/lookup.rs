//! What a configuration asks of the world: variables and files, passed in by the caller.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The environment and the files that a configuration may refer to.
pub trait Lookup {
    fn env(&self, name: &str) -> Option<String>;
    fn file(&self, path: &Path) -> File;
    fn is_dir(&self, path: &Path) -> bool;
}

/// The answer to asking for a file.
#[derive(Clone, Debug, PartialEq)]
pub enum File {
    Content(Vec<u8>),
    Missing,
    /// It is there and cannot be read, for this reason.
    Unreadable(String),
}

/// A world held in memory: for tests, fuzzing and programs that have no files.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub env: BTreeMap<String, String>,
    pub files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Memory {
    #[must_use]
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_string(), value.to_string());
        self
    }

    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), content.into());
        self
    }
}

impl Lookup for Memory {
    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn file(&self, path: &Path) -> File {
        self.files.get(path).map_or(File::Missing, |content| File::Content(content.clone()))
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.files.keys().any(|file| file != path && file.starts_with(path))
    }
}

/// Remembers which files were asked for, present or not, so that all of them can be watched.
pub(crate) struct Recorder<'a> {
    inner: &'a dyn Lookup,
    asked: RefCell<BTreeSet<PathBuf>>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(inner: &'a dyn Lookup) -> Self {
        Self { inner, asked: RefCell::default() }
    }

    pub(crate) fn into_asked(self) -> BTreeSet<PathBuf> {
        self.asked.into_inner()
    }
}

impl Lookup for Recorder<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.inner.env(name)
    }

    fn file(&self, path: &Path) -> File {
        self.asked.borrow_mut().insert(path.to_path_buf());
        self.inner.file(path)
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.inner.is_dir(path)
    }
}

//! The files and variables that a host reads its configuration from.

use std::io::{ErrorKind, Read};
use std::path::Path;

use toolcrib_config::{File, Lookup};

/// No file of a configuration is larger; what is beyond is not read, and reported as too large.
const MOST: u64 = 9 << 20;

/// The file system, and an environment that was passed in.
pub(super) struct Files<'a> {
    pub(super) env: &'a [(String, String)],
}

impl Lookup for Files<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.env.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn file(&self, path: &Path) -> File {
        file(path)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

/// What a file of a configuration holds.
pub fn file(path: &Path) -> File {
    use ErrorKind::{NotADirectory, NotFound};
    match read(path) {
        Ok(content) => content,
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => File::Missing,
        Err(error) => File::Unreadable(error.to_string()),
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

/// The same, and one text that is in no file.
pub(super) struct Beside<'a> {
    pub(super) files: Files<'a>,
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Lookup for Beside<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.files.env(name)
    }

    fn file(&self, path: &Path) -> File {
        match path == self.path {
            true => File::Content(self.text.as_bytes().to_vec()),
            false => self.files.file(path),
        }
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.files.is_dir(path)
    }
}

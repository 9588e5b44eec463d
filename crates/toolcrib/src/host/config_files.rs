//! Reads the files and variables of a host's configuration.

use std::io::{ErrorKind, Read};
use std::path::Path;

use toolcrib_config::{FileLookup, Lookup};

/// Maximum number of bytes read of a configuration file. Larger files are reported as too large.
const MAX_FILE_BYTES: u64 = 9 << 20;

/// Looks up files in the file system and variables in a given environment.
pub(super) struct FileSystemLookup<'a> {
    pub(super) env: &'a [(String, String)],
}

impl Lookup for FileSystemLookup<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.env.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn file(&self, path: &Path) -> FileLookup {
        read_config_file(path)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

/// Reads a configuration file.
pub fn read_config_file(path: &Path) -> FileLookup {
    use ErrorKind::{NotADirectory, NotFound};
    match read_regular_file(path) {
        Ok(content) => content,
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => FileLookup::Missing,
        Err(error) => FileLookup::Unreadable(error.to_string()),
    }
}

/// Reads a regular file. Other files are refused, because reading a pipe could block forever.
fn read_regular_file(path: &Path) -> std::io::Result<FileLookup> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(FileLookup::Unreadable("not a regular file".to_string()));
    }
    let mut content = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut content)?;
    Ok(FileLookup::Content(content))
}

/// Looks up files in the file system, and one text that is in no file.
pub(super) struct OverlayLookup<'a> {
    pub(super) files: FileSystemLookup<'a>,
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Lookup for OverlayLookup<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.files.env(name)
    }

    fn file(&self, path: &Path) -> FileLookup {
        match path == self.path {
            true => FileLookup::Content(self.text.as_bytes().to_vec()),
            false => self.files.file(path),
        }
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.files.is_dir(path)
    }
}

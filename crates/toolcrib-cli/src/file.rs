//! Writing a file whole or not at all, and never over one without a copy of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use toolcrib_upstream::disk;

pub(crate) use toolcrib_upstream::disk::PRIVATE;

/// Writes `content` to `path`. What was there before is kept under a name that was free, which is returned. The file
/// is the owner's alone.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<Option<PathBuf>, String> {
    let backup = keep(path).map_err(|error| failed("keep a copy of", path, &error))?;
    let written = write(path, content, PRIVATE);
    if let (Err(_), Some(copy)) = (&written, &backup) {
        // What was there is still there; a second copy of it is nobody's.
        let _ = fs::remove_file(copy);
    }
    written.map(|()| backup)
}

/// Writes `content` to `path` by way of a file beside it; nothing is kept of what was there.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))?;
    }
    let (draft, _) =
        free_file(path, "new").map_err(|error| failed("write beside", path, &error))?;
    let draft = Draft(draft);
    disk::replace(&draft.0, path, content, mode).map_err(|error| failed("write", path, &error))
}

/// A file beside the one that it is to be; gone unless it gets there.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // It is not there any more if it got where it was to be.
        let _ = fs::remove_file(&self.0);
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

/// Copies what is there to a free name.
fn keep(path: &Path) -> io::Result<Option<PathBuf>> {
    let content = match fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (backup, mut file) = free_file(path, "bak")?;
    file.write_all(&content)?;
    file.sync_all()?;
    Ok(Some(backup))
}

/// Creates a file that was not there: `name.bak`, `name.bak.1`, and so on.
fn free_file(path: &Path, suffix: &str) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names = std::iter::once(format!("{name}.{suffix}"))
        .chain((1..1000).map(|n| format!("{name}.{suffix}.{n}")));
    loop {
        let Some(name) = names.next() else { return Err(ErrorKind::AlreadyExists.into()) };
        let path = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

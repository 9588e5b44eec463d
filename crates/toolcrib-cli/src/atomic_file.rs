//! Atomic file writes, with a backup of any existing file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use toolcrib_upstream::disk;

pub(crate) use toolcrib_upstream::disk::PRIVATE_MODE;

/// Writes `content` to `path` and returns the backup of the previous file. The new file is readable by its owner only.
pub(crate) fn replace_with_backup(path: &Path, content: &[u8]) -> Result<Option<PathBuf>, String> {
    let backup = back_up(path).map_err(|error| io_error("back up", path, &error))?;
    let written = write_atomically(path, content, PRIVATE_MODE);
    if let (Err(_), Some(copy)) = (&written, &backup) {
        // The original file is still in place, so the copy is not needed.
        let _ = fs::remove_file(copy);
    }
    written.map(|()| backup)
}

/// Writes `content` to `path` through a temporary file in the same folder, without a backup.
pub(crate) fn write_atomically(path: &Path, content: &[u8], mode: u32) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| io_error("create", folder, &error))?;
    }
    let (draft, _) = create_unused(path, "new")
        .map_err(|error| io_error("create a temporary file beside", path, &error))?;
    let draft = TempFile(draft);
    disk::replace_file(&draft.0, path, content, mode)
        .map_err(|error| io_error("write", path, &error))
}

/// A temporary file beside its destination. Dropping it removes it unless it was renamed.
struct TempFile(PathBuf);

impl Drop for TempFile {
    fn drop(&mut self) {
        // After a successful rename the file no longer exists under this name.
        let _ = fs::remove_file(&self.0);
    }
}

fn io_error(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

/// Copies an existing file to an unused name.
fn back_up(path: &Path) -> io::Result<Option<PathBuf>> {
    let content = match fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (backup, mut file) = create_unused(path, "bak")?;
    file.write_all(&content)?;
    file.sync_all()?;
    Ok(Some(backup))
}

/// Creates a file under the first unused name of `name.bak`, `name.bak.1`, and so on.
fn create_unused(path: &Path, suffix: &str) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names = std::iter::once(format!("{name}.{suffix}"))
        .chain((1..1000).map(|n| format!("{name}.{suffix}.{n}")));
    loop {
        let Some(name) = names.next() else { return Err(ErrorKind::AlreadyExists.into()) };
        let path = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).mode(PRIVATE_MODE).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

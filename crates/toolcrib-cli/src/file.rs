//! Writing a file whole or not at all, and never over one without a copy of it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes `content` to `path` by way of a file beside it. What was there before is kept under a name
/// that was free, which is returned. The file is the owner's alone: it may hold secrets.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<Option<PathBuf>, String> {
    let failed = |what: &str, path: &Path, error: std::io::Error| {
        format!("cannot {what} {}: {error}", path.display())
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed("create", folder, error))?;
    }
    let (fresh, mut file) =
        free_file(path, "new").map_err(|error| failed("write beside", path, error))?;
    let write = file.write_all(content).and_then(|()| file.sync_all());
    let placed = write.map_err(|error| failed("write", &fresh, error)).and_then(|()| {
        let backup = keep(path).map_err(|error| failed("keep a copy of", path, error))?;
        fs::rename(&fresh, path).map_err(|error| failed("write", path, error))?;
        Ok(backup)
    });
    if placed.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    placed
}

/// Copies what is there to a free name.
fn keep(path: &Path) -> std::io::Result<Option<PathBuf>> {
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
fn free_file(path: &Path, suffix: &str) -> std::io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names = std::iter::once(format!("{name}.{suffix}"))
        .chain((1..1000).map(|n| format!("{name}.{suffix}.{n}")));
    loop {
        let Some(name) = names.next() else { return Err(ErrorKind::AlreadyExists.into()) };
        let path = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

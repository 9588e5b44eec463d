//! Writing a file whole or not at all, and never over one without a copy of it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The owner's alone: it may hold secrets.
pub(crate) const PRIVATE: u32 = 0o600;

/// Writes `content` to `path` by way of a file beside it. What was there before is kept under a name
/// that was free, which is returned. The file is the owner's alone.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<Option<PathBuf>, String> {
    let fresh = Fresh::write(path, content, PRIVATE)?;
    let backup = keep(path).map_err(|error| failed("keep a copy of", path, &error))?;
    fresh.place(path)?;
    Ok(backup)
}

/// Writes `content` to `path` by way of a file beside it; nothing is kept of what was there.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), String> {
    Fresh::write(path, content, mode)?.place(path)
}

/// A file beside the one that it is to be; gone unless it gets there.
struct Fresh(PathBuf);

impl Fresh {
    fn write(path: &Path, content: &[u8], mode: u32) -> Result<Self, String> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))?;
        }
        let (fresh, mut file) =
            free_file(path, "new").map_err(|error| failed("write beside", path, &error))?;
        let fresh = Fresh(fresh);
        let written = file.write_all(content).and_then(|()| {
            file.set_permissions(Permissions::from_mode(mode))?;
            file.sync_all()
        });
        written.map_err(|error| failed("write", &fresh.0, &error))?;
        Ok(fresh)
    }

    fn place(self, path: &Path) -> Result<(), String> {
        fs::rename(&self.0, path).map_err(|error| failed("write", path, &error))
    }
}

impl Drop for Fresh {
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

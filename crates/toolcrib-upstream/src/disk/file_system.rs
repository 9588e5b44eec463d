//! File operations of an atomic replacement, behind a trait so that tests can inject a crash at each step.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// File mode for files that may hold secrets: access for the owner only.
pub const PRIVATE_MODE: u32 = 0o600;

/// Replaces `path` atomically: writes `draft` in the same folder, syncs it and renames it. The caller must
/// own `draft`.
pub fn replace_file(draft: &Path, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    replace_file_on(&OsFileSystem, draft, path, content, mode)
}

/// Replaces a file atomically on the given file system.
pub(crate) fn replace_file_on(
    disk: &dyn FileSystem,
    draft: &Path,
    path: &Path,
    content: &[u8],
    mode: u32,
) -> io::Result<()> {
    disk.write(draft, content, mode)?;
    disk.sync(draft)?;
    disk.rename(draft, path)?;
    // A path without a folder is relative to the current directory.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    disk.sync(folder.unwrap_or(Path::new(".")))
}

pub(crate) trait FileSystem: fmt::Debug + Send + Sync {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Writes the whole file with the given mode. An interrupted write may leave a part of the content.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;
    /// Makes a file's content, or a folder's entries, durable across a power loss.
    fn sync(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
}

#[derive(Debug)]
pub(crate) struct OsFileSystem;

impl FileSystem for OsFileSystem {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let mut file = open_private_file(path)?;
        file.set_len(0)?;
        file.write_all(content)?;
        match mode {
            PRIVATE_MODE => Ok(()),
            mode => file.set_permissions(Permissions::from_mode(mode)),
        }
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// Opens or creates a file and restricts its mode to the owner.
pub fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_MODE)
        .open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(PRIVATE_MODE))?;
    }
    Ok(file)
}

/// Creates a folder and restricts its mode to the owner.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

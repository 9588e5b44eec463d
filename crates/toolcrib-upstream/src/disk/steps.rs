//! The operations on files that a change is made of, so that a test can end it at each of them.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The owner's alone: it may hold secrets.
pub const PRIVATE: u32 = 0o600;

/// Puts content at `path` by way of `draft`, which is beside it and nobody else's: whole, or what was there stays.
pub fn replace(draft: &Path, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    replace_on(&RealDisk, draft, path, content, mode)
}

/// The same on any disk.
pub(crate) fn replace_on(
    disk: &dyn Disk,
    draft: &Path,
    path: &Path,
    content: &[u8],
    mode: u32,
) -> io::Result<()> {
    disk.write(draft, content, mode)?;
    disk.sync(draft)?;
    disk.rename(draft, path)?;
    // A name without a folder is in the one where we are.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    disk.sync(folder.unwrap_or(Path::new(".")))
}

pub(crate) trait Disk: fmt::Debug + Send + Sync {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// What is at `path` from then on, for whom `mode` says. Ended halfway, it is a part of it.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;
    /// A file's content, or which names a folder has, outlasts a loss of power from then on.
    fn sync(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
}

#[derive(Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let mut file = private_file(path)?;
        file.set_len(0)?;
        file.write_all(content)?;
        match mode {
            PRIVATE => Ok(()),
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

/// A file that is its owner's alone, whoever made it.
pub fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(PRIVATE).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    Ok(file)
}

/// The same for a folder.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

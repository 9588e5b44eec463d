//! Taking over the ledger of an instance that has died.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use super::line::{Reading, read};
use super::{draft_of, file_name, leads_to};
use crate::process::mark::InstanceId;
use crate::process::sys;

/// Compaction keeps a ledger far below this.
const READ_LIMIT: u64 = 16 << 20;

/// How long a dead host's lock may be held by its last child.
const HANDOVER: Duration = Duration::from_secs(1);

/// What became of the attempt to take a ledger over.
#[derive(Debug)]
pub(crate) enum Claim {
    Taken(Box<Dead>),
    /// Its instance lives, or another process is reaping it.
    Held,
    /// Not a ledger of this user, or gone meanwhile.
    NotOurs,
}

/// A dead instance's ledger, locked, so that two starts at once do not reap the same one.
#[derive(Debug)]
pub(crate) struct Dead {
    pub(crate) instance: InstanceId,
    pub(crate) reading: Reading,
    path: PathBuf,
    _lock: File,
}

pub(crate) fn claim(path: &Path) -> io::Result<Claim> {
    let Some(instance) = instance_of(path) else {
        return Ok(Claim::NotOurs);
    };
    let Some(file) = open_own(path)? else {
        return Ok(Claim::NotOurs);
    };
    if !lock(instance, &file)? {
        return Ok(Claim::Held);
    }
    if !leads_to(path, &file)? {
        return Ok(Claim::NotOurs);
    }
    let reading = read(instance, &text(&file)?);
    Ok(Claim::Taken(Box::new(Dead { instance, reading, path: path.to_owned(), _lock: file })))
}

/// Waits only if the host has died: then a child before its `execve` holds its lock, and will die at once.
fn lock(instance: InstanceId, file: &File) -> io::Result<bool> {
    let deadline = Instant::now() + HANDOVER;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let host = read(instance, &text(file)?).host;
        let died = host.is_some_and(|host| !sys::lives(&host).unwrap_or(true));
        if !died || Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn text(mut file: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.rewind()?;
    file.take(READ_LIMIT).read_to_end(&mut text)?;
    Ok(text)
}

impl Dead {
    pub(crate) fn remove(self) -> io::Result<()> {
        match fs::remove_file(draft_of(&self.path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::remove_file(&self.path)
    }
}

fn instance_of(path: &Path) -> Option<InstanceId> {
    let instance = InstanceId::parse(path.file_stem()?.to_str()?)?;
    (path.file_name()?.to_str()? == file_name(instance)).then_some(instance)
}

/// `None` for what is not a regular file of this user.
fn open_own(path: &Path) -> io::Result<Option<File>> {
    // A symbolic link is refused, and a pipe that somebody put there does not block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file =
        match OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
            Ok(file) => file,
            Err(error) if refused(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
    let about = file.metadata()?;
    Ok((about.is_file() && about.uid() == geteuid().as_raw()).then_some(file))
}

fn refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

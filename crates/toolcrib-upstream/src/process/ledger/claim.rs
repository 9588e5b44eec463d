//! Claims the ledger of a dead instance: opens, locks and parses it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use super::format::{LedgerContents, parse_ledger};
use super::{compaction_path, file_name, is_same_file};
use crate::process::owner_mark::HostInstanceId;
use crate::process::sys;

/// Upper bound of the bytes that are read. Compaction keeps a ledger far smaller.
const READ_LIMIT: u64 = 16 << 20;

/// Timeout for the last child of a dead host, which may still hold the lock.
const LOCK_HANDOVER_TIMEOUT: Duration = Duration::from_secs(1);

/// Result of claiming a ledger.
#[derive(Debug)]
pub(crate) enum ClaimOutcome {
    Taken(Box<ClaimedLedger>),
    /// Its instance is alive, or another process is reaping it.
    Held,
    /// Not a ledger of this user, or deleted meanwhile.
    NotOurs,
}

/// A dead instance's ledger. The lock prevents a concurrent start from reaping it too.
#[derive(Debug)]
pub(crate) struct ClaimedLedger {
    pub(crate) instance: HostInstanceId,
    pub(crate) contents: LedgerContents,
    path: PathBuf,
    _lock: File,
}

pub(crate) fn claim_ledger(path: &Path) -> io::Result<ClaimOutcome> {
    let Some(instance) = instance_from_path(path) else {
        return Ok(ClaimOutcome::NotOurs);
    };
    let Some(file) = open_owned(path)? else {
        return Ok(ClaimOutcome::NotOurs);
    };
    if !try_lock_dead(instance, &file)? {
        return Ok(ClaimOutcome::Held);
    }
    if !is_same_file(path, &file)? {
        return Ok(ClaimOutcome::NotOurs);
    }
    let contents = parse_ledger(instance, &read_text(&file)?);
    Ok(ClaimOutcome::Taken(Box::new(ClaimedLedger {
        instance,
        contents,
        path: path.to_owned(),
        _lock: file,
    })))
}

/// Locks the file of a dead host. Waits only if the host has died: a child before its `execve` may hold the
/// lock and dies at once.
fn try_lock_dead(instance: HostInstanceId, file: &File) -> io::Result<bool> {
    let deadline = Instant::now() + LOCK_HANDOVER_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let host = parse_ledger(instance, &read_text(file)?).host;
        let died = host.is_some_and(|host| !sys::is_alive(&host).unwrap_or(true));
        if !died || Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn read_text(mut file: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.rewind()?;
    file.take(READ_LIMIT).read_to_end(&mut text)?;
    Ok(text)
}

impl ClaimedLedger {
    pub(crate) fn remove(self) -> io::Result<()> {
        match fs::remove_file(compaction_path(&self.path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::remove_file(&self.path)
    }
}

fn instance_from_path(path: &Path) -> Option<HostInstanceId> {
    let instance = HostInstanceId::parse(path.file_stem()?.to_str()?)?;
    (path.file_name()?.to_str()? == file_name(instance)).then_some(instance)
}

/// Opens a regular file of this user; returns `None` for anything else.
fn open_owned(path: &Path) -> io::Result<Option<File>> {
    // `NOFOLLOW` rejects symbolic links; `NONBLOCK` prevents blocking on a named pipe.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file =
        match OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
            Ok(file) => file,
            Err(error) if is_refused(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
    let about = file.metadata()?;
    Ok((about.is_file() && about.uid() == geteuid().as_raw()).then_some(file))
}

fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

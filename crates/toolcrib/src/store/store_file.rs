//! The store's file: locking, checks, migration, and moving a damaged file aside.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};
use toolcrib_config::Problem;
use toolcrib_upstream::disk::open_private_file;

use super::error::StoreOpenError;
use super::schema::{self, SchemaState};

const DB_FILE: &str = "store.db";
const DAMAGED_FILE: &str = "store.damaged.db";
const LOCK_FILE: &str = "store.lock";

/// Maximum wait for another process. No exclusive operation takes longer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Path and lock of the store's file. While the store is open, it shares the lock with other users of the file.
#[derive(Debug)]
pub(super) struct StoreFile {
    path: PathBuf,
    lock: File,
}

/// The reason for a failed connection: damage, or another error.
enum ConnectError {
    Damaged,
    Other(StoreOpenError),
}

/// Returns whether a state folder has a store.
pub(super) fn exists_in(folder: &Path) -> bool {
    folder.join(DB_FILE).is_file()
}

impl StoreFile {
    pub(super) fn new(folder: &Path) -> Result<Self, StoreOpenError> {
        let failed = |cause| StoreOpenError::Folder { path: folder.to_owned(), cause };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let lock = open_private_file(&folder.join(LOCK_FILE)).map_err(failed)?;
        Ok(Self { path: folder.join(DB_FILE), lock })
    }

    /// Opens a connection to a valid file. Returns the problem if the file had to be replaced. Blocks.
    pub(super) fn connect(&self) -> Result<(Connection, Option<Problem>), StoreOpenError> {
        self.with_exclusive_lock(|is_exclusive| match self.try_connect(is_exclusive) {
            Ok(db) => Ok((db, None)),
            Err(ConnectError::Other(error)) => Err(error),
            Err(ConnectError::Damaged) => self.recreate(is_exclusive),
        })
    }

    /// Replaces a file that proved to be damaged in use.
    pub(super) fn replace(&self) -> Result<(Connection, Option<Problem>), StoreOpenError> {
        self.with_exclusive_lock(|is_exclusive| self.recreate(is_exclusive))
    }

    /// Runs `act` with exclusive access if no other process has the file open. Other processes wait until it has
    /// finished.
    fn with_exclusive_lock<T>(
        &self,
        act: impl FnOnce(bool) -> Result<T, StoreOpenError>,
    ) -> Result<T, StoreOpenError> {
        let is_exclusive = self.lock.try_lock().is_ok();
        if !is_exclusive {
            self.lock_shared()?;
        }
        let done = act(is_exclusive);
        self.lock_shared()?;
        done
    }

    fn recreate(
        &self,
        is_exclusive: bool,
    ) -> Result<(Connection, Option<Problem>), StoreOpenError> {
        if !is_exclusive {
            return Err(StoreOpenError::DamagedInUse { path: self.path.clone() });
        }
        let aside = self.path.with_file_name(DAMAGED_FILE);
        move_aside(&self.path, &aside)
            .map_err(|cause| StoreOpenError::Aside { path: self.path.clone(), cause })?;
        match self.try_connect(true) {
            Ok(db) => Ok((db, Some(moved_problem(&self.path, &aside)))),
            Err(ConnectError::Other(error)) => Err(error),
            Err(ConnectError::Damaged) => {
                Err(StoreOpenError::DamagedInUse { path: self.path.clone() })
            }
        }
    }

    fn try_connect(&self, is_exclusive: bool) -> Result<Connection, ConnectError> {
        let path = || self.path.clone();
        open_private_file(&self.path)
            .map_err(|cause| ConnectError::Other(StoreOpenError::Folder { path: path(), cause }))?;
        let connect_error = |cause| match is_damage(&cause) {
            true => ConnectError::Damaged,
            false => ConnectError::Other(StoreOpenError::File { path: path(), cause }),
        };
        let mut db = open_connection(&self.path).map_err(connect_error)?;
        // A file is not changed before it is known to be ours.
        let from = match schema::inspect(&db).map_err(connect_error)? {
            SchemaState::Empty => 0,
            SchemaState::Foreign => return Err(ConnectError::Damaged),
            SchemaState::Ours(found) if found > schema::VERSION => {
                let known = schema::VERSION;
                return Err(ConnectError::Other(StoreOpenError::Newer {
                    path: path(),
                    found,
                    known,
                }));
            }
            SchemaState::Ours(found) if found < schema::VERSION && !is_exclusive => {
                return Err(ConnectError::Other(StoreOpenError::Older { path: path(), found }));
            }
            SchemaState::Ours(found) => found,
        };
        prepare(&mut db, from).map(|()| db).map_err(connect_error)
    }

    /// Waits until no other process has exclusive access. Polls, because file locks have no wait with a timeout.
    fn lock_shared(&self) -> Result<(), StoreOpenError> {
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match self.lock.try_lock_shared() {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(cause)) => {
                    return Err(StoreOpenError::Folder { path: self.path.clone(), cause });
                }
                Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                    return Err(StoreOpenError::Locked { path: self.path.clone() });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// Returns whether the file is damaged, and not only temporarily unusable.
pub(super) fn is_damage(error: &Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn open_connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(LOCK_TIMEOUT)?;
    // A refused file stays unchanged: closing the last connection would move its write-ahead log into it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(db)
}

fn prepare(db: &mut Connection, version: usize) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    // Some network disks do not support the write-ahead log; SQLite then keeps the older journal.
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // A reply means that the data is on disk, even if the power fails.
    db.pragma_update(None, "synchronous", "FULL")?;
    if version < schema::VERSION { schema::migrate(db, version) } else { Ok(()) }
}

/// Moves the damaged file aside. Only the newest damaged file is kept, for data recovery.
fn move_aside(path: &Path, aside: &Path) -> io::Result<()> {
    for suffix in ["", "-wal"] {
        match fs::rename(with_suffix(path, suffix), with_suffix(aside, suffix)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                remove_if_exists(&with_suffix(aside, suffix))?
            }
            moved => moved?,
        }
    }
    remove_if_exists(&with_suffix(path, "-shm"))
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn moved_problem(path: &Path, aside: &Path) -> Problem {
    let text = format!(
        "the damaged store `{}` was moved to `{}`, and a new store was created",
        path.display(),
        aside.display()
    );
    Problem::warning("store.damaged", text)
        .fix(
            "set dialog switches and server overrides again, review the tool definitions (their pins are lost), and \
             delete the damaged file",
        )
}

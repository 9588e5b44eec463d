//! The file of a store: opened for one owner only, checked, migrated, and moved aside if it is damaged.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Error, ErrorCode, OpenFlags};
use toolcrib_config::Problem;
use toolcrib_upstream::disk::private_file;

use super::error::OpenError;
use super::schema::{self, Found};

const NAME: &str = "store.db";
const ASIDE: &str = "store.damaged.db";
const LOCK: &str = "store.lock";

/// How long is waited for another process: nothing that it does alone takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a store's data is. While it is open, its lock is shared with whoever else has it open.
#[derive(Debug)]
pub(super) struct StoreFile {
    path: PathBuf,
    lock: File,
}

/// Why a connection could not be had: the file may be to blame, or something else.
enum Fault {
    Damaged,
    Other(OpenError),
}

/// Whether there is a store in a state folder.
pub(super) fn is_in(folder: &Path) -> bool {
    folder.join(NAME).is_file()
}

impl StoreFile {
    pub(super) fn new(folder: &Path) -> Result<Self, OpenError> {
        let failed = |cause| OpenError::Folder { path: folder.to_owned(), cause };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let lock = private_file(&folder.join(LOCK)).map_err(failed)?;
        Ok(Self { path: folder.join(NAME), lock })
    }

    /// A connection to the file as it should be, and what had to be done for it. Blocks.
    pub(super) fn connect(&self) -> Result<(Connection, Option<Problem>), OpenError> {
        self.alone_if_possible(|alone| match self.try_connect(alone) {
            Ok(db) => Ok((db, None)),
            Err(Fault::Other(error)) => Err(error),
            Err(Fault::Damaged) => self.begin_anew(alone),
        })
    }

    /// The same for a file that proved to be damaged in use.
    pub(super) fn replace(&self) -> Result<(Connection, Option<Problem>), OpenError> {
        self.alone_if_possible(|alone| self.begin_anew(alone))
    }

    /// While one is alone with the file, whoever else wants it waits until it is as it should be.
    fn alone_if_possible<T>(
        &self,
        act: impl FnOnce(bool) -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        let alone = self.lock.try_lock().is_ok();
        if !alone {
            self.share()?;
        }
        let done = act(alone);
        self.share()?;
        done
    }

    fn begin_anew(&self, alone: bool) -> Result<(Connection, Option<Problem>), OpenError> {
        if !alone {
            return Err(OpenError::DamagedInUse { path: self.path.clone() });
        }
        let aside = self.path.with_file_name(ASIDE);
        move_aside(&self.path, &aside)
            .map_err(|cause| OpenError::Aside { path: self.path.clone(), cause })?;
        match self.try_connect(true) {
            Ok(db) => Ok((db, Some(moved(&self.path, &aside)))),
            Err(Fault::Other(error)) => Err(error),
            Err(Fault::Damaged) => Err(OpenError::DamagedInUse { path: self.path.clone() }),
        }
    }

    fn try_connect(&self, alone: bool) -> Result<Connection, Fault> {
        let path = || self.path.clone();
        private_file(&self.path)
            .map_err(|cause| Fault::Other(OpenError::Folder { path: path(), cause }))?;
        let fault = |cause| match is_damage(&cause) {
            true => Fault::Damaged,
            false => Fault::Other(OpenError::File { path: path(), cause }),
        };
        let mut db = open(&self.path).map_err(fault)?;
        // Nothing is changed in a file before it is known to be ours.
        let from = match schema::look(&db).map_err(fault)? {
            Found::Empty => 0,
            Found::Foreign => return Err(Fault::Damaged),
            Found::Ours(found) if found > schema::VERSION => {
                let known = schema::VERSION;
                return Err(Fault::Other(OpenError::Newer { path: path(), found, known }));
            }
            Found::Ours(found) if found < schema::VERSION && !alone => {
                return Err(Fault::Other(OpenError::Older { path: path(), found }));
            }
            Found::Ours(found) => found,
        };
        prepare(&mut db, from).map(|()| db).map_err(fault)
    }

    /// Waits until nobody has it alone. It is a look again and again, because a lock has no other bounded wait.
    fn share(&self) -> Result<(), OpenError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lock.try_lock_shared() {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(cause)) => {
                    return Err(OpenError::Folder { path: self.path.clone(), cause });
                }
                Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                    return Err(OpenError::Locked { path: self.path.clone() });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// Whether the file is not what it should be, rather than that something cannot be done just now.
pub(super) fn is_damage(error: &Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(PATIENCE)?;
    Ok(db)
}

fn prepare(db: &mut Connection, version: usize) -> rusqlite::Result<()> {
    // Where the log is not to be had, as on some network disks, the older journal must do.
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // An answer means that it is on disk, also if the power fails.
    db.pragma_update(None, "synchronous", "FULL")?;
    if version < schema::VERSION { schema::migrate(db, version) } else { Ok(()) }
}

/// One damaged file is kept, the newest: for whoever wants to save something of it.
fn move_aside(path: &Path, aside: &Path) -> io::Result<()> {
    for suffix in ["", "-wal"] {
        match fs::rename(with(path, suffix), with(aside, suffix)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => remove(&with(aside, suffix))?,
            moved => moved?,
        }
    }
    remove(&with(path, "-shm"))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn moved(path: &Path, aside: &Path) -> Problem {
    let text = format!(
        "the store `{}` was damaged and is now `{}`; a new one was begun",
        path.display(),
        aside.display()
    );
    Problem::warning("store.damaged", text)
        .fix(
            "set switches of dialogs and overrides of servers again; how tools were first seen is forgotten, too; \
             delete the damaged file",
        )
}

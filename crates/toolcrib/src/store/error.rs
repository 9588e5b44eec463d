//! Errors of the store, with advice for people.

use std::io;
use std::path::PathBuf;

use toolcrib_config::Problem;

/// An error of a store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store is closed.
    #[error("cannot {doing}: the store is closed")]
    Closed {
        /// The failed operation.
        doing: &'static str,
    },
    /// SQLite failed.
    #[error("cannot {doing} in the store")]
    Sql {
        /// The failed operation.
        doing: &'static str,
        /// The cause.
        #[source]
        cause: rusqlite::Error,
    },
    /// The file is damaged and could not be replaced.
    #[error("cannot {doing}: the store is damaged and cannot be replaced")]
    Damaged {
        /// The failed operation.
        doing: &'static str,
        /// The cause.
        #[source]
        cause: StoreOpenError,
    },
}

/// An error of opening the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The state folder cannot be used.
    #[error("cannot use the folder `{}` for the store", path.display())]
    Folder {
        /// The path of the folder or file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// SQLite cannot open the file.
    #[error("cannot open the store `{}`", path.display())]
    File {
        /// The path of the folder or file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: rusqlite::Error,
    },
    /// The file was written by a newer version.
    #[error("the store `{}` has version {found}, but this program supports versions up to {known}", path.display())]
    Newer {
        /// The path of the folder or file.
        path: PathBuf,
        /// The version of the file.
        found: usize,
        /// The newest supported version.
        known: usize,
    },
    /// The file has an old version and is in use.
    #[error("the store `{}` has the old version {found} and is in use by an older program", path.display())]
    Older {
        /// The path of the folder or file.
        path: PathBuf,
        /// The version of the file.
        found: usize,
    },
    /// The file is damaged and in use.
    #[error("the store `{}` is damaged, and another process uses it", path.display())]
    DamagedInUse {
        /// The path of the folder or file.
        path: PathBuf,
    },
    /// Another process has locked the file.
    #[error("another process has locked the store `{}`", path.display())]
    Locked {
        /// The path of the folder or file.
        path: PathBuf,
    },
    /// The damaged file cannot be moved aside.
    #[error("cannot move the damaged store `{}` aside", path.display())]
    Aside {
        /// The path of the folder or file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The store's thread cannot be started.
    #[error("cannot start the store's thread")]
    Thread(#[source] io::Error),
}

impl StoreError {
    /// Returns whether the disk is full or not writable.
    pub fn is_unwritable(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, DiskFull, ReadOnly, SystemIoFailure};
        let Self::Sql { cause, .. } = self else { return false };
        let code = cause.sqlite_error_code();
        matches!(code, Some(DiskFull | ReadOnly | SystemIoFailure | CannotOpen))
    }

    /// Returns advice for people.
    pub fn fix(&self) -> Option<&'static str> {
        self.is_unwritable().then_some(UNWRITABLE)
    }
}

/// Advice for a folder that cannot be written.
pub(super) const UNWRITABLE: &str = "check that the state folder is writable and its disk not full";

impl StoreOpenError {
    /// Returns a stable code for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Folder { .. } => "store.folder",
            Self::File { .. } => "store.file",
            Self::Newer { .. } => "store.newer",
            Self::Older { .. } => "store.older",
            Self::DamagedInUse { .. } => "store.damaged",
            Self::Locked { .. } => "store.locked",
            Self::Aside { .. } => "store.aside",
            Self::Thread(_) => "store.thread",
        }
    }

    /// Returns advice for people.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::Folder { .. } | Self::File { .. } | Self::Aside { .. } => UNWRITABLE,
            Self::Newer { .. } => "use the newer program, or another state folder",
            Self::Older { .. } => "stop the older program first",
            Self::DamagedInUse { .. } => "stop the other process first",
            Self::Locked { .. } => "wait until it finishes, or stop it",
            Self::Thread(_) => "check the system's limits on processes and memory",
        }
    }

    /// Returns the error as a problem.
    pub fn problem(&self) -> Problem {
        Problem::error(self.code(), self.to_string()).fix(self.fix())
    }
}

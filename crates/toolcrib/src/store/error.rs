//! Why the store cannot be used, and what a person can do about it.

use std::io;
use std::path::PathBuf;

use toolcrib_config::Problem;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {doing}: the store is closed")]
    Closed { doing: &'static str },
    #[error("cannot {doing} in the store")]
    Sql {
        doing: &'static str,
        #[source]
        cause: rusqlite::Error,
    },
    #[error("cannot {doing}: the store was damaged and cannot be begun anew")]
    Damaged {
        doing: &'static str,
        #[source]
        cause: OpenError,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use `{}` for the store", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot open the store `{}`", path.display())]
    File {
        path: PathBuf,
        #[source]
        cause: rusqlite::Error,
    },
    #[error("the store `{}` has version {found}, and this program knows versions up to {known}", path.display())]
    Newer { path: PathBuf, found: usize, known: usize },
    #[error("the store `{}` has version {found} and is in use by a program of that age", path.display())]
    Older { path: PathBuf, found: usize },
    #[error("the store `{}` is damaged, and another process uses it", path.display())]
    DamagedInUse { path: PathBuf },
    #[error("another process keeps the store `{}` to itself", path.display())]
    Locked { path: PathBuf },
    #[error("cannot move the damaged store `{}` aside", path.display())]
    Aside {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot start the thread of the store")]
    Thread(#[source] io::Error),
}

impl StoreError {
    /// Whether the disk is full, or does not take any more for another reason.
    pub fn is_unwritable(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, DiskFull, ReadOnly, SystemIoFailure};
        let Self::Sql { cause, .. } = self else { return false };
        let code = cause.sqlite_error_code();
        matches!(code, Some(DiskFull | ReadOnly | SystemIoFailure | CannotOpen))
    }

    /// What a person can do.
    pub fn fix(&self) -> Option<&'static str> {
        self.is_unwritable().then_some(UNWRITABLE)
    }
}

/// What can be done about a folder that takes nothing.
pub(super) const UNWRITABLE: &str = "check that the state folder is writable and its disk not full";

impl OpenError {
    /// Stable, for machines.
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

    /// What a person can do.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::Folder { .. } | Self::File { .. } | Self::Aside { .. } => UNWRITABLE,
            Self::Newer { .. } => "use the newer program, or another state folder",
            Self::Older { .. } => "end the older program first",
            Self::DamagedInUse { .. } => "end the other process first",
            Self::Locked { .. } => "wait for it or end it",
            Self::Thread(_) => "check the system's limits on processes and memory",
        }
    }

    pub fn problem(&self) -> Problem {
        Problem::error(self.code(), self.to_string()).fix(self.fix())
    }
}

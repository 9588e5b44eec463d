//! Atomic file replacement, private files, and locks between processes.

mod file_system;
mod format_version;
mod lock;
mod private_file;

pub use file_system::open_private_file;
pub(crate) use file_system::{FileSystem, OsFileSystem, create_private_folder, replace_file_on};
pub use file_system::{PRIVATE_MODE, replace_file};
pub use format_version::format_version;
pub(crate) use lock::LOCK_RETRY_INTERVAL;
pub use lock::{FileLock, LockFile};
pub use private_file::PrivateFile;

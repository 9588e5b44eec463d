//! Files that are whole or as they were at any moment, whatever ends a change, and locks between processes.

mod lock;
mod private;
mod steps;

pub(crate) use lock::AGAIN;
pub use lock::{Lock, LockFile};
pub use private::PrivateFile;
pub(crate) use steps::{Disk, RealDisk, private_file, private_folder, replace_on};
pub use steps::{PRIVATE, replace};

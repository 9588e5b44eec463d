//! Files that are whole or as they were at any moment, whatever ends a change, and locks between processes.

mod lock;
mod private;
mod steps;

pub(crate) use lock::AGAIN;
pub use lock::{Lock, LockFile};
pub use private::PrivateFile;
pub use steps::private_file;
pub(crate) use steps::{Disk, RealDisk, private_folder, replace_on};
pub use steps::{PRIVATE, replace};

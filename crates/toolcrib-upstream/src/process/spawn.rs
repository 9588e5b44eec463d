//! Starts the program itself, and finds out why it did not start.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::error::SpawnError;
use super::launch::Launch;
use super::mark::Mark;
use super::sys::{self, Born, Cgroup};

/// The child has its own group when this returns. It dies with the calling thread where the system can do that.
pub(crate) fn spawn(
    launch: &Launch,
    mark: Mark,
    cgroup: Option<&Cgroup>,
) -> Result<Born, SpawnError> {
    sys::spawn(launch, mark, cgroup).map_err(|cause| diagnose(launch, cause))
}

/// `execve` and `chdir` fail with the same few numbers, so the file system is asked what they meant.
fn diagnose(launch: &Launch, cause: io::Error) -> SpawnError {
    if let Err(cause) = enter(&launch.cwd) {
        return SpawnError::Cwd { cwd: launch.cwd.clone(), cause };
    }
    let program = launch.program.to_string_lossy().into_owned();
    let unfit = matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || cause.raw_os_error() == Some(Errno::NOEXEC.raw_os_error());
    match locate(launch) {
        Some(path) if unfit => SpawnError::NotExecutable { path, cause },
        None if unfit => SpawnError::NotFound { program, cause },
        _ => SpawnError::Other { program, cause },
    }
}

fn enter(cwd: &Path) -> io::Result<()> {
    if !cwd.metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(cwd, Access::EXEC_OK)?)
}

/// Where the program's file is, executable or not.
fn locate(launch: &Launch) -> Option<PathBuf> {
    launch.files().map(|file| launch.cwd.join(file)).find(|path| path.exists())
}

//! Starts a program and diagnoses failures.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::error::SpawnError;
use super::launch::LaunchSpec;
use super::owner_mark::OwnerMark;
use super::sys::{self, Cgroup, SpawnedProcess};

/// Starts the program in its own process group. On Linux the child dies with the calling thread.
pub(crate) fn spawn(
    launch: &LaunchSpec,
    mark: OwnerMark,
    cgroup: Option<&Cgroup>,
) -> Result<SpawnedProcess, SpawnError> {
    sys::spawn(launch, mark, cgroup).map_err(|cause| diagnose(launch, cause))
}

/// Finds the cause of a failed start in the file system, because `execve` and `chdir` return the same error
/// numbers.
fn diagnose(launch: &LaunchSpec, cause: io::Error) -> SpawnError {
    if let Err(cause) = check_cwd(&launch.cwd) {
        return SpawnError::Cwd { cwd: launch.cwd.clone(), cause };
    }
    let program = launch.program.to_string_lossy().into_owned();
    let cannot_run =
        matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
            || cause.raw_os_error() == Some(Errno::NOEXEC.raw_os_error());
    match find_program(launch) {
        Some(path) if cannot_run => SpawnError::NotExecutable { path, cause },
        None if cannot_run => SpawnError::NotFound { program, cause },
        _ => SpawnError::Other { program, cause },
    }
}

fn check_cwd(cwd: &Path) -> io::Result<()> {
    if !cwd.metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(cwd, Access::EXEC_OK)?)
}

/// Finds the program's file, executable or not.
fn find_program(launch: &LaunchSpec) -> Option<PathBuf> {
    launch.candidate_paths().map(|file| launch.cwd.join(file)).find(|path| path.exists())
}

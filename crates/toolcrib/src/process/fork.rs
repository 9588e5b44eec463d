//! Starts the program itself, and finds out why it did not start.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::error::SpawnError;
use super::launch::Launch;
use super::mark::{Mark, OWNER_VARIABLE};
use super::sys;

/// The child has its own group when this returns. It dies with the calling thread where the system can do that.
pub(crate) fn fork(launch: &Launch, mark: Mark) -> Result<Child, SpawnError> {
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .env_clear()
        .envs(&launch.env)
        .env(OWNER_VARIABLE, mark.to_string())
        .current_dir(&launch.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    sys::die_with_parent(&mut command);
    command.spawn().map_err(|cause| diagnose(launch, cause))
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
    let program = Path::new(&launch.program);
    if launch.program.as_bytes().contains(&b'/') {
        return Some(launch.cwd.join(program)).filter(|path| path.exists());
    }
    let folders = launch.path_variable().unwrap_or(OsStr::new("/bin:/usr/bin"));
    std::env::split_paths(folders)
        .map(|folder| launch.cwd.join(folder).join(program))
        .find(|path| path.exists())
}

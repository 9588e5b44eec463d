//! Cgroups (version 2): the kernel tracks all processes of a server, whatever they do to their environment,
//! session and parents.
//!
//! A host has one cgroup, `toolcrib-<instance>.locked`, below its own cgroup, with one child cgroup for each
//! server process. No controller is enabled, so the host may stay in its own cgroup. No process is ever
//! moved, except that a new child joins its cgroup itself.
//!
//! The host holds an exclusive lock on the folder of its cgroup. The kernel releases the lock when the host
//! dies, so a later host detects an abandoned cgroup without the ledger. A pid with a start time would not
//! suffice: it has no meaning in another pid namespace, which may share the cgroup file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, geteuid};

use super::cgroup_path::own_cgroup;
use super::{ProcessInfo, linux};
use crate::process::owner_mark::HostInstanceId;

const PREFIX: &str = "toolcrib-";

/// Suffix of cgroups whose host holds a lock. Earlier versions created cgroups without a lock.
const LOCKED_SUFFIX: &str = ".locked";

/// Attempts to create a locked cgroup. A concurrent host may remove a new cgroup before it is locked.
const CREATE_ATTEMPTS: usize = 16;

/// Maximum number of folders that one scan visits, because a server may create cgroups below its own.
const MAX_FOLDERS: usize = 4096;

/// Minimum age for removal. A younger cgroup may be about to get its first process.
const MIN_AGE: Duration = Duration::from_secs(60);

/// A cgroup that this or an earlier host created.
#[derive(Clone, Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    /// Lock on the instance's cgroup. `None` for a child's cgroup.
    _lock: Option<Arc<File>>,
}

/// Returns the folder of this process's cgroup.
pub(crate) fn current_cgroup() -> io::Result<PathBuf> {
    let mountinfo = fs::read("/proc/self/mountinfo")?;
    let cgroup = fs::read_to_string("/proc/self/cgroup")?;
    let none = || io::Error::new(io::ErrorKind::Unsupported, "no cgroup v2 file system is mounted");
    own_cgroup(&mountinfo, &cgroup).ok_or_else(none)
}

/// Lists and locks the cgroups below `parent` that dead hosts of this user left behind. The lock prevents a
/// concurrent start from reaping the same cgroup.
pub(crate) fn abandoned_cgroups(parent: &Path) -> io::Result<Vec<(HostInstanceId, Cgroup)>> {
    let mut found = Vec::new();
    for path in subfolders(parent)?.into_iter().take(MAX_FOLDERS) {
        let name = path.file_name().and_then(|name| name.to_str());
        let instance = name.and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(LOCKED_SUFFIX));
        let Some(instance) = instance.and_then(HostInstanceId::parse) else { continue };
        match lock_folder(&path) {
            Ok(Some(lock)) if lock.metadata()?.uid() == geteuid().as_raw() => {
                found.push((instance, Cgroup { path, _lock: Some(Arc::new(lock)) }));
            }
            // The host is alive, the cgroup belongs to another user, or the folder is gone.
            _ => {}
        }
    }
    Ok(found)
}

/// Locks a folder. Returns `None` if another process holds the lock or has removed the folder.
fn lock_folder(path: &Path) -> io::Result<Option<File>> {
    let lock = File::open(path)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let held = identity(lock.metadata()?);
    Ok(fs::symlink_metadata(path).is_ok_and(|there| identity(there) == held).then_some(lock))
}

/// Removes empty cgroups of earlier versions, which did not lock them. The kernel refuses to remove a cgroup
/// with processes. A live host without children recreates its cgroup on the next start of a child.
fn remove_legacy_cgroups(parent: &Path) {
    let old = |path: &Path| {
        let made = fs::metadata(path).and_then(|metadata| metadata.modified());
        made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > MIN_AGE))
    };
    let is_ours = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.strip_prefix(PREFIX)).and_then(HostInstanceId::parse).is_some()
    };
    let all = subfolders(parent).unwrap_or_default();
    for folder in all.iter().filter(|path| is_ours(path) && old(path)).take(MAX_FOLDERS) {
        // The kernel refuses to remove a cgroup that is in use.
        for child in subfolders(folder).unwrap_or_default().iter().filter(|path| old(path)) {
            let _ = fs::remove_dir(child);
        }
        let _ = fs::remove_dir(folder);
    }
}

impl Cgroup {
    /// Path of an instance's cgroup below `parent`.
    pub(crate) fn instance_path(parent: &Path, instance: HostInstanceId) -> PathBuf {
        parent.join(format!("{PREFIX}{instance}{LOCKED_SUFFIX}"))
    }

    /// Creates and locks an instance's cgroup, and removes abandoned ones. Fails if children could not join
    /// it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            remove_legacy_cgroups(parent);
        }
        let cgroup = Self { path: path.to_owned(), _lock: Some(Arc::new(create_locked(path)?)) };
        match cgroup.check_usable() {
            Ok(()) => Ok(cgroup),
            Err(error) => {
                // The new cgroup is empty and belongs to this instance.
                let _ = fs::remove_dir(path);
                Err(error)
            }
        }
    }

    /// Opens an instance's cgroup that an earlier host created. The name holds 128 random bits, so no other
    /// host can have it.
    pub(crate) fn existing(path: &Path, instance: HostInstanceId) -> Option<Self> {
        let parent = path.parent()?;
        let cgroup = Self { path: path.to_owned(), _lock: None };
        let unlocked = parent.join(format!("{PREFIX}{instance}"));
        let is_ours = Self::instance_path(parent, instance) == path || unlocked == path;
        (is_ours && cgroup.is_cgroup()).then_some(cgroup)
    }

    /// Returns whether this process is in the cgroup or below it. Then the cgroup must not be killed as a whole.
    pub(crate) fn contains_this_process(&self) -> bool {
        current_cgroup().is_ok_and(|own| own.starts_with(&self.path))
    }

    /// Creates the cgroup of one child. Fails if the instance's cgroup was removed: a recreated one would not
    /// be locked, and another host would consider it abandoned.
    pub(crate) fn create_child(&self, session: u64) -> io::Result<Self> {
        let path = self.path.join(session.to_string());
        fs::create_dir(&path)?;
        Ok(Self { path, _lock: None })
    }

    /// Lists the children's cgroups with their session numbers.
    pub(crate) fn children(&self) -> io::Result<Vec<(u64, Self)>> {
        let folders = subfolders(&self.path)?;
        let session = |path: &PathBuf| path.file_name()?.to_str()?.parse().ok();
        let child = |path: PathBuf| Some((session(&path)?, Self { path, _lock: None }));
        Ok(folders.into_iter().filter_map(child).collect())
    }

    /// Opens `cgroup.procs`. A process that writes `0` to this file joins the cgroup.
    pub(crate) fn open_procs(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))
    }

    /// Returns whether any process is in the cgroup or below it.
    pub(crate) fn is_populated(&self) -> io::Result<bool> {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(text) => Ok(text.lines().any(|line| line == "populated 1")),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists the processes in the cgroup and below it.
    pub(crate) fn members(&self) -> io::Result<Vec<ProcessInfo>> {
        let before = self.pids()?;
        let mut found = Vec::new();
        for pid in before {
            found.extend(linux::read_process(pid, 0)?);
        }
        // A pid that was reused during the reads is missing in the second list.
        let after = self.pids()?;
        found.retain(|process| !process.zombie && after.contains(&process.pid));
        Ok(found)
    }

    /// Kills all processes in the cgroup and below it. Since Linux 5.14 the kernel does so atomically. On
    /// older kernels processes may fork meanwhile, and the caller must call this again.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match self.write_file("cgroup.kill", "1") {
            // Linux before 5.14 has no `cgroup.kill`.
            Err(error) if is_gone(&error) && self.path.exists() => self.kill_members(),
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the cgroup and everything below it. Fails while a process is in it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for folder in self.folders()?.iter().rev() {
            match fs::remove_dir(folder) {
                Err(error) if !is_gone(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn kill_members(&self) -> io::Result<()> {
        // SIGKILL also reaches frozen processes. Linux before 5.2 has no freezer.
        let _ = self.write_file("cgroup.freeze", "1");
        let members = self.members();
        for process in members.iter().flatten() {
            // A process that this user may not signal appears again in the next round and is reported at the
            // end.
            let _ = linux::signal_process(process, Signal::KILL);
        }
        let _ = self.write_file("cgroup.freeze", "0");
        members.map(drop)
    }

    fn pids(&self) -> io::Result<Vec<u32>> {
        let mut pids = Vec::new();
        for folder in self.folders()? {
            match fs::read_to_string(folder.join("cgroup.procs")) {
                // A process of another pid namespace appears as 0.
                Ok(text) => pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok())),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        pids.retain(|pid| *pid > 1);
        Ok(pids)
    }

    /// Lists the cgroup's folder and all folders below it, parents first.
    fn folders(&self) -> io::Result<Vec<PathBuf>> {
        let mut folders = vec![self.path.clone()];
        let mut next = 0;
        while next < folders.len() && folders.len() < MAX_FOLDERS {
            let below = subfolders(&folders[next])?;
            folders.extend(below);
            next += 1;
        }
        Ok(folders)
    }

    fn write_file(&self, file: &str, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path.join(file))?.write_all(text.as_bytes())
    }

    fn is_cgroup(&self) -> bool {
        ["cgroup.procs", "cgroup.events"].iter().all(|file| self.path.join(file).is_file())
    }

    /// Checks whether children can join the cgroup, as far as this is known without trying.
    fn check_usable(&self) -> io::Result<()> {
        if !self.is_cgroup() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "not a cgroup v2 folder"));
        }
        // A cgroup below a threaded cgroup accepts no processes.
        let kind = fs::read_to_string(self.path.join("cgroup.type"))?;
        if kind.trim() != "domain" {
            let text = format!("a cgroup of the type `{}` accepts no processes", kind.trim());
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        // The kernel requires write access to `cgroup.procs` of the common ancestor of both cgroups.
        if let Some(parent) = self.path.parent() {
            OpenOptions::new().write(true).open(parent.join("cgroup.procs"))?;
        }
        Ok(())
    }
}

/// Creates a cgroup and locks it before any process joins it.
fn create_locked(path: &Path) -> io::Result<File> {
    for _ in 0..CREATE_ATTEMPTS {
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match lock_folder(path) {
            Ok(Some(lock)) => return Ok(lock),
            // A concurrent start took the new folder for an abandoned cgroup and removes it.
            Ok(None) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

fn subfolders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

/// Returns whether the cgroup was removed. Open files of a removed cgroup fail with `ENODEV`.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

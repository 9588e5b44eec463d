//! Cgroups (version 2): the kernel itself keeps the list of all processes that a server has started, whatever
//! they do to their environment, session and parents.
//!
//! A host has one cgroup, `toolcrib-<instance>.locked`, below its own, and in it one for each child. No controller is
//! switched on, so that the host may stay where it is, and no process is ever moved but a new child by itself.
//!
//! The host holds an exclusive lock on the folder of its cgroup. The kernel releases the lock when the host dies, so
//! that any later host can tell that the cgroup is abandoned, without the ledger. A pid and a start time could not:
//! they mean nothing in another pid namespace, which may share the cgroup file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, geteuid};

use super::cgroup_path::own_cgroup;
use super::{Process, linux};
use crate::process::mark::InstanceId;

const PREFIX: &str = "toolcrib-";

/// Tells that the host of a cgroup holds a lock on it. Earlier versions made cgroups without a lock.
const LOCKED: &str = ".locked";

/// How often a new cgroup may be removed by another host before it is locked.
const ATTEMPTS: usize = 16;

/// A server may make cgroups in its own; more than this are not looked into at a time.
const MOST_FOLDERS: usize = 4096;

/// A cgroup that is younger may be about to get its first process.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// A cgroup that was made by this or an earlier host.
#[derive(Clone, Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    /// The lock of an instance's cgroup, held for as long as this lives; none for a child's.
    _lock: Option<Arc<File>>,
}

/// The folder of the cgroup that this process is in.
pub(crate) fn current_cgroup() -> io::Result<PathBuf> {
    let mountinfo = fs::read("/proc/self/mountinfo")?;
    let cgroup = fs::read_to_string("/proc/self/cgroup")?;
    let none = || io::Error::new(io::ErrorKind::Unsupported, "no cgroup v2 file system is mounted");
    own_cgroup(&mountinfo, &cgroup).ok_or_else(none)
}

/// The cgroups below `parent` that hosts of this user left behind when they died. Each is locked, so that two starts at
/// once do not end the same one.
pub(crate) fn abandoned_cgroups(parent: &Path) -> io::Result<Vec<(InstanceId, Cgroup)>> {
    let mut found = Vec::new();
    for path in subfolders(parent)?.into_iter().take(MOST_FOLDERS) {
        let name = path.file_name().and_then(|name| name.to_str());
        let instance = name.and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(LOCKED));
        let Some(instance) = instance.and_then(InstanceId::parse) else { continue };
        match lock_folder(&path) {
            Ok(Some(lock)) if lock.metadata()?.uid() == geteuid().as_raw() => {
                found.push((instance, Cgroup { path, _lock: Some(Arc::new(lock)) }));
            }
            // Its host lives, or it is another user's, or it is gone.
            _ => {}
        }
    }
    Ok(found)
}

/// Locks a folder; `None` if another process holds the lock or has removed the folder.
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

/// Removes empty cgroups of instances of earlier versions, which did not lock them. One that is in use does not go,
/// since it has processes; one of a living host that has no children at the moment is made anew by that host.
fn sweep(parent: &Path) {
    let old = |path: &Path| {
        let made = fs::metadata(path).and_then(|it| it.modified());
        made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > LEFT_ALONE))
    };
    let is_ours = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.strip_prefix(PREFIX)).and_then(InstanceId::parse).is_some()
    };
    let all = subfolders(parent).unwrap_or_default();
    for folder in all.iter().filter(|path| is_ours(path) && old(path)).take(MOST_FOLDERS) {
        // It fails for what is in use.
        for child in subfolders(folder).unwrap_or_default().iter().filter(|path| old(path)) {
            let _ = fs::remove_dir(child);
        }
        let _ = fs::remove_dir(folder);
    }
}

impl Cgroup {
    /// Where an instance's cgroup is or was, below `parent`.
    pub(crate) fn path_of(parent: &Path, instance: InstanceId) -> PathBuf {
        parent.join(format!("{PREFIX}{instance}{LOCKED}"))
    }

    /// Makes an instance's cgroup, and clears away what others left there. It fails where children could not be put into it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            sweep(parent);
        }
        let cgroup = Self { path: path.to_owned(), _lock: Some(Arc::new(create_locked(path)?)) };
        match cgroup.check() {
            Ok(()) => Ok(cgroup),
            Err(error) => {
                // It is empty, and ours.
                let _ = fs::remove_dir(path);
                Err(error)
            }
        }
    }

    /// An instance's cgroup that an earlier host made, if there is one. The name is of 128 random bits: no
    /// other can have it.
    pub(crate) fn existing(path: &Path, instance: InstanceId) -> Option<Self> {
        let parent = path.parent()?;
        let cgroup = Self { path: path.to_owned(), _lock: None };
        let unlocked = parent.join(format!("{PREFIX}{instance}"));
        let is_ours = Self::path_of(parent, instance) == path || unlocked == path;
        (is_ours && cgroup.is_cgroup()).then_some(cgroup)
    }

    /// Whether this very process is in it or below: then it must not be killed as a whole.
    pub(crate) fn is_around_this_process(&self) -> bool {
        current_cgroup().is_ok_and(|own| own.starts_with(&self.path))
    }

    /// Makes the cgroup of one child. It fails if somebody has removed the instance's own: one that is made anew would
    /// not be locked, and another host would take it for abandoned.
    pub(crate) fn create_child(&self, session: u64) -> io::Result<Self> {
        let path = self.path.join(session.to_string());
        fs::create_dir(&path)?;
        Ok(Self { path, _lock: None })
    }

    /// The cgroups of the children, with their sessions.
    pub(crate) fn children(&self) -> io::Result<Vec<(u64, Self)>> {
        let folders = subfolders(&self.path)?;
        let session = |path: &PathBuf| path.file_name()?.to_str()?.parse().ok();
        let child = |path: PathBuf| Some((session(&path)?, Self { path, _lock: None }));
        Ok(folders.into_iter().filter_map(child).collect())
    }

    /// A process that writes `0` to this file joins the cgroup.
    pub(crate) fn procs(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))
    }

    /// Whether any process is in it, or below.
    pub(crate) fn is_populated(&self) -> io::Result<bool> {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(text) => Ok(text.lines().any(|line| line == "populated 1")),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The processes in it and below.
    pub(crate) fn members(&self) -> io::Result<Vec<Process>> {
        let before = self.pids()?;
        let mut found = Vec::new();
        for pid in before {
            found.extend(linux::process(pid, 0)?);
        }
        // A pid that passed to another process while it was looked at is not in the second list.
        let after = self.pids()?;
        found.retain(|process| !process.zombie && after.contains(&process.pid));
        Ok(found)
    }

    /// Kills all processes in it and below. The kernel does so at once where it can; otherwise some may fork
    /// meanwhile, and this has to be called again.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match self.write("cgroup.kill", "1") {
            // Before Linux 5.14.
            Err(error) if is_gone(&error) && self.path.exists() => self.kill_each(),
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes it with everything below. It fails while a process is in it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for folder in self.folders()?.iter().rev() {
            match fs::remove_dir(folder) {
                Err(error) if !is_gone(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn kill_each(&self) -> io::Result<()> {
        // SIGKILL reaches what is frozen; before Linux 5.2 there is nothing to freeze with.
        let _ = self.write("cgroup.freeze", "1");
        let members = self.members();
        for process in members.iter().flatten() {
            // Whom this user may not signal is seen again, and in the end reported.
            let _ = linux::signal(process, Signal::KILL);
        }
        let _ = self.write("cgroup.freeze", "0");
        members.map(drop)
    }

    fn pids(&self) -> io::Result<Vec<u32>> {
        let mut pids = Vec::new();
        for folder in self.folders()? {
            match fs::read_to_string(folder.join("cgroup.procs")) {
                // A process of another pid namespace is shown as 0.
                Ok(text) => pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok())),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        pids.retain(|pid| *pid > 1);
        Ok(pids)
    }

    /// Its folder and all below, each before those in it.
    fn folders(&self) -> io::Result<Vec<PathBuf>> {
        let mut folders = vec![self.path.clone()];
        let mut next = 0;
        while next < folders.len() && folders.len() < MOST_FOLDERS {
            let below = subfolders(&folders[next])?;
            folders.extend(below);
            next += 1;
        }
        Ok(folders)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path.join(file))?.write_all(text.as_bytes())
    }

    fn is_cgroup(&self) -> bool {
        ["cgroup.procs", "cgroup.events"].iter().all(|file| self.path.join(file).is_file())
    }

    /// Whether children can be put into it, as far as that can be told without trying.
    fn check(&self) -> io::Result<()> {
        if !self.is_cgroup() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "not a cgroup v2 folder"));
        }
        // A cgroup below a threaded one takes no processes.
        let kind = fs::read_to_string(self.path.join("cgroup.type"))?;
        if kind.trim() != "domain" {
            let text = format!("a cgroup of the type `{}` takes no processes", kind.trim());
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        // The kernel asks whether whoever moves may write to the common ancestor of both cgroups.
        if let Some(parent) = self.path.parent() {
            OpenOptions::new().write(true).open(parent.join("cgroup.procs"))?;
        }
        Ok(())
    }
}

/// Makes a cgroup that is locked before any process is in it.
fn create_locked(path: &Path) -> io::Result<File> {
    for _ in 0..ATTEMPTS {
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match lock_folder(path) {
            Ok(Some(lock)) => return Ok(lock),
            // A start beside this one took the new folder for an abandoned one, and removes it.
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

/// A removed cgroup's open files answer with `ENODEV`.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

//! Linux: `/proc` is the process table, and the kernel ends a child when the thread that started it ends.

use std::fs::{self, File};
use std::io::{self, Read};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
    set_child_subreaper,
};

use super::procfs::{self, Stat};
use super::{Identity, Process, Realm};

/// Far above the environment that `execve` accepts by default; a bound all the same.
const READ_LIMIT: u64 = 8 << 20;

/// How long a look at the table waits for processes that are between two programs. They are so for microseconds,
/// but on a busy machine one may have to wait for its turn in the middle of that.
const SETTLE: Duration = Duration::from_secs(2);

/// So often such a process is looked at even if the others took all the time: on a loaded machine a look at the whole
/// table takes long.
const LEAST_LOOKS: usize = 20;

/// Gives back the memory that the program's own code takes. What is needed again comes back from the file by itself.
#[allow(unsafe_code, reason = "advice about memory is given by address")]
pub(crate) fn forget_code() -> io::Result<()> {
    let own = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    for (start, length) in maps.lines().filter_map(|line| procfs::code(line, &own)) {
        let start = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the range is a mapping of code, which nobody can write to: its pages are those of the file, and
        // reading any of them again gives the same bytes.
        unsafe { madvise(start, length, Advice::LinuxDontNeed) }?;
    }
    Ok(())
}

pub(crate) fn realm() -> io::Result<Realm> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let pids = fs::read_link("/proc/self/ns/pid")?;
    Ok(Realm { boot: boot.trim().to_owned(), pids: pids.to_string_lossy().into_owned() })
}

pub(crate) fn identity(pid: u32) -> io::Result<Identity> {
    identity_in(realm()?, pid)
}

/// The same where it is known where the pid means something.
pub(crate) fn identity_in(realm: Realm, pid: u32) -> io::Result<Identity> {
    let found = stat(pid)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(Identity { pid, start: found.start, realm })
}

/// Whether the process has not ended; where it cannot be seen from here, it counts as living.
pub(crate) fn lives(identity: &Identity) -> io::Result<bool> {
    if identity.realm != realm()? {
        return Ok(true);
    }
    let found = stat(identity.pid)?;
    Ok(found.is_some_and(|found| found.start == identity.start && !found.zombie))
}

/// The processes that began at `since` or later: a descendant is never older than its ancestor. An error, such
/// as no free descriptor, means that the table is not known; it must not be taken for an empty one.
pub(crate) fn processes(since: u64) -> io::Result<Vec<Process>> {
    let deadline = Instant::now() + SETTLE;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        found.extend(settled(pid, since, deadline)?);
    }
    Ok(found)
}

/// From now on processes below this one whose parent ends become children of this process, instead of the first
/// process of the machine. It holds for the whole process and cannot be seen by its children.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Signals exactly this process: if its pid has passed to another one meanwhile, nothing happens.
pub(crate) fn signal(process: &Process, signal: Signal) -> io::Result<()> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        return Ok(());
    };
    // The handle is opened first and the row read again afterwards: a row unchanged since the listing shows that
    // the pid had one bearer all the time, the one the handle holds.
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        Err(Errno::SRCH) => return Ok(()),
        // Before Linux 5.3, or behind a system-call filter.
        Err(_) => None,
    };
    if !still_there(process)? {
        return Ok(());
    }
    let sent = match handle {
        Some(handle) => pidfd_send_signal(handle, signal),
        None => kill_process(pid, signal),
    };
    match sent {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A process in the middle of `execve` shows no mark, and is still the same one.
fn still_there(known: &Process) -> io::Result<bool> {
    let now = process(known.pid, known.start)?;
    Ok(now.is_some_and(|now| {
        now.start == known.start && (now.mark == known.mark || now.unsettled || known.unsettled)
    }))
}

/// A process in the middle of `execve` shows no mark, or half an environment; that must not hide it.
fn settled(pid: u32, since: u64, deadline: Instant) -> io::Result<Option<Process>> {
    let mut looks = 0;
    loop {
        looks += 1;
        match look(pid, since)? {
            Look::At(process) => return Ok(Some(process)),
            Look::Nothing => return Ok(None),
            Look::Between(process) if looks >= LEAST_LOOKS && Instant::now() >= deadline => {
                return Ok(Some(process));
            }
            Look::Between(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// One row of the table, as it is at the moment.
pub(super) fn process(pid: u32, since: u64) -> io::Result<Option<Process>> {
    match look(pid, since)? {
        Look::At(process) | Look::Between(process) => Ok(Some(process)),
        Look::Nothing => Ok(None),
    }
}

enum Look {
    /// It has gone meanwhile, is older than wanted, hidden from us, or the kernel's.
    Nothing,
    At(Process),
    /// Its environment is not the one that was read: it is executing another program, or ending.
    Between(Process),
}

fn look(pid: u32, since: u64) -> io::Result<Look> {
    let Some(stat) = stat(pid)?.filter(|stat| stat.start >= since && !stat.kernel) else {
        return Ok(Look::Nothing);
    };
    let environ = read(pid, "environ")?;
    let mark = environ.as_deref().and_then(procfs::mark);
    let Stat { parent, group, start, zombie, .. } = stat;
    let process = Process { pid, parent, group, start, zombie, mark, unsettled: false };
    match environ {
        Some(environ) if mark.is_none() && is_stale(pid, &environ)? => {
            Ok(Look::Between(Process { unsettled: true, ..process }))
        }
        _ => Ok(Look::At(process)),
    }
}

/// What this process has in use, in bytes.
pub(crate) fn memory() -> Option<u64> {
    procfs::resident(&read(std::process::id(), "status").ok()??)
}

/// What this process may use, in bytes: each control group that it is in has a limit of its own.
pub(crate) fn memory_limit() -> Option<u64> {
    let text = |path: &str| std::fs::read_to_string(path).ok();
    let groups = text("/proc/self/cgroup").unwrap_or_default();
    let files = procfs::memory_limit_files(&groups);
    let limits = files.iter().filter_map(|file| text(file)?.trim().parse::<u64>().ok());
    let machine = text("/proc/meminfo").and_then(|text| procfs::total(&text));
    limits.chain(machine).min()
}

fn is_stale(pid: u32, environ: &[u8]) -> io::Result<bool> {
    let now = stat(pid)?;
    Ok(now.is_some_and(|now| !now.zombie && now.environ != Some(environ.len() as u64)))
}

fn stat(pid: u32) -> io::Result<Option<Stat>> {
    Ok(read(pid, "stat")?.and_then(|text| procfs::stat(&text)))
}

fn read(pid: u32, what: &str) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = File::open(format!("/proc/{pid}/{what}"))
        .and_then(|file| file.take(READ_LIMIT).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(Some(bytes)),
        // The memory went away while it was read: what is missing shows that.
        Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(Some(bytes)),
        Err(error) if withheld(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn withheld(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

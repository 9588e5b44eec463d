//! Linux: reads the process table from `/proc` and signals processes safely across pid reuse.

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
use super::{PidScope, ProcessIdentity, ProcessInfo};

/// Maximum number of bytes read from one file. Far above the environment that `execve` accepts by default.
const READ_LIMIT: u64 = 8 << 20;

/// Timeout of a scan for processes in the middle of `execve`. That state lasts for microseconds, but a busy
/// machine may preempt a process in it.
const EXEC_TIMEOUT: Duration = Duration::from_secs(2);

/// Minimum number of reads of such a process, even if others have used up the time: on a loaded machine a
/// full scan takes long.
const MIN_READS: usize = 20;

/// Releases the memory of the program's own code. The kernel reloads pages from the file on demand.
#[allow(unsafe_code, reason = "madvise takes a raw address")]
pub(crate) fn release_code_pages() -> io::Result<()> {
    let own = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    for (start, length) in maps.lines().filter_map(|line| procfs::parse_code_mapping(line, &own)) {
        let start = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the range is a non-writable mapping (`r-xp`) of the executable file. Discarding its pages is
        // sound, because the kernel reads the same bytes from the file again.
        unsafe { madvise(start, length, Advice::LinuxDontNeed) }?;
    }
    Ok(())
}

pub(crate) fn pid_scope() -> io::Result<PidScope> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let pids = fs::read_link("/proc/self/ns/pid")?;
    Ok(PidScope { boot: boot.trim().to_owned(), pids: pids.to_string_lossy().into_owned() })
}

pub(crate) fn identity(pid: u32) -> io::Result<ProcessIdentity> {
    identity_in_scope(pid_scope()?, pid)
}

/// Returns the identity of a process in a known scope.
pub(crate) fn identity_in_scope(pid_scope: PidScope, pid: u32) -> io::Result<ProcessIdentity> {
    let found = read_stat(pid)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(ProcessIdentity { pid, start: found.start, pid_scope })
}

/// Returns whether the process still runs. Returns true if the process is not visible from this scope.
pub(crate) fn is_alive(identity: &ProcessIdentity) -> io::Result<bool> {
    if identity.pid_scope != pid_scope()? {
        return Ok(true);
    }
    let found = read_stat(identity.pid)?;
    Ok(found.is_some_and(|found| found.start == identity.start && !found.zombie))
}

/// Lists the processes that started at `since` or later; a descendant is never older than its ancestor. An
/// error, such as a lack of file descriptors, means that the table is unknown; callers must not treat it as
/// empty.
pub(crate) fn list_processes(since: u64) -> io::Result<Vec<ProcessInfo>> {
    let deadline = Instant::now() + EXEC_TIMEOUT;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        found.extend(read_settled(pid, since, deadline)?);
    }
    Ok(found)
}

/// Makes this process the subreaper of its descendants: orphaned descendants become children of this process
/// instead of init. The attribute applies to the whole process and is not inherited.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Signals exactly this process. Does nothing if its pid was reused.
pub(crate) fn signal_process(process: &ProcessInfo, signal: Signal) -> io::Result<()> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        return Ok(());
    };
    // Opens the pidfd first and reads the row again afterwards. An unchanged row proves that the pidfd refers
    // to the listed process.
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        Err(Errno::SRCH) => return Ok(()),
        // Linux before 5.3 has no pidfd, and a system-call filter may block it.
        Err(_) => None,
    };
    if !is_same_process(process)? {
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

/// Returns whether the listed process still has its pid. A process in the middle of `execve` shows no mark and still
/// is the same process.
fn is_same_process(known: &ProcessInfo) -> io::Result<bool> {
    let now = read_process(known.pid, known.start)?;
    Ok(now.is_some_and(|now| {
        now.start == known.start && (now.mark == known.mark || now.is_mid_exec || known.is_mid_exec)
    }))
}

/// Reads a row until it is complete or the deadline passes. In the middle of `execve` a process shows no mark
/// or half an environment, which must not hide it.
fn read_settled(pid: u32, since: u64, deadline: Instant) -> io::Result<Option<ProcessInfo>> {
    let mut reads = 0;
    loop {
        reads += 1;
        match read_once(pid, since)? {
            ProcessReading::Complete(process) => return Ok(Some(process)),
            ProcessReading::Absent => return Ok(None),
            ProcessReading::MidExec(process)
                if reads >= MIN_READS && Instant::now() >= deadline =>
            {
                return Ok(Some(process));
            }
            ProcessReading::MidExec(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Reads one row of the process table once.
pub(super) fn read_process(pid: u32, since: u64) -> io::Result<Option<ProcessInfo>> {
    match read_once(pid, since)? {
        ProcessReading::Complete(process) | ProcessReading::MidExec(process) => Ok(Some(process)),
        ProcessReading::Absent => Ok(None),
    }
}

enum ProcessReading {
    /// The process has exited, is older than requested, is hidden from this user, or is a kernel thread.
    Absent,
    Complete(ProcessInfo),
    /// The environment changed during the read: the process is in `execve` or is exiting.
    MidExec(ProcessInfo),
}

fn read_once(pid: u32, since: u64) -> io::Result<ProcessReading> {
    let Some(stat) = read_stat(pid)?.filter(|stat| stat.start >= since && !stat.kernel) else {
        return Ok(ProcessReading::Absent);
    };
    let environ = read_proc_file(pid, "environ")?;
    let mark = environ.as_deref().and_then(procfs::parse_mark);
    let Stat { parent, group, start, zombie, .. } = stat;
    let process = ProcessInfo { pid, parent, group, start, zombie, mark, is_mid_exec: false };
    match environ {
        Some(environ) if mark.is_none() && is_environ_stale(pid, &environ)? => {
            Ok(ProcessReading::MidExec(ProcessInfo { is_mid_exec: true, ..process }))
        }
        _ => Ok(ProcessReading::Complete(process)),
    }
}

/// Resident memory of this process in bytes.
pub(crate) fn memory_usage() -> Option<u64> {
    procfs::parse_resident_memory(&read_proc_file(std::process::id(), "status").ok()??)
}

/// Memory limit of this process in bytes: the minimum over all its control groups and the machine's memory.
pub(crate) fn memory_limit() -> Option<u64> {
    let text = |path: &str| std::fs::read_to_string(path).ok();
    let groups = text("/proc/self/cgroup").unwrap_or_default();
    let files = procfs::memory_limit_files(&groups);
    let limits = files.iter().filter_map(|file| text(file)?.trim().parse::<u64>().ok());
    let machine = text("/proc/meminfo").and_then(|text| procfs::parse_total_memory(&text));
    limits.chain(machine).min()
}

fn is_environ_stale(pid: u32, environ: &[u8]) -> io::Result<bool> {
    let now = read_stat(pid)?;
    Ok(now.is_some_and(|now| !now.zombie && now.environ != Some(environ.len() as u64)))
}

fn read_stat(pid: u32) -> io::Result<Option<Stat>> {
    Ok(read_proc_file(pid, "stat")?.and_then(|text| procfs::parse_stat(&text)))
}

fn read_proc_file(pid: u32, what: &str) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = File::open(format!("/proc/{pid}/{what}"))
        .and_then(|file| file.take(READ_LIMIT).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(Some(bytes)),
        // The process's memory was freed during the read. The missing part shows that.
        Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(Some(bytes)),
        Err(error) if is_inaccessible(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_inaccessible(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

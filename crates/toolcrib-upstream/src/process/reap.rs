//! Reaps processes that dead instances left behind. A host does this first with its state folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::ledger::{ChildEntry, ClaimOutcome, ClaimedLedger, claim_ledger, ledger_folder};
use super::owner_mark::OwnerMark;
use super::ownership::{OwnershipProof, find_owned_processes};
use super::remote_process::RemoteLeftovers;
use super::sys::{self, Cgroup, PidScope, ProcessInfo};

/// Interval between checks that killed processes have exited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Number of consecutive scans that must find no killable process.
const QUIET_SCANS: usize = 2;

/// Result of a reaping.
#[derive(Debug, Default)]
pub struct ReapReport {
    /// Processes that were killed.
    pub killed: Vec<Orphan>,
    /// Processes that still run at the deadline, or that this user may not kill. Their ledgers stay for the
    /// next start.
    pub remaining: Vec<Orphan>,
    /// Processes that are left in containers. The caller that knows container engines must end them. Their
    /// ledgers stay locked until then.
    pub remote_leftovers: Vec<RemoteLeftovers>,
    /// Number of ledgers whose instances are alive.
    pub live_ledgers: usize,
    /// Messages about damaged lines and unreadable ledgers.
    pub notes: Vec<String>,
}

/// A process that outlived its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Pid of the process.
    pub pid: u32,
    /// The program that the host had started. The process itself may be a descendant of it.
    pub program: Option<String>,
    /// Owner mark of the child that the process belongs to, if known.
    pub owner: Option<OwnerMark>,
    /// Evidence that the process belongs to the dead instance.
    pub proof: OwnershipProof,
}

/// Error that prevents reaping altogether.
#[derive(Debug, thiserror::Error)]
pub enum ReapError {
    #[error("cannot list the ledgers in `{}`", folder.display())]
    List {
        folder: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot determine the boot id and pid namespace")]
    PidScope(#[source] io::Error),
}

/// Kills all processes that dead instances of this state folder left behind. Live instances and their
/// children are not touched. Blocks for at most about `limit`; usually a few milliseconds.
pub fn reap(state: &Path, limit: Duration) -> Result<ReapReport, ReapError> {
    let mut reaped = ReapReport::default();
    let pid_scope = sys::pid_scope().map_err(ReapError::PidScope)?;
    let deadline = Instant::now() + limit;
    for path in list_ledgers(&ledger_folder(state))? {
        match claim_ledger(&path) {
            Ok(ClaimOutcome::Taken(ledger)) => {
                reap_ledger(*ledger, &pid_scope, deadline, &mut reaped)
            }
            Ok(ClaimOutcome::Held) => reaped.live_ledgers += 1,
            Ok(ClaimOutcome::NotOurs) => {}
            Err(error) => {
                reaped.notes.push(format!("cannot read ledger `{}`: {error}", path.display()))
            }
        }
    }
    Ok(reaped)
}

fn list_ledgers(folder: &Path) -> Result<Vec<PathBuf>, ReapError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    };
    match list() {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|cause| ReapError::List { folder: folder.to_owned(), cause }),
    }
}

fn reap_ledger(
    ledger: ClaimedLedger,
    pid_scope: &PidScope,
    deadline: Instant,
    reaped: &mut ReapReport,
) {
    let instance = ledger.instance;
    if ledger.contents.damaged > 0 {
        reaped.notes.push(format!(
            "{} damaged lines in the ledger of {instance} were skipped",
            ledger.contents.damaged
        ));
    }
    let may_remove_ledger = end_local_processes(&ledger, pid_scope, deadline, reaped);
    let leftovers = RemoteLeftovers { ledger, may_remove_ledger };
    if !leftovers.processes().is_empty() {
        return reaped.remote_leftovers.push(leftovers);
    }
    if let Err(error) = leftovers.remove_ledger() {
        reaped.notes.push(format!("cannot remove the ledger of {instance}: {error}"));
    }
}

/// Kills the instance's processes on this machine; returns whether they need the ledger no longer.
fn end_local_processes(
    ledger: &ClaimedLedger,
    pid_scope: &PidScope,
    deadline: Instant,
    reaped: &mut ReapReport,
) -> bool {
    let (instance, before) = (ledger.instance, reaped.remaining.len());
    let path = ledger.contents.cgroup.as_deref().map(Path::new);
    let cgroup = path.and_then(|path| Cgroup::existing(path, instance));
    let keep_reason = match kill_all(ledger, cgroup.as_ref(), pid_scope, deadline, reaped) {
        Ok(true) => None,
        Ok(false) => {
            Some("a process could not be distinguished from the host's processes".to_owned())
        }
        Err(error) => Some(format!("cannot list processes: {error}")),
    };
    let removed = cgroup.as_ref().map_or(Ok(()), Cgroup::remove);
    let keep_reason =
        keep_reason.or_else(|| Some(format!("cannot remove its cgroup: {}", removed.err()?)));
    if let Some(why) = keep_reason.filter(|_| reaped.remaining.len() == before) {
        reaped.notes.push(format!("the ledger of {instance} stays: {why}"));
        return false;
    }
    if ledger.contents.unknown > 0 && reaped.remaining.len() == before {
        let note = format!("the ledger of {instance} stays: a newer version wrote it");
        reaped.notes.push(note);
    }
    reaped.remaining.len() == before && ledger.contents.unknown == 0
}

/// Kills in rounds, because a process may fork between the scan and its death. Stops after two consecutive
/// scans without a killable process. Returns false if a running process may or may not belong to the
/// instance.
fn kill_all(
    ledger: &ClaimedLedger,
    cgroup: Option<&Cgroup>,
    pid_scope: &PidScope,
    deadline: Instant,
    reaped: &mut ReapReport,
) -> io::Result<bool> {
    let entries = &ledger.contents.entries;
    let (mut seen, mut quiet) = (BTreeMap::new(), 0);
    // A child of the dead host may have started this process.
    let cgroup = cgroup.map(|cgroup| (cgroup, cgroup.contains_this_process()));
    loop {
        let table = sys::list_processes(0)?;
        let mut owned: Vec<(ProcessInfo, Orphan)> =
            find_owned_processes(ledger.instance, entries, pid_scope, &table, std::process::id())
                .into_iter()
                .map(|(process, proof)| (process.clone(), describe_orphan(process, proof, entries)))
                .collect();
        let mut is_clear = !table.iter().any(|row| row.is_mid_exec && !row.zombie);
        if let Some((cgroup, is_around_us)) = cgroup {
            for (process, orphan) in cgroup_members(cgroup, ledger)? {
                if !owned.iter().any(|(known, _)| known.pid == process.pid) {
                    owned.push((process, orphan));
                }
            }
            if !is_around_us {
                // Processes that this misses are killed below.
                let _ = cgroup.kill();
                is_clear = !cgroup.is_populated()?;
            }
        }
        let refused = owned
            .iter()
            .filter(|(process, _)| sys::signal_process(process, Signal::KILL).is_err())
            .count();
        seen.extend(owned.iter().map(|(process, orphan)| (process_key(process), orphan.clone())));
        let is_quiet = refused == owned.len() && is_clear;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if quiet == QUIET_SCANS || Instant::now() >= deadline {
            let alive: BTreeSet<_> =
                owned.iter().map(|(process, _)| process_key(process)).collect();
            let (left, killed): (Vec<_>, Vec<_>) =
                seen.into_iter().partition(|(key, _)| alive.contains(key));
            reaped.remaining.extend(left.into_iter().map(|(_, orphan)| orphan));
            reaped.killed.extend(killed.into_iter().map(|(_, orphan)| orphan));
            return Ok(is_clear);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Lists the processes in the cgroups of the dead instance's children, except this process.
fn cgroup_members(
    cgroup: &Cgroup,
    ledger: &ClaimedLedger,
) -> io::Result<Vec<(ProcessInfo, Orphan)>> {
    let mut found = Vec::new();
    for (session, child) in cgroup.children()? {
        let mark = OwnerMark { instance: ledger.instance, session };
        let entry = ledger.contents.entries.iter().find(|entry| entry.mark == mark);
        for process in child.members()? {
            let orphan = Orphan {
                pid: process.pid,
                program: entry.map(|entry| entry.program.clone()),
                owner: Some(mark),
                proof: OwnershipProof::Cgroup,
            };
            found.push((process, orphan));
        }
    }
    found.retain(|(process, _)| process.pid != std::process::id());
    Ok(found)
}

fn process_key(process: &ProcessInfo) -> (u32, u64) {
    (process.pid, process.start)
}

fn describe_orphan(process: &ProcessInfo, proof: OwnershipProof, entries: &[ChildEntry]) -> Orphan {
    let of_mark = |entry: &&ChildEntry| Some(entry.mark) == process.mark;
    let of_group = |entry: &&ChildEntry| {
        entry.leader.as_ref().is_some_and(|leader| leader.pid == process.group)
    };
    let entry = match proof {
        OwnershipProof::Mark => entries.iter().find(of_mark),
        OwnershipProof::Leader | OwnershipProof::Group | OwnershipProof::Cgroup => {
            entries.iter().find(of_group)
        }
    };
    let owner = process.mark.or_else(|| entry.map(|entry| entry.mark));
    Orphan { pid: process.pid, program: entry.map(|entry| entry.program.clone()), owner, proof }
}

//! Ends what earlier instances left behind: the first thing a host does with its state folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::decide::{Proof, decide};
use super::guest::Estate;
use super::ledger::{Claim, Dead, Entry, claim, folder};
use super::mark::Mark;
use super::sys::{self, Cgroup, Process, Realm};

/// How often to look whether what was killed has gone.
const POLL: Duration = Duration::from_millis(5);

/// So many looks in a row must find nobody.
const QUIET_LOOKS: usize = 2;

/// What a reaping found and did.
#[derive(Debug, Default)]
pub struct Reaped {
    pub killed: Vec<Orphan>,
    /// Still alive when the time was up, or not to be killed by this user. Their ledgers stay for the next start.
    pub left: Vec<Orphan>,
    /// What is left in containers; whoever knows engines must end it. Until then no other start can.
    pub estates: Vec<Estate>,
    /// Ledgers of instances that live.
    pub held: usize,
    /// Oddities in words: damaged lines, ledgers that could not be read.
    pub notes: Vec<String>,
}

/// A process that outlived its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    pub pid: u32,
    /// The program that the host had started; the process itself may be a descendant of it.
    pub program: Option<String>,
    pub owner: Option<Mark>,
    pub proof: Proof,
}

#[derive(Debug, thiserror::Error)]
pub enum ReapError {
    #[error("cannot list the ledgers in `{}`", folder.display())]
    List {
        folder: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot tell which boot and pid namespace this is")]
    Realm(#[source] io::Error),
}

/// Kills whatever instances that used this state folder left behind when they died. Living instances and their
/// children are not touched. Blocks for at most about `limit`; usually a few milliseconds.
pub fn reap(state: &Path, limit: Duration) -> Result<Reaped, ReapError> {
    let mut reaped = Reaped::default();
    let realm = sys::realm().map_err(ReapError::Realm)?;
    let deadline = Instant::now() + limit;
    for path in ledgers(&folder(state))? {
        match claim(&path) {
            Ok(Claim::Taken(dead)) => reap_one(*dead, &realm, deadline, &mut reaped),
            Ok(Claim::Held) => reaped.held += 1,
            Ok(Claim::NotOurs) => {}
            Err(error) => {
                reaped.notes.push(format!("cannot read ledger `{}`: {error}", path.display()))
            }
        }
    }
    Ok(reaped)
}

fn ledgers(folder: &Path) -> Result<Vec<PathBuf>, ReapError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    };
    match list() {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|cause| ReapError::List { folder: folder.to_owned(), cause }),
    }
}

fn reap_one(dead: Dead, realm: &Realm, deadline: Instant, reaped: &mut Reaped) {
    let instance = dead.instance;
    if dead.reading.damaged > 0 {
        reaped.notes.push(format!(
            "{} damaged lines in the ledger of {instance} were skipped",
            dead.reading.damaged
        ));
    }
    let clear = is_clear(&dead, realm, deadline, reaped);
    let estate = Estate { dead, clear };
    if !estate.guests().is_empty() {
        return reaped.estates.push(estate);
    }
    if let Err(error) = estate.settle() {
        reaped.notes.push(format!("cannot remove the ledger of {instance}: {error}"));
    }
}

/// Ends the processes of this machine; true if the ledger has nothing more to say about them.
fn is_clear(dead: &Dead, realm: &Realm, deadline: Instant, reaped: &mut Reaped) -> bool {
    let (instance, before) = (dead.instance, reaped.left.len());
    let path = dead.reading.cgroup.as_deref().map(Path::new);
    let cgroup = path.and_then(|path| Cgroup::existing(path, instance));
    let stays = match kill_all(dead, cgroup.as_ref(), realm, deadline, reaped) {
        Ok(true) => None,
        Ok(false) => Some("a process could not be told from the host's".to_owned()),
        Err(error) => Some(format!("cannot list processes: {error}")),
    };
    let removed = cgroup.as_ref().map_or(Ok(()), Cgroup::remove);
    let stays = stays.or_else(|| Some(format!("cannot remove its cgroup: {}", removed.err()?)));
    if let Some(why) = stays.filter(|_| reaped.left.len() == before) {
        reaped.notes.push(format!("the ledger of {instance} stays: {why}"));
        return false;
    }
    if dead.reading.unknown > 0 && reaped.left.len() == before {
        let note = format!("the ledger of {instance} stays: a newer version wrote it");
        reaped.notes.push(note);
    }
    reaped.left.len() == before && dead.reading.unknown == 0
}

/// In rounds, because a process may fork between the listing and its death. Over when two looks in a row found nobody
/// who could be killed. False if at the end somebody lives who may or may not be the instance's.
fn kill_all(
    dead: &Dead,
    cgroup: Option<&Cgroup>,
    realm: &Realm,
    deadline: Instant,
    reaped: &mut Reaped,
) -> io::Result<bool> {
    let entries = &dead.reading.entries;
    let (mut seen, mut quiet) = (BTreeMap::new(), 0);
    // This very process may have been started by a child of the dead host.
    let cgroup = cgroup.map(|cgroup| (cgroup, cgroup.is_around_this_process()));
    loop {
        let table = sys::processes(0)?;
        let mut doomed: Vec<(Process, Orphan)> =
            decide(dead.instance, entries, realm, &table, std::process::id())
                .into_iter()
                .map(|(process, proof)| (process.clone(), orphan(process, proof, entries)))
                .collect();
        let mut is_clear = !table.iter().any(|row| row.unsettled && !row.zombie);
        if let Some((cgroup, is_around_us)) = cgroup {
            for (process, orphan) in members(cgroup, dead)? {
                if !doomed.iter().any(|(known, _)| known.pid == process.pid) {
                    doomed.push((process, orphan));
                }
            }
            if !is_around_us {
                // What it does not kill is killed below.
                let _ = cgroup.kill();
                is_clear = !cgroup.is_populated()?;
            }
        }
        let refused = doomed
            .iter()
            .filter(|(process, _)| sys::signal(process, Signal::KILL).is_err())
            .count();
        seen.extend(doomed.iter().map(|(process, orphan)| (key(process), orphan.clone())));
        let is_quiet = refused == doomed.len() && is_clear;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if quiet == QUIET_LOOKS || Instant::now() >= deadline {
            let alive: BTreeSet<_> = doomed.iter().map(|(process, _)| key(process)).collect();
            let (left, killed): (Vec<_>, Vec<_>) =
                seen.into_iter().partition(|(key, _)| alive.contains(key));
            reaped.left.extend(left.into_iter().map(|(_, orphan)| orphan));
            reaped.killed.extend(killed.into_iter().map(|(_, orphan)| orphan));
            return Ok(is_clear);
        }
        thread::sleep(POLL);
    }
}

/// The processes in the cgroups of the dead instance's children, but for this one.
fn members(cgroup: &Cgroup, dead: &Dead) -> io::Result<Vec<(Process, Orphan)>> {
    let mut found = Vec::new();
    for (session, child) in cgroup.children()? {
        let mark = Mark { instance: dead.instance, session };
        let entry = dead.reading.entries.iter().find(|entry| entry.mark == mark);
        for process in child.members()? {
            let orphan = Orphan {
                pid: process.pid,
                program: entry.map(|entry| entry.program.clone()),
                owner: Some(mark),
                proof: Proof::Cgroup,
            };
            found.push((process, orphan));
        }
    }
    found.retain(|(process, _)| process.pid != std::process::id());
    Ok(found)
}

fn key(process: &Process) -> (u32, u64) {
    (process.pid, process.start)
}

fn orphan(process: &Process, proof: Proof, entries: &[Entry]) -> Orphan {
    let of_mark = |entry: &&Entry| Some(entry.mark) == process.mark;
    let of_group =
        |entry: &&Entry| entry.leader.as_ref().is_some_and(|leader| leader.pid == process.group);
    let entry = match proof {
        Proof::Mark => entries.iter().find(of_mark),
        Proof::Leader | Proof::Group | Proof::Cgroup => entries.iter().find(of_group),
    };
    let owner = process.mark.or_else(|| entry.map(|entry| entry.mark));
    Orphan { pid: process.pid, program: entry.map(|entry| entry.program.clone()), owner, proof }
}

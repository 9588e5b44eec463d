//! Reaps the cgroups of dead hosts without their ledgers, for the case that their state folders were deleted.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::containment::Containment;
use super::owner_mark::{HostInstanceId, OwnerMark};
use super::ownership::OwnershipProof;
use super::reap::{Orphan, ReapReport};
use super::sys::{self, Cgroup};

/// Interval between checks that killed processes have exited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Kills all processes in the cgroups of this user's dead hosts, below the parent cgroup that a new host
/// would use. Live hosts hold a lock on their cgroups, which are not touched. Blocks for at most about
/// `limit`.
pub fn reap_cgroups(containment: &Containment, limit: Duration) -> ReapReport {
    let mut reaped = ReapReport::default();
    // Opening an instance reports that there are no cgroups.
    let Ok(parent) = containment.cgroup.folder() else { return reaped };
    let deadline = Instant::now() + limit;
    let found = match sys::abandoned_cgroups(&parent) {
        Ok(found) => found,
        Err(error) => {
            reaped
                .notes
                .push(format!("cannot list the cgroups in `{}`: {error}", parent.display()));
            return reaped;
        }
    };
    for (instance, cgroup) in found {
        if cgroup.contains_this_process() {
            reaped.notes.push(format!("the cgroup of {instance} stays: this process is in it"));
            continue;
        }
        if let Err(error) = empty_cgroup(instance, &cgroup, deadline, &mut reaped) {
            reaped.notes.push(format!("the cgroup of {instance} stays: {error}"));
        }
    }
    reaped
}

/// Kills all members, waits for their exit and removes the cgroup.
fn empty_cgroup(
    instance: HostInstanceId,
    cgroup: &Cgroup,
    deadline: Instant,
    reaped: &mut ReapReport,
) -> io::Result<()> {
    let mut seen = BTreeMap::new();
    let outcome = loop {
        for (session, child) in cgroup.children()? {
            for process in child.members()? {
                let orphan = Orphan {
                    pid: process.pid,
                    program: None,
                    owner: Some(OwnerMark { instance, session }),
                    proof: OwnershipProof::Cgroup,
                };
                seen.insert((process.pid, process.start), orphan);
            }
        }
        cgroup.kill()?;
        if !cgroup.is_populated()? {
            // The kernel refuses the removal until the last member is fully gone.
            match cgroup.remove() {
                Ok(()) => break Ok(()),
                Err(error) if Instant::now() >= deadline => break Err(error),
                Err(_) => {}
            }
        } else if Instant::now() >= deadline {
            reaped.remaining.extend(seen.into_values());
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(POLL_INTERVAL);
    };
    reaped.killed.extend(seen.into_values());
    outcome
}

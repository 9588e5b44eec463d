//! Ends what dead hosts left in their cgroups, where no ledger tells of them: their state folders were deleted.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::containment::Containment;
use super::decide::Proof;
use super::mark::{InstanceId, Mark};
use super::reap::{Orphan, Reaped};
use super::sys::{self, Cgroup};

/// How often to look whether what was killed has gone.
const POLL: Duration = Duration::from_millis(5);

/// Kills whatever is in the cgroups of dead hosts of this user, below the cgroup that a new host would use. Cgroups of
/// living hosts are locked and are not touched. Blocks for at most about `limit`.
pub fn reap_cgroups(containment: &Containment, limit: Duration) -> Reaped {
    let mut reaped = Reaped::default();
    // A host that cannot make cgroups says so itself.
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
        if cgroup.is_around_this_process() {
            reaped.notes.push(format!("the cgroup of {instance} stays: this process is in it"));
            continue;
        }
        if let Err(error) = empty(instance, &cgroup, deadline, &mut reaped) {
            reaped.notes.push(format!("the cgroup of {instance} stays: {error}"));
        }
    }
    reaped
}

/// Kills all members, waits for their end and removes the cgroup.
fn empty(
    instance: InstanceId,
    cgroup: &Cgroup,
    deadline: Instant,
    reaped: &mut Reaped,
) -> io::Result<()> {
    let mut seen = BTreeMap::new();
    let outcome = loop {
        for (session, child) in cgroup.children()? {
            for process in child.members()? {
                let orphan = Orphan {
                    pid: process.pid,
                    program: None,
                    owner: Some(Mark { instance, session }),
                    proof: Proof::Cgroup,
                };
                seen.insert((process.pid, process.start), orphan);
            }
        }
        cgroup.kill()?;
        if !cgroup.is_populated()? {
            // The last member may need a moment more in which the cgroup cannot be removed.
            match cgroup.remove() {
                Ok(()) => break Ok(()),
                Err(error) if Instant::now() >= deadline => break Err(error),
                Err(_) => {}
            }
        } else if Instant::now() >= deadline {
            reaped.left.extend(seen.into_values());
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(POLL);
    };
    reaped.killed.extend(seen.into_values());
    outcome
}

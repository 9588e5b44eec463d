//! A child and whatever came of it: the leader, its group, and descendants that left the group.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::sync::watch;
use tokio::task;
use tokio::time::sleep;
use tracing::debug;

use super::child::Exit;
use super::leash::Leash;
use super::mark::Mark;
use super::sys::{self, Cgroup, Process};

/// Descendants are not our children: nothing tells us of their end, so we look, less and less often.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LAST_LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) leader: Pid,
    pub(crate) mark: Mark,
    /// When the leader began; none of the family is older.
    pub(crate) start: u64,
    pub(crate) leash: Arc<Leash>,
    /// The cgroup of the child alone, where there is one.
    pub(crate) cgroup: Option<Cgroup>,
    /// Changes whenever some child of this process has ended.
    pub(crate) deaths: watch::Receiver<()>,
}

impl Family {
    /// The leader's end. It stays a zombie, which keeps its pid and its group from being reused.
    pub(crate) async fn leader_exit(&self) -> Exit {
        let mut deaths = self.deaths.clone();
        loop {
            deaths.mark_unchanged();
            match exit_of(self.leader) {
                Ok(Some(exit)) => return exit,
                Ok(None) => {}
                Err(_) => {
                    self.leash.lose();
                    return Exit::Unknown;
                }
            }
            if deaths.changed().await.is_err() {
                return Exit::Unknown;
            }
        }
    }

    /// Waits until nobody is left besides the leader. With `kill`, or once abandoned, kills whom it meets.
    pub(crate) async fn all_gone(&self, kill: bool) {
        let mut pause = FIRST_LOOK;
        loop {
            let rest = self.rest().await;
            if rest.as_ref().is_ok_and(Vec::is_empty) {
                return;
            }
            // Those that cannot be listed at the moment may be killed all the same, by their cgroup.
            if kill || self.leash.abandoned() {
                self.kill(&rest.unwrap_or_default());
            }
            sleep(pause).await;
            pause = LAST_LOOK.min(pause * 2);
        }
    }

    pub(crate) async fn signal(&self, signal: Signal) {
        self.leash.signal(signal);
        let group = self.leash.group();
        let mut strays = self.rest().await.unwrap_or_default();
        strays.retain(|process| Some(process.group) != group);
        match signal {
            Signal::KILL => self.kill(&strays),
            _ => send(&strays, signal),
        }
    }

    fn kill(&self, strays: &[Process]) {
        if let Some(cgroup) = &self.cgroup
            && let Err(error) = cgroup.kill()
        {
            debug!(mark = %self.mark, %error, "cannot kill a cgroup; its processes are killed one by one");
        }
        send(strays, Signal::KILL);
    }

    /// Who lives, besides the leader. An error where somebody does who cannot be told apart at the moment.
    pub(crate) async fn rest(&self) -> io::Result<Vec<Process>> {
        let (leader, group) = (sys::number(self.leader), self.leash.group());
        let (mark, start, cgroup) = (self.mark, self.start, self.cgroup.clone());
        task::spawn_blocking(move || {
            let table = match sys::processes(start) {
                Ok(table) => table,
                // Then the group is all that can be reached; it is killed when the leash is released.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let members = cgroup.as_ref().map(Cgroup::members).transpose()?;
            let rest = rest_of(&table, members.as_deref(), leader, group, mark)?;
            let is_populated = cgroup.as_ref().map_or(Ok(false), Cgroup::is_populated)?;
            // Who joined the cgroup since its members were listed.
            if rest.is_empty() && is_populated {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(rest)
        })
        .await?
    }

    /// Nobody is left: takes the leader out of the process table and removes the cgroup.
    pub(crate) fn release(&self) {
        self.leash.release();
        if let Some(cgroup) = &self.cgroup
            && let Err(error) = cgroup.remove()
        {
            debug!(mark = %self.mark, %error, "a cgroup stays until the host ends");
        }
    }
}

/// The family among all processes; `members` is what its cgroup holds. Without a cgroup, a process whose mark could
/// not be read may belong to it, so that nobody can say that it is empty.
fn rest_of(
    table: &[Process],
    members: Option<&[Process]>,
    leader: u32,
    group: Option<u32>,
    mark: Mark,
) -> io::Result<Vec<Process>> {
    let others = table.iter().filter(|row| row.pid != leader);
    let mut rest: Vec<Process> =
        others.clone().filter(|row| belongs(row, group, mark)).cloned().collect();
    let is_known = |rest: &[Process], row: &Process| rest.iter().any(|known| known.pid == row.pid);
    for member in members.unwrap_or_default().iter().filter(|row| row.pid != leader) {
        if !is_known(&rest, member) {
            rest.push(member.clone());
        }
    }
    let is_unclear = members.is_none() && others.clone().any(|row| row.unsettled && !row.zombie);
    if rest.is_empty() && is_unclear {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(rest)
}

/// The group is certain because its leader is not reaped, the mark because no other child has it.
fn belongs(process: &Process, group: Option<u32>, mark: Mark) -> bool {
    !process.zombie && (Some(process.group) == group || process.mark == Some(mark))
}

fn send(processes: &[Process], signal: Signal) {
    for process in processes {
        // Whom we may not signal is seen again, and in the end reported.
        let _ = sys::signal(process, signal);
    }
}

/// `None` while it runs. An error means that it is not our child any more.
fn exit_of(pid: Pid) -> rustix::io::Result<Option<Exit>> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = retry_on_intr(|| waitid(WaitId::Pid(pid), look))?;
    Ok(status.map(|status| match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::mark::InstanceId;

    const ROW: Process = Process {
        pid: 1,
        parent: 1,
        group: 1,
        start: 1,
        zombie: false,
        mark: None,
        unsettled: false,
    };

    #[test]
    fn the_group_and_the_marked_are_family() {
        let mark = Mark { instance: InstanceId::random().unwrap(), session: 1 };
        let brother = Mark { session: 2, ..mark };
        let row = |pid, group, mark| Process { pid, group, mark, ..ROW };
        for (process, wanted) in [
            (row(11, 10, None), true),
            (row(12, 12, Some(mark)), true),
            (row(13, 13, Some(brother)), false),
            (row(14, 14, None), false),
            (Process { zombie: true, ..row(15, 10, Some(mark)) }, false),
        ] {
            assert_eq!(belongs(&process, Some(10), mark), wanted, "{process:?}");
            // Without a hold on the group only the mark counts.
            let marked = wanted && process.mark.is_some();
            assert_eq!(belongs(&process, None, mark), marked, "{process:?}");
        }
    }

    #[test]
    fn members_of_the_cgroup_are_family_whatever_they_carry() {
        let mark = Mark { instance: InstanceId::random().unwrap(), session: 1 };
        let row = |pid| Process { pid, group: pid, ..ROW };
        let leader = Process { mark: Some(mark), ..row(10) };
        let (marked, bare) = (Process { mark: Some(mark), ..row(11) }, row(12));
        let table = [leader.clone(), marked.clone(), bare.clone(), row(13)];
        let members = [leader, marked.clone(), bare.clone()];
        let rest = |members| rest_of(&table, members, 10, None, mark).unwrap();
        assert_eq!(rest(Some(&members[..])), [marked.clone(), bare]);
        assert_eq!(rest(None), [marked]);
    }

    #[test]
    fn nobody_is_known_to_be_left_while_a_mark_cannot_be_read() {
        let mark = Mark { instance: InstanceId::random().unwrap(), session: 1 };
        let unsettled = [Process { pid: 14, group: 14, unsettled: true, ..ROW }];
        let rest = |members| rest_of(&unsettled, members, 10, None, mark);
        assert_eq!(rest(None).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(rest(Some(&[])).unwrap(), []);
    }
}

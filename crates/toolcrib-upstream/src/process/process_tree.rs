//! A child's process tree: the leader, its process group, and descendants that left the group.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::sync::watch;
use tokio::task;
use tokio::time::sleep;
use tracing::debug;

use super::child::ProcessExit;
use super::owner_mark::OwnerMark;
use super::process_group::ProcessGroup;
use super::sys::{self, Cgroup, ProcessInfo};

/// Descendants are not children of this process, so the kernel does not report their exits. The monitor polls
/// with a growing interval.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct ProcessTree {
    pub(crate) leader: Pid,
    pub(crate) mark: OwnerMark,
    /// Start time of the leader. No process of the tree is older.
    pub(crate) start: u64,
    pub(crate) group: Arc<ProcessGroup>,
    /// Cgroup of this child, if there is one.
    pub(crate) cgroup: Option<Cgroup>,
    /// Changes whenever any child of this process has exited.
    pub(crate) child_exits: watch::Receiver<()>,
}

impl ProcessTree {
    /// Waits for the leader's exit without reaping it. The zombie keeps its pid and its group id from being
    /// reused.
    pub(crate) async fn leader_exit(&self) -> ProcessExit {
        let mut child_exits = self.child_exits.clone();
        loop {
            child_exits.mark_unchanged();
            match poll_exit(self.leader) {
                Ok(Some(exit)) => return exit,
                Ok(None) => {}
                Err(_) => {
                    self.group.forget_leader();
                    return ProcessExit::Unknown;
                }
            }
            if child_exits.changed().await.is_err() {
                return ProcessExit::Unknown;
            }
        }
    }

    /// Waits until only the leader is left. With `kill`, or after the handle was dropped, kills every process
    /// that it finds.
    pub(crate) async fn wait_until_empty(&self, kill: bool) {
        let mut pause = MIN_POLL_INTERVAL;
        loop {
            let survivors = self.survivors().await;
            if survivors.as_ref().is_ok_and(Vec::is_empty) {
                return;
            }
            // The cgroup can kill processes that the process table cannot list at the moment.
            if kill || self.group.is_abandoned() {
                self.kill(&survivors.unwrap_or_default());
            }
            sleep(pause).await;
            pause = MAX_POLL_INTERVAL.min(pause * 2);
        }
    }

    pub(crate) async fn signal(&self, signal: Signal) {
        self.group.signal(signal);
        let group = self.group.id();
        let mut strays = self.survivors().await.unwrap_or_default();
        strays.retain(|process| Some(process.group) != group);
        match signal {
            Signal::KILL => self.kill(&strays),
            _ => signal_all(&strays, signal),
        }
    }

    fn kill(&self, strays: &[ProcessInfo]) {
        if let Some(cgroup) = &self.cgroup
            && let Err(error) = cgroup.kill()
        {
            debug!(mark = %self.mark, %error, "cannot kill a cgroup; its processes are killed one by one");
        }
        signal_all(strays, Signal::KILL);
    }

    /// Lists the running processes of the tree, except the leader. Returns an error if a process cannot be
    /// identified at the moment.
    pub(crate) async fn survivors(&self) -> io::Result<Vec<ProcessInfo>> {
        let (leader, group) = (sys::raw_pid(self.leader), self.group.id());
        let (mark, start, cgroup) = (self.mark, self.start, self.cgroup.clone());
        task::spawn_blocking(move || {
            let table = match sys::list_processes(start) {
                Ok(table) => table,
                // Without a process table only the group is reachable. Reaping the leader kills the group.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let members = cgroup.as_ref().map(Cgroup::members).transpose()?;
            let survivors = select_members(&table, members.as_deref(), leader, group, mark)?;
            let is_populated = cgroup.as_ref().map_or(Ok(false), Cgroup::is_populated)?;
            // A process joined the cgroup after its members were listed.
            if survivors.is_empty() && is_populated {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(survivors)
        })
        .await?
    }

    /// Reaps the leader and removes the cgroup. All other processes of the tree must have exited.
    pub(crate) fn release(&self) {
        self.group.reap_leader();
        if let Some(cgroup) = &self.cgroup
            && let Err(error) = cgroup.remove()
        {
            debug!(mark = %self.mark, %error, "a cgroup stays until the host ends");
        }
    }
}

/// Selects the tree's processes from the process table; `members` are the processes of its cgroup. Without a
/// cgroup, a process with an unreadable mark may belong to the tree, so the tree cannot be reported as empty.
fn select_members(
    table: &[ProcessInfo],
    members: Option<&[ProcessInfo]>,
    leader: u32,
    group: Option<u32>,
    mark: OwnerMark,
) -> io::Result<Vec<ProcessInfo>> {
    let others = table.iter().filter(|row| row.pid != leader);
    let mut survivors: Vec<ProcessInfo> =
        others.clone().filter(|row| is_member(row, group, mark)).cloned().collect();
    let is_known = |survivors: &[ProcessInfo], row: &ProcessInfo| {
        survivors.iter().any(|known| known.pid == row.pid)
    };
    for member in members.unwrap_or_default().iter().filter(|row| row.pid != leader) {
        if !is_known(&survivors, member) {
            survivors.push(member.clone());
        }
    }
    let is_unclear = members.is_none() && others.clone().any(|row| row.is_mid_exec && !row.zombie);
    if survivors.is_empty() && is_unclear {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(survivors)
}

/// The group id is reliable because the leader is not reaped. The mark is reliable because no other child has
/// it.
fn is_member(process: &ProcessInfo, group: Option<u32>, mark: OwnerMark) -> bool {
    !process.zombie && (Some(process.group) == group || process.mark == Some(mark))
}

fn signal_all(processes: &[ProcessInfo], signal: Signal) {
    for process in processes {
        // A process that this user may not signal appears again in the next scan and is reported at the end.
        let _ = sys::signal_process(process, signal);
    }
}

/// Returns `None` while the process runs. An error means that the process is no longer a child of this one.
fn poll_exit(pid: Pid) -> rustix::io::Result<Option<ProcessExit>> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = retry_on_intr(|| waitid(WaitId::Pid(pid), look))?;
    Ok(status.map(|status| match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ProcessExit::Code(code),
        (None, Some(signal)) => ProcessExit::Signal(signal),
        (None, None) => ProcessExit::Unknown,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::owner_mark::HostInstanceId;

    const ROW: ProcessInfo = ProcessInfo {
        pid: 1,
        parent: 1,
        group: 1,
        start: 1,
        zombie: false,
        mark: None,
        is_mid_exec: false,
    };

    #[test]
    fn tree_includes_the_group_and_marked_processes() {
        let mark = OwnerMark { instance: HostInstanceId::random().unwrap(), session: 1 };
        let brother = OwnerMark { session: 2, ..mark };
        let row = |pid, group, mark| ProcessInfo { pid, group, mark, ..ROW };
        for (process, wanted) in [
            (row(11, 10, None), true),
            (row(12, 12, Some(mark)), true),
            (row(13, 13, Some(brother)), false),
            (row(14, 14, None), false),
            (ProcessInfo { zombie: true, ..row(15, 10, Some(mark)) }, false),
        ] {
            assert_eq!(is_member(&process, Some(10), mark), wanted, "{process:?}");
            // After the leader was reaped only the mark counts.
            let marked = wanted && process.mark.is_some();
            assert_eq!(is_member(&process, None, mark), marked, "{process:?}");
        }
    }

    #[test]
    fn tree_includes_unmarked_cgroup_members() {
        let mark = OwnerMark { instance: HostInstanceId::random().unwrap(), session: 1 };
        let row = |pid| ProcessInfo { pid, group: pid, ..ROW };
        let leader = ProcessInfo { mark: Some(mark), ..row(10) };
        let (marked, bare) = (ProcessInfo { mark: Some(mark), ..row(11) }, row(12));
        let table = [leader.clone(), marked.clone(), bare.clone(), row(13)];
        let members = [leader, marked.clone(), bare.clone()];
        let survivors = |members| select_members(&table, members, 10, None, mark).unwrap();
        assert_eq!(survivors(Some(&members[..])), [marked.clone(), bare]);
        assert_eq!(survivors(None), [marked]);
    }

    #[test]
    fn unreadable_mark_leaves_the_tree_unknown() {
        let mark = OwnerMark { instance: HostInstanceId::random().unwrap(), session: 1 };
        let is_mid_exec = [ProcessInfo { pid: 14, group: 14, is_mid_exec: true, ..ROW }];
        let survivors = |members| select_members(&is_mid_exec, members, 10, None, mark);
        assert_eq!(survivors(None).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(survivors(Some(&[])).unwrap(), []);
    }
}

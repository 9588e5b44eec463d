//! A child and whatever came of it: the leader, its group, and descendants that left the group.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::sync::watch;
use tokio::task;
use tokio::time::sleep;

use super::child::Exit;
use super::leash::Leash;
use super::mark::Mark;
use super::sys::{self, Process};

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
            match self.rest().await {
                Ok(rest) if rest.is_empty() => return,
                Ok(rest) if kill || self.leash.abandoned() => send(&rest, Signal::KILL),
                // Alive, or not to be seen at the moment.
                Ok(_) | Err(_) => {}
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
        send(&strays, signal);
    }

    /// Who lives, besides the leader.
    pub(crate) async fn rest(&self) -> io::Result<Vec<Process>> {
        let (leader, group, start) = (sys::number(self.leader), self.leash.group(), self.start);
        let table = task::spawn_blocking(move || sys::processes(start)).await?;
        match table {
            Ok(table) => Ok(table
                .into_iter()
                .filter(|row| row.pid != leader && belongs(row, group, self.mark))
                .collect()),
            // Then the group is all that can be reached; it is killed when the leash is released.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn release(&self) {
        self.leash.release();
    }
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

    #[test]
    fn the_group_and_the_marked_are_family() {
        let mark = Mark { instance: InstanceId::random().unwrap(), session: 1 };
        let brother = Mark { session: 2, ..mark };
        let row = |pid, group, mark| Process { pid, group, start: 1, zombie: false, mark };
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
}

//! Handle to a child's process group, valid until the leader is reaped.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use super::sys;

/// A process group. The kernel does not reuse a pid before the process is reaped, so this lock makes
/// signalling and reaping exclude each other. The child handle shares it to kill on drop; the monitor shares
/// it to reap.
#[derive(Debug)]
pub(crate) struct ProcessGroup(Mutex<GroupState>);

#[derive(Debug)]
struct GroupState {
    /// `None` after the leader was reaped.
    leader: Option<Pid>,
    abandoned: bool,
}

impl ProcessGroup {
    pub(crate) fn new(leader: Pid) -> Self {
        Self(Mutex::new(GroupState { leader: Some(leader), abandoned: false }))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.state().signal(signal);
    }

    /// Sends SIGKILL at once and ends all grace periods for processes outside of the group.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        state.abandoned = true;
        state.signal(Signal::KILL);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.state().abandoned
    }

    /// Kills the rest of the group and reaps the leader, which must have exited.
    pub(crate) fn reap_leader(&self) {
        let mut state = self.state();
        state.signal(Signal::KILL);
        if let Some(leader) = state.leader.take() {
            // `waitpid` does not block here. It fails only if other code has just reaped the leader.
            let _ = retry_on_intr(|| waitpid(Some(leader), WaitOptions::empty()));
        }
    }

    /// The group id, while it certainly belongs to the child.
    pub(crate) fn id(&self) -> Option<u32> {
        self.state().leader.map(sys::raw_pid)
    }

    /// Other code has reaped the leader. The kernel may reuse its pid from now on.
    pub(crate) fn forget_leader(&self) {
        self.state().leader = None;
    }

    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GroupState {
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // `kill` fails only if the group is empty or this user may not signal any member.
            let _ = kill_process_group(leader, signal);
        }
    }
}

//! The hold on a child's process group: valid exactly as long as the leader's pid cannot be anybody else's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use super::sys;

/// A pid stays taken until its bearer is reaped, so signalling and reaping exclude each other here. Shared by the
/// handle, which must be able to kill from `drop`, and the minder, which reaps.
#[derive(Debug)]
pub(crate) struct Leash(Mutex<Hold>);

#[derive(Debug)]
struct Hold {
    /// `None` once the leader is reaped.
    group: Option<Pid>,
    abandoned: bool,
}

impl Leash {
    pub(crate) fn new(leader: Pid) -> Self {
        Self(Mutex::new(Hold { group: Some(leader), abandoned: false }))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.hold().signal(signal);
    }

    /// SIGKILL at once, and no more grace for whoever left the group.
    pub(crate) fn abandon(&self) {
        let mut hold = self.hold();
        hold.abandoned = true;
        hold.signal(Signal::KILL);
    }

    pub(crate) fn abandoned(&self) -> bool {
        self.hold().abandoned
    }

    /// Ends what is left of the group and takes the leader, which must have ended, out of the process table.
    pub(crate) fn release(&self) {
        let mut hold = self.hold();
        hold.signal(Signal::KILL);
        if let Some(leader) = hold.group.take() {
            // It does not block, and fails only if somebody else has just reaped the leader, which is as good.
            let _ = retry_on_intr(|| waitpid(Some(leader), WaitOptions::empty()));
        }
    }

    /// The group, while its number is certainly still the child's.
    pub(crate) fn group(&self) -> Option<u32> {
        self.hold().group.map(sys::number)
    }

    /// Somebody else has reaped the leader: from now on its pid may be anybody's.
    pub(crate) fn lose(&self) {
        self.hold().group = None;
    }

    fn hold(&self) -> MutexGuard<'_, Hold> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It fails only if nobody is there, or nobody whom we may signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

//! A running child process: its pipes, its stderr and its exit.

use std::fmt;
use std::sync::Arc;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};

use super::owner_mark::OwnerMark;
use super::process_group::ProcessGroup;
use super::stderr::StderrTail;
use super::stop_sequence::StopMethod;

/// A child process. Dropping it kills its process group at once. [`Child::stop`] stops it gracefully.
#[derive(Debug)]
pub struct Child {
    /// Pipe to the child. The transport takes it. Dropping it closes the child's stdin.
    pub stdin: Option<ChildStdin>,
    /// Pipe from the child. The transport takes it.
    pub stdout: Option<ChildStdout>,
    pid: u32,
    mark: OwnerMark,
    stderr: StderrTail,
    group: Arc<ProcessGroup>,
    stop: Option<oneshot::Sender<()>>,
    state: watch::Receiver<ChildState>,
}

/// Exit of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    Code(i32),
    Signal(i32),
    /// The process did not end in time, or another part of this program reaped it.
    Unknown,
}

/// Outcome of stopping a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopOutcome {
    /// The stage of the stop sequence that ended the child.
    pub method: StopMethod,
    /// Exit of the leader.
    pub exit: ProcessExit,
    /// Processes of the child's tree that survived SIGKILL. The ledger keeps them for the next start.
    pub survivors: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum ChildState {
    Running,
    /// The leader has exited. Other processes of its tree may still run.
    Exited(ProcessExit),
    /// All processes of the tree have exited, or the monitor has given up on the rest.
    Ended(StopOutcome),
}

impl Child {
    pub(crate) fn new(
        pid: u32,
        mark: OwnerMark,
        stderr: StderrTail,
        group: Arc<ProcessGroup>,
        stop: oneshot::Sender<()>,
        state: watch::Receiver<ChildState>,
    ) -> Self {
        Self { stdin: None, stdout: None, pid, mark, stderr, group, stop: Some(stop), state }
    }

    /// Returns the pid of the leader, which is also the id of its process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the child's owner mark.
    pub fn mark(&self) -> OwnerMark {
        self.mark
    }

    /// Returns the newest part of the child's stderr.
    pub fn stderr(&self) -> &StderrTail {
        &self.stderr
    }

    /// Waits until the process exits. The final stderr output is readable then.
    pub async fn exited(&self) -> ProcessExit {
        let mut state = self.state.clone();
        match state.wait_for(|state| !matches!(state, ChildState::Running)).await.as_deref() {
            Ok(ChildState::Exited(exit) | ChildState::Ended(StopOutcome { exit, .. })) => *exit,
            Ok(ChildState::Running) | Err(_) => ProcessExit::Unknown,
        }
    }

    /// Runs the stop sequence: closes stdin, sends SIGTERM, sends SIGKILL, each after its grace period. A
    /// caller that has taken `stdin` must drop it first; otherwise closing stdin has no effect. Dropping the
    /// future kills the child at once.
    pub async fn stop(mut self) -> StopOutcome {
        drop(self.stdin.take());
        if let Some(stop) = self.stop.take() {
            // The receiver is gone if the child has already exited.
            let _ = stop.send(());
        }
        let mut state = self.state.clone();
        match state.wait_for(|state| matches!(state, ChildState::Ended(_))).await.as_deref() {
            Ok(ChildState::Ended(ended)) => ended.clone(),
            // The child thread ended before it saw the exit.
            _ => StopOutcome {
                method: StopMethod::Killed,
                exit: ProcessExit::Unknown,
                survivors: vec![self.pid],
            },
        }
    }
}

/// Kills synchronously instead of in a spawned task: a task may never run if the runtime shuts down.
impl Drop for Child {
    fn drop(&mut self) {
        self.group.abandon();
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("unknown status"),
        }
    }
}

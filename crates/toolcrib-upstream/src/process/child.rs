//! A running child: its pipes, its stderr, its end.

use std::fmt;
use std::sync::Arc;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};

use super::ladder::Means;
use super::leash::Leash;
use super::mark::Mark;
use super::stderr::StderrTail;

/// A child process. Dropping it kills its whole group at once; [`Child::stop`] is the gentle way.
#[derive(Debug)]
pub struct Child {
    /// Taken by whoever speaks with the child. The child sees its end when it is dropped.
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pid: u32,
    mark: Mark,
    stderr: StderrTail,
    leash: Arc<Leash>,
    stop: Option<oneshot::Sender<()>>,
    life: watch::Receiver<Life>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// It did not end in time, or somebody else asked for its status.
    Unknown,
}

/// How a child was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub means: Means,
    pub exit: Exit,
    /// Processes of its family that not even SIGKILL ended in time; the ledger keeps them for the next start.
    pub left: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum Life {
    Running,
    /// The leader has ended; others of its family may live.
    Exited(Exit),
    /// All have ended, or were given up.
    Ended(Ended),
}

impl Child {
    pub(crate) fn new(
        pid: u32,
        mark: Mark,
        stderr: StderrTail,
        leash: Arc<Leash>,
        stop: oneshot::Sender<()>,
        life: watch::Receiver<Life>,
    ) -> Self {
        Self { stdin: None, stdout: None, pid, mark, stderr, leash, stop: Some(stop), life }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn mark(&self) -> Mark {
        self.mark
    }

    pub fn stderr(&self) -> &StderrTail {
        &self.stderr
    }

    /// Waits until the process ends, by itself or otherwise. What it last wrote to stderr can then be read.
    pub async fn exited(&self) -> Exit {
        let mut life = self.life.clone();
        match life.wait_for(|life| !matches!(life, Life::Running)).await.as_deref() {
            Ok(Life::Exited(exit) | Life::Ended(Ended { exit, .. })) => *exit,
            Ok(Life::Running) | Err(_) => Exit::Unknown,
        }
    }

    /// Takes the child down the stop ladder: closed stdin, SIGTERM, SIGKILL, each after its grace. Whoever has
    /// taken stdin must have dropped it, or the first step has no effect. Dropping the future kills at once.
    pub async fn stop(mut self) -> Ended {
        drop(self.stdin.take());
        if let Some(stop) = self.stop.take() {
            // Nobody listens if the child has ended by itself.
            let _ = stop.send(());
        }
        let mut life = self.life.clone();
        match life.wait_for(|life| matches!(life, Life::Ended(_))).await.as_deref() {
            Ok(Life::Ended(ended)) => ended.clone(),
            // The keeper has gone without seeing the end.
            _ => Ended { means: Means::Killed, exit: Exit::Unknown, left: vec![self.pid] },
        }
    }
}

/// Here and now, not in a task: a task may never run if the runtime ends as well.
impl Drop for Child {
    fn drop(&mut self) {
        self.leash.abandon();
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("unknown status"),
        }
    }
}

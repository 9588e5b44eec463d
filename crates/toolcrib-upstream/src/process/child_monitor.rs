//! Monitors one child from start to exit: waits for events, runs the stop sequence, reaps.

use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use super::child::{ChildState, ProcessExit, StopOutcome};
use super::launch::GracePeriods;
use super::owner_mark::OwnerMark;
use super::process_tree::ProcessTree;
use super::stop_sequence::{self, StopEvent, StopMethod, StopStage};
use super::sys;

/// Timeout for draining stderr after the leader's exit. The pipe is usually at its end then; a descendant
/// that holds the pipe open must not delay the exit event.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct ChildMonitor {
    pub(crate) tree: ProcessTree,
    pub(crate) graces: GracePeriods,
    pub(crate) stop: oneshot::Receiver<()>,
    pub(crate) state: watch::Sender<ChildState>,
    /// The single task that drains stderr.
    pub(crate) stderr: JoinSet<()>,
}

/// Result of monitoring a child.
#[derive(Debug)]
pub(crate) struct MonitorOutcome {
    pub(crate) mark: OwnerMark,
    /// If false, the monitor has given up on some processes of the tree.
    pub(crate) all_exited: bool,
}

impl ChildMonitor {
    pub(crate) async fn run(mut self) -> MonitorOutcome {
        let mut stage = StopStage::Running;
        let mut deadline = None;
        let mut end = None;
        loop {
            let event = self.next_event(stage, deadline, &mut end).await;
            let Some(next) = stop_sequence::next_stage(stage, event) else {
                return self.finish(end, event == StopEvent::AllExited).await;
            };
            if next != stage {
                stage = next;
                deadline = stage.grace(&self.graces).map(|grace| Instant::now() + grace);
                self.enter_stage(stage).await;
            }
        }
    }

    async fn next_event(
        &mut self,
        stage: StopStage,
        deadline: Option<Instant>,
        end: &mut Option<(StopMethod, ProcessExit)>,
    ) -> StopEvent {
        let leader_runs = end.is_none();
        tokio::select! {
            exit = self.tree.leader_exit(), if leader_runs => {
                *end = Some((self.stop_method(stage), exit));
                self.handle_leader_exit(exit).await
            }
            () = self.tree.wait_until_empty(stage == StopStage::Kill), if !leader_runs => StopEvent::AllExited,
            Ok(()) = &mut self.stop, if stage == StopStage::Running => StopEvent::StopRequested,
            () = sleep_until_deadline(deadline) => StopEvent::GraceExpired,
        }
    }

    async fn handle_leader_exit(&mut self, exit: ProcessExit) -> StopEvent {
        let _ = timeout(STDERR_DRAIN_TIMEOUT, self.stderr.join_next()).await;
        self.state.send_replace(ChildState::Exited(exit));
        match self.tree.survivors().await {
            Ok(survivors) if survivors.is_empty() => StopEvent::AllExited,
            Ok(_) | Err(_) => StopEvent::LeaderExited,
        }
    }

    fn stop_method(&self, stage: StopStage) -> StopMethod {
        if self.tree.group.is_abandoned() { StopMethod::Killed } else { stage.method() }
    }

    async fn enter_stage(&self, stage: StopStage) {
        match stage {
            // The handle closes stdin before it requests the stop.
            StopStage::Running | StopStage::StdinClosed => {}
            StopStage::Terminate => self.tree.signal(Signal::TERM).await,
            StopStage::Kill => self.tree.signal(Signal::KILL).await,
        }
    }

    /// Reports the outcome and reaps the leader. `end` is `None` if the leader has not exited.
    async fn finish(
        self,
        end: Option<(StopMethod, ProcessExit)>,
        all_exited: bool,
    ) -> MonitorOutcome {
        let mark = self.tree.mark;
        if all_exited && let Some((method, exit)) = end {
            self.tree.release();
            self.state.send_replace(ChildState::Ended(StopOutcome {
                method,
                exit,
                survivors: Vec::new(),
            }));
            return MonitorOutcome { mark, all_exited };
        }
        let (method, exit) = end.unwrap_or((StopMethod::Killed, ProcessExit::Unknown));
        let left = self.remaining_pids(end.is_none()).await;
        warn!(%mark, ?left, "some processes did not exit; the next start tries again");
        self.state.send_replace(ChildState::Ended(StopOutcome { method, exit, survivors: left }));
        // The caller has its outcome already. Waiting here reaps the leader when the kernel finally ends it.
        self.tree.leader_exit().await;
        self.tree.release();
        MonitorOutcome { mark, all_exited }
    }

    async fn remaining_pids(&self, with_leader: bool) -> Vec<u32> {
        let survivors = self.tree.survivors().await.unwrap_or_default();
        let leader = with_leader.then(|| sys::raw_pid(self.tree.leader));
        leader.into_iter().chain(survivors.iter().map(|process| process.pid)).collect()
    }
}

async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

//! Calls that somebody started and did not wait for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::call::{CallRequest, Execution};
use super::dialog::Dialog;
use super::handle::Host;
use crate::shape::{CallError, ErrorKind};

/// Calls of one dialog that go on at a time.
const MOST: usize = 64;

/// Ended calls of one dialog whose outcome is kept.
const KEPT: usize = 256;

/// The calls of one dialog.
#[derive(Debug, Default)]
pub(super) struct Jobs(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    jobs: BTreeMap<u64, Job>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Job {
    outcome: watch::Receiver<Option<Execution>>,
    task: AbortHandle,
}

impl Jobs {
    pub(super) fn start(&self, dialog: Dialog, request: CallRequest) -> Result<u64, CallError> {
        let mut all = self.all();
        while all.tasks.try_join_next().is_some() {}
        if all.tasks.len() >= MOST {
            let text =
                format!("{MOST} calls of this dialog are under way; wait for one or cancel it");
            return Err(CallError::new(ErrorKind::Resource, text));
        }
        let call = dialog.host.core().next_call();
        let (done, outcome) = watch::channel(None);
        // Weak until it begins: a call that nobody waits for keeps neither its dialog nor the host.
        let (shell, inner) = (Arc::downgrade(dialog.host.shell()), Arc::downgrade(&dialog.inner));
        drop(dialog);
        let task = all.tasks.spawn(async move {
            let Some((shell, inner)) = shell.upgrade().zip(inner.upgrade()) else { return };
            let dialog = Dialog { host: Host::of(shell), inner };
            let turn = dialog.turn_for(&request.tool).await;
            done.send_replace(Some(turn.execute_as(call, &request).await));
        });
        all.jobs.insert(call, Job { outcome, task });
        all.forget_old();
        Ok(call)
    }

    pub(super) fn poll(&self, call: u64) -> Option<Execution> {
        self.all().jobs.get(&call)?.outcome.borrow().clone()
    }

    pub(super) fn is_underway(&self, call: u64) -> bool {
        self.all().jobs.get(&call).is_some_and(|job| job.outcome.borrow().is_none())
    }

    pub(super) fn is_busy(&self) -> bool {
        self.all().jobs.values().any(|job| job.outcome.borrow().is_none())
    }

    pub(super) async fn wait(&self, call: u64) -> Option<Execution> {
        let mut outcome = self.all().jobs.get(&call)?.outcome.clone();
        // An error means that the call was cancelled: there will be no outcome.
        let ended = outcome.wait_for(Option::is_some).await.ok()?;
        ended.clone()
    }

    pub(super) fn cancel(&self, call: u64) -> bool {
        let Some(job) = self.all().jobs.remove(&call) else { return false };
        let goes_on = job.outcome.borrow().is_none();
        job.task.abort();
        goes_on
    }

    /// Cancels all.
    pub(super) fn close(&self) {
        let all = std::mem::take(&mut *self.all());
        drop(all);
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn forget_old(&mut self) {
        let ended: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.outcome.borrow().is_some())
            .map(|(call, _)| *call)
            .collect();
        for call in ended.iter().take(ended.len().saturating_sub(KEPT)) {
            self.jobs.remove(call);
        }
    }
}

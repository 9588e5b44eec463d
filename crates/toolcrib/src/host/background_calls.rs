//! Calls that run in the background of a dialog.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::call::{CallRequest, Execution};
use super::dialog::Dialog;
use super::handle::Host;
use crate::results::{CallError, ErrorKind};

/// Maximum number of calls of one dialog that run at the same time.
const MAX_RUNNING: usize = 64;

/// Maximum number of kept outcomes of finished calls, per dialog.
const MAX_FINISHED: usize = 256;

/// The background calls of one dialog.
#[derive(Debug, Default)]
pub(super) struct BackgroundCalls(Mutex<CallTasks>);

#[derive(Debug, Default)]
struct CallTasks {
    jobs: BTreeMap<u64, BackgroundCall>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct BackgroundCall {
    outcome: watch::Receiver<Option<Execution>>,
    task: AbortHandle,
}

impl BackgroundCalls {
    pub(super) fn start(&self, dialog: Dialog, request: CallRequest) -> Result<u64, CallError> {
        let mut all = self.lock();
        while all.tasks.try_join_next().is_some() {}
        if all.tasks.len() >= MAX_RUNNING {
            let text = format!(
                "{MAX_RUNNING} calls of this dialog are running; wait for one or cancel one"
            );
            return Err(CallError::new(ErrorKind::Resource, text));
        }
        let call = dialog.host.core().next_call_number();
        let (done, outcome) = watch::channel(None);
        // The references are weak until the task starts: a queued call keeps neither its dialog nor
        // the host alive.
        let (host, inner) = (Arc::downgrade(dialog.host.inner()), Arc::downgrade(&dialog.inner));
        drop(dialog);
        let task = all.tasks.spawn(async move {
            let Some((host, inner)) = host.upgrade().zip(inner.upgrade()) else { return };
            let dialog = Dialog { host: Host::from_inner(host), inner };
            let turn = dialog.turn_with_tool(&request.tool).await;
            done.send_replace(Some(turn.execute_numbered(call, &request).await));
        });
        all.jobs.insert(call, BackgroundCall { outcome, task });
        all.remove_oldest_finished();
        Ok(call)
    }

    pub(super) fn poll(&self, call: u64) -> Option<Execution> {
        self.lock().jobs.get(&call)?.outcome.borrow().clone()
    }

    pub(super) fn is_running(&self, call: u64) -> bool {
        self.lock().jobs.get(&call).is_some_and(|job| job.outcome.borrow().is_none())
    }

    pub(super) fn has_running(&self) -> bool {
        self.lock().jobs.values().any(|job| job.outcome.borrow().is_none())
    }

    pub(super) async fn wait(&self, call: u64) -> Option<Execution> {
        let mut outcome = self.lock().jobs.get(&call)?.outcome.clone();
        // An error means that the call was cancelled and has no outcome.
        let ended = outcome.wait_for(Option::is_some).await.ok()?;
        ended.clone()
    }

    pub(super) fn cancel(&self, call: u64) -> bool {
        let Some(job) = self.lock().jobs.remove(&call) else { return false };
        let goes_on = job.outcome.borrow().is_none();
        job.task.abort();
        goes_on
    }

    /// Cancels all calls.
    pub(super) fn close(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, CallTasks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallTasks {
    fn remove_oldest_finished(&mut self) {
        let ended: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.outcome.borrow().is_some())
            .map(|(call, _)| *call)
            .collect();
        for call in ended.iter().take(ended.len().saturating_sub(MAX_FINISHED)) {
            self.jobs.remove(call);
        }
    }
}

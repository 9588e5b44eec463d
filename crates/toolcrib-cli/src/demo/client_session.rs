//! State of one client: its session, its pending elicitations and its running requests.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use toolcrib_wire::{Id, RawJson, Request, Response, RpcError, build, method};

use super::caller::Caller;
use super::state::Session;

/// Time limit for the user's answer.
const ELICITATION_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of concurrent requests of one client. Further requests are rejected.
const MAX_RUNNING: usize = 64;

/// One client's session, shared by its requests.
#[derive(Debug, Default)]
pub(crate) struct ClientSession(Mutex<SessionInner>);

#[derive(Debug, Default)]
struct SessionInner {
    session: Session,
    last_request_id: i64,
    pending_requests: HashMap<Id, oneshot::Sender<Response>>,
    running: HashMap<Id, AbortHandle>,
}

impl ClientSession {
    /// Returns whether the client has opened a session.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().session.client().is_some()
    }

    /// Records a task so that a cancellation can abort it.
    pub(crate) fn track_task(&self, id: Id, task: AbortHandle) {
        self.lock().running.insert(id, task);
    }

    /// Identifies the client of a request on a transport without headers.
    pub(super) fn caller(&self, request: &Request) -> Result<Caller, RpcError> {
        Caller::from_request(request, &self.lock().session)
    }

    pub(super) fn update_session<T>(&self, act: impl FnOnce(&mut Session) -> T) -> T {
        act(&mut self.lock().session)
    }

    pub(super) fn has_room(&self) -> bool {
        let running = &mut self.lock().running;
        running.retain(|_, task| !task.is_finished());
        running.len() < MAX_RUNNING
    }

    pub(super) fn cancel(&self, id: &Id) {
        if let Some(task) = self.lock().running.remove(id) {
            task.abort();
        }
    }

    pub(super) fn deliver_response(&self, response: Response) {
        let waiter = response.id.as_ref().and_then(|id| self.lock().pending_requests.remove(id));
        if let Some(waiter) = waiter {
            // The waiting request may have been cancelled.
            let _ = waiter.send(response);
        }
    }

    /// Sends an elicitation and waits for the response. Returns `None` on timeout.
    pub(super) async fn send_elicitation(
        &self,
        params: &RawJson,
        out: &mpsc::Sender<RawJson>,
    ) -> Option<Result<RawJson, RpcError>> {
        let (id, response) = self.register_request();
        let request = build::request(&id, method::ELICIT, Some(params.json()));
        let _ = out.send(request).await;
        let response = timeout(ELICITATION_TIMEOUT, response).await.ok()?.ok()?;
        Some(response.into_result())
    }

    fn register_request(&self) -> (Id, oneshot::Receiver<Response>) {
        let (sender, response) = oneshot::channel();
        let mut lock = self.lock();
        // Cancelled requests no longer wait.
        lock.pending_requests.retain(|_, waiter| !waiter.is_closed());
        lock.last_request_id += 1;
        let id = Id::Number(lock.last_request_id);
        lock.pending_requests.insert(id.clone(), sender);
        (id, response)
    }

    fn lock(&self) -> MutexGuard<'_, SessionInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What belongs to one client: its session, what it was asked, what is being done for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use toolcrib_wire::{Id, Raw, Request, Response, RpcError, build, method};

use super::caller::Caller;
use super::state::Session;

/// How long a person may think about a question.
const PATIENCE: Duration = Duration::from_secs(600);

/// Requests of one client that are under way at once; more are refused.
const AT_ONCE: usize = 64;

/// One client's place.
#[derive(Debug, Default)]
pub(crate) struct Desk(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    session: Session,
    last_question: i64,
    questions: HashMap<Id, oneshot::Sender<Response>>,
    running: HashMap<Id, AbortHandle>,
}

impl Desk {
    /// Whether a session was opened.
    pub(crate) fn is_open(&self) -> bool {
        self.inner().session.client().is_some()
    }

    /// Remembers a task so that it can be called off.
    pub(crate) fn started(&self, id: Id, task: AbortHandle) {
        self.inner().running.insert(id, task);
    }

    /// Who sends a request on a channel that has no headers.
    pub(super) fn caller(&self, request: &Request) -> Result<Caller, RpcError> {
        Caller::of(request, &self.inner().session)
    }

    pub(super) fn with_session<T>(&self, act: impl FnOnce(&mut Session) -> T) -> T {
        act(&mut self.inner().session)
    }

    pub(super) fn has_room(&self) -> bool {
        let running = &mut self.inner().running;
        running.retain(|_, task| !task.is_finished());
        running.len() < AT_ONCE
    }

    pub(super) fn cancel(&self, id: &Id) {
        if let Some(task) = self.inner().running.remove(id) {
            task.abort();
        }
    }

    pub(super) fn answered(&self, response: Response) {
        let asked = response.id.as_ref().and_then(|id| self.inner().questions.remove(id));
        if let Some(asked) = asked {
            // Whoever asked may have been cancelled since.
            let _ = asked.send(response);
        }
    }

    /// Asks the client's person; none if no answer came.
    pub(super) async fn ask(
        &self,
        params: &Raw,
        out: &mpsc::Sender<Raw>,
    ) -> Option<Result<Raw, RpcError>> {
        let (id, answer) = self.question();
        let request = build::request(&id, method::ELICIT, Some(params.json()));
        let _ = out.send(request).await;
        let response = timeout(PATIENCE, answer).await.ok()?.ok()?;
        Some(response.into_answer())
    }

    fn question(&self) -> (Id, oneshot::Receiver<Response>) {
        let (sender, answer) = oneshot::channel();
        let mut inner = self.inner();
        // Those who were cancelled no longer wait.
        inner.questions.retain(|_, asked| !asked.is_closed());
        inner.last_question += 1;
        let id = Id::Number(inner.last_question);
        inner.questions.insert(id.clone(), sender);
        (id, answer)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

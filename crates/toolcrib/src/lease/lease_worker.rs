//! The worker of one server's leases: opens and closes sessions, and closes idle ones.

use std::collections::HashMap;
use std::error::Error;
use std::future::{self, Future};
use std::sync::Arc;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use toolcrib_wire::Era;

use super::event::LeaseEvent;
use super::lease_pool::{PoolInner, WorkItem};
use super::session_entry::SessionId;

/// Opens and closes sessions with one server.
pub(crate) trait SessionOpener: Send + Sync + 'static {
    /// A handle to a session. Clones are the same session.
    type Session: Clone + Send + 'static;
    /// The error of a failed opening.
    type Error: Error + Clone + Send + Sync + 'static;

    /// Opens a session. The future may be dropped at any time and must then leave nothing behind.
    fn open(
        &self,
        request: SessionRequest,
    ) -> impl Future<Output = Result<Self::Session, Self::Error>> + Send;

    /// Closes a session, which may have ended already. The session counts against the limit until the future
    /// completes.
    fn close(&self, session: Self::Session) -> impl Future<Output = ()> + Send;
}

/// A request to open a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionRequest {
    /// The id for reporting the loss of the session.
    pub session_id: SessionId,
    /// The dialog that will hold the session. `None` for a shared session.
    pub dialog: Option<Arc<str>>,
    /// The era of the session.
    pub era: Era,
}

/// Opens and closes sessions until the server is retired. Dropping the worker drops all sessions and fails all
/// waiting calls.
#[derive(Debug)]
pub(crate) struct LeaseWorker<T: Clone, E: Error + Clone + 'static> {
    shared: Arc<PoolInner<T, E>>,
}

impl<T, E> LeaseWorker<T, E>
where
    T: Clone + Send + 'static,
    E: Error + Clone + Send + Sync + 'static,
{
    /// Runs until the server is retired and all its sessions are closed.
    pub(crate) async fn run<S: SessionOpener<Session = T, Error = E>>(self, sessions: Arc<S>) {
        let mut tasks = SessionTasks {
            shared: &self.shared,
            sessions,
            tasks: JoinSet::new(),
            by_task: HashMap::new(),
        };
        while let Some((work, due)) = self.shared.next_work() {
            work.into_iter().for_each(|work| tasks.start(work));
            tokio::select! {
                () = self.shared.wakeup.notified() => {}
                Some(ended) = tasks.tasks.join_next_with_id() => tasks.task_finished(ended),
                () = wait_until(due) => self.shared.apply(LeaseEvent::Tick),
            }
        }
    }
}

impl<T: Clone, E: Error + Clone + 'static> LeaseWorker<T, E> {
    pub(super) fn new(shared: Arc<PoolInner<T, E>>) -> Self {
        Self { shared }
    }
}

impl<T: Clone, E: Error + Clone + 'static> Drop for LeaseWorker<T, E> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// The running open and close tasks.
struct SessionTasks<'a, S: SessionOpener> {
    shared: &'a Arc<PoolInner<S::Session, S::Error>>,
    sessions: Arc<S>,
    tasks: JoinSet<TaskOutcome<S>>,
    /// The session of each task, and the handle to abort an opening.
    by_task: HashMap<Id, (SessionId, Option<AbortHandle>)>,
}

enum TaskOutcome<S: SessionOpener> {
    Opened(Result<S::Session, S::Error>),
    Closed,
}

impl<S: SessionOpener> SessionTasks<'_, S> {
    fn start(&mut self, work: WorkItem<S::Session>) {
        match work {
            WorkItem::Open(request) => {
                let (sessions, session_id) = (self.sessions.clone(), request.session_id);
                let open = async move { TaskOutcome::Opened(sessions.open(request).await) };
                let task = self.tasks.spawn(open);
                self.by_task.insert(task.id(), (session_id, Some(task)));
            }
            WorkItem::Close(session_id, Some(session)) => self.close_session(session_id, session),
            WorkItem::Close(session_id, None) => {
                let openings = self.by_task.values().filter(|(id, _)| *id == session_id);
                openings.filter_map(|(_, opening)| opening.as_ref()).for_each(AbortHandle::abort);
            }
        }
    }

    fn close_session(&mut self, session_id: SessionId, session: S::Session) {
        let sessions = self.sessions.clone();
        let close = async move {
            sessions.close(session).await;
            TaskOutcome::Closed
        };
        let task = self.tasks.spawn(close);
        self.by_task.insert(task.id(), (session_id, None));
    }

    fn task_finished(&mut self, ended: Result<(Id, TaskOutcome<S>), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some((session_id, _)) = self.by_task.remove(&id) else {
            return;
        };
        match ended {
            Ok((_, TaskOutcome::Opened(Ok(session)))) => {
                if let Some(unwanted) = self.shared.session_opened(session_id, session) {
                    self.close_session(session_id, unwanted);
                }
            }
            Ok((_, TaskOutcome::Opened(Err(cause)))) => {
                self.shared.open_failed(session_id, Some(&cause))
            }
            Ok((_, TaskOutcome::Closed)) => self.shared.apply(LeaseEvent::Closed(session_id)),
            // The task was aborted or panicked; neither leaves a session.
            Err(_) => self.shared.open_failed(session_id, None),
        }
    }
}

async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => future::pending().await,
    }
}

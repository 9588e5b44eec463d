//! Handle to one server's connection: commands, sessions and snapshots.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use toolcrib_config::Problem;
use toolcrib_wire::Notification;

use super::catalog::Catalog;
use super::catalog_diff::CatalogChange;
use super::failure::{Failure, FailureKind};
use super::peer::{Anomaly, AnomalyReport};
use super::session::{Session, SessionHold};
use super::setup::ConnSetup;
use super::state::{ConnAvailability, ConnLifecycle, ServerState};
use super::step::{ConnEvent, Demand};
use super::task::ConnTask;
use super::usage::{SessionUsage, UseGuard};
use crate::process::StderrTail;

/// Capacity of the command queue. Senders wait when it is full.
const COMMAND_CAPACITY: usize = 16;

/// Handle to one connection's task. Clones share the task. When the last clone drops, the task ends at once with
/// everything it started.
#[derive(Clone, Debug)]
pub struct Conn {
    setup: Arc<ConnSetup>,
    inbox: mpsc::Sender<ConnCommand>,
    view: watch::Receiver<ConnView>,
    usage: Arc<SessionUsage>,
    _task: Arc<JoinSet<()>>,
}

/// Snapshot of a connection.
#[derive(Clone, Debug)]
pub struct ConnView {
    /// State of the connection.
    pub lifecycle: ConnLifecycle,
    /// Origin of all [`MonotonicTime`](super::MonotonicTime) values of the lifecycle.
    pub started_at: Instant,
    /// The open session, if there is one.
    pub session: Option<Session>,
    /// Lists of the server, or its last known lists.
    pub catalog: Option<Arc<Catalog>>,
    /// Lists that changed while one dialog has the connection for itself. They belong to that dialog only.
    pub dialog_catalog: Option<Arc<Catalog>>,
    /// Opening time of the session, until its lists are read again.
    pub unrefreshed_since: Option<Instant>,
    /// Stderr of the newest session, if it is captured. A failed start has one too.
    pub stderr: Option<StderrTail>,
}

/// Receiver of connection updates. Implementations must not block.
pub trait ConnListener: Send + Sync {
    fn on_update(&self, update: ConnUpdate);
}

/// A change of a connection.
#[derive(Debug)]
pub enum ConnUpdate {
    /// State, attempts or last error changed.
    StateChanged(ConnView),
    /// The lists were read, with the differences to the previous ones.
    CatalogRead {
        catalog: Arc<Catalog>,
        changes: Vec<CatalogChange>,
        /// True if only the dialog that has the connection for itself sees them.
        is_dialog_only: bool,
        /// Notifications of the server that announced the change.
        announced: Vec<Notification>,
    },
    /// The server's lists differ from the known ones, which stay in use until a refresh.
    CatalogDiffers {
        changes: Vec<CatalogChange>,
    },
    /// Any other notification of the server.
    Notification {
        notification: Notification,
        /// True if a call has received it already.
        in_call: bool,
    },
    Anomaly(Anomaly),
}

/// Right to use a session. It keeps the session from going idle, and a retiring session waits for it.
#[derive(Debug)]
pub struct SessionPermit {
    /// The open session.
    pub session: Session,
    _hold: SessionHold,
    _use_guard: UseGuard,
}

/// Command to the task.
pub(super) struct ConnCommand {
    pub(super) event: ConnEvent,
    /// Dropped when the event has been applied.
    pub(super) done: oneshot::Sender<()>,
}

impl Conn {
    /// Starts the connection's task. It connects when the policy or a demand requires it.
    pub fn start(setup: ConnSetup, listener: Arc<dyn ConnListener>) -> Conn {
        let setup = Arc::new(setup);
        let (inbox, commands) = mpsc::channel(COMMAND_CAPACITY);
        let started_at = Instant::now();
        let first = ConnView {
            lifecycle: ConnLifecycle::new(setup.spec.policy.enabled),
            started_at,
            session: None,
            catalog: None,
            dialog_catalog: None,
            unrefreshed_since: None,
            stderr: None,
        };
        let (state_sender, view) = watch::channel(first);
        let usage = Arc::new(SessionUsage::new(started_at));
        let task =
            ConnTask::new(Arc::clone(&setup), commands, state_sender, Arc::clone(&usage), listener);
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run());
        Conn { setup, inbox, view, usage, _task: Arc::new(tasks) }
    }

    /// Sends an event and waits until the task has applied it. Effects may still be running.
    pub async fn send_event(&self, event: ConnEvent) {
        let (done, applied) = oneshot::channel();
        if self.inbox.send(ConnCommand { event, done }).await.is_ok() {
            // The task drops the sender without a value, so the error is the signal.
            let _ = applied.await;
        }
    }

    /// Connects on explicit request, regardless of earlier failures. Fails if the server is already connected.
    pub async fn connect(&self) -> Result<(), Failure> {
        if self.view.borrow().lifecycle.availability() == ConnAvailability::Up {
            return Err(Failure::new(FailureKind::Config, "already connected"));
        }
        self.send_event(ConnEvent::Connect).await;
        self.acquire_without_retry(Demand::Call).await.map(drop)
    }

    /// Returns a session for calls. Connects if the policy allows it and waits while a session is being opened.
    pub async fn acquire_session(&self, demand: Demand) -> Result<SessionPermit, Failure> {
        self.wait_for(demand, |lifecycle| lifecycle.availability()).await
    }

    /// Returns a session if one is open now.
    pub fn try_acquire_session(&self) -> Option<SessionPermit> {
        let use_guard = UseGuard::new(&self.usage);
        let (session, hold) = held_session(&self.view.borrow()).flatten()?;
        Some(SessionPermit { session, _hold: hold, _use_guard: use_guard })
    }

    /// Like [`acquire_session`](Self::acquire_session), but returns the first failure instead of waiting for retries.
    pub async fn acquire_without_retry(&self, demand: Demand) -> Result<SessionPermit, Failure> {
        let first_attempt_availability = |lifecycle: &ConnLifecycle| match lifecycle.state() {
            ServerState::Backoff => ConnAvailability::Down,
            _ => lifecycle.availability(),
        };
        self.wait_for(demand, first_attempt_availability).await
    }

    /// Waits for the `Content-Length` attempt that follows a silent start. Returns the session if the attempt
    /// succeeded.
    pub(crate) async fn content_length_attempt(&self) -> Option<SessionPermit> {
        let mut view = self.view.clone();
        // An error means that the task has ended, and the attempt with it.
        let _ = view.wait_for(|view| !view.lifecycle.is_trying_content_length()).await;
        self.try_acquire_session()
    }

    async fn wait_for(
        &self,
        demand: Demand,
        availability: impl Fn(&ConnLifecycle) -> ConnAvailability,
    ) -> Result<SessionPermit, Failure> {
        let use_guard = UseGuard::new(&self.usage);
        let was_up = self.view.borrow().lifecycle.availability() == ConnAvailability::Up;
        if demand == Demand::List || !was_up {
            self.send_event(ConnEvent::Demanded(demand)).await;
        }
        // A session that is lost meanwhile is requested once more.
        let mut may_demand_again = was_up;
        let mut view = self.view.clone();
        loop {
            let (session, availability) = {
                let current = view.borrow_and_update();
                (held_session(&current).flatten(), availability(&current.lifecycle))
            };
            match (session, availability) {
                (Some((session, hold)), ConnAvailability::Up) => {
                    return Ok(SessionPermit { session, _hold: hold, _use_guard: use_guard });
                }
                (_, ConnAvailability::Down) if std::mem::take(&mut may_demand_again) => {
                    self.send_event(ConnEvent::Demanded(demand)).await;
                    continue;
                }
                (_, ConnAvailability::Down) => {
                    return Err(self.down_failure(&view.borrow().lifecycle));
                }
                _ => {}
            }
            if view.changed().await.is_err() {
                return Err(self.down_failure(&view.borrow().lifecycle));
            }
        }
    }

    /// Sends an event without waiting. Returns false if the command queue is full.
    pub fn try_send_event(&self, event: ConnEvent) -> bool {
        self.inbox.try_send(ConnCommand { event, done: oneshot::channel().0 }).is_ok()
    }

    /// Current state.
    pub fn state(&self) -> ServerState {
        self.view.borrow().lifecycle.state()
    }

    /// Current snapshot.
    pub fn view(&self) -> ConnView {
        self.view.borrow().clone()
    }

    /// Watches every change of the view.
    pub fn watch(&self) -> watch::Receiver<ConnView> {
        self.view.clone()
    }

    /// Setup of the connection.
    pub fn setup(&self) -> &ConnSetup {
        &self.setup
    }

    /// Returns the lists of the current session, and its opening time if they have not been read again since.
    pub fn current_catalog(&self) -> Option<(Arc<Catalog>, Option<Instant>)> {
        let view = self.view.borrow();
        let listed = view.dialog_catalog.clone().or_else(|| view.catalog.clone())?;
        Some((listed, view.unrefreshed_since))
    }

    /// Sets whether one dialog has the connection for itself. Returns the previous value. List changes meanwhile
    /// belong to that dialog.
    pub fn set_lent(&self, lent: bool) -> bool {
        self.usage.set_lent(lent)
    }

    /// Returns whether one dialog has the connection for itself.
    pub fn is_lent(&self) -> bool {
        self.usage.is_lent()
    }

    /// Number of callers that use a session or wait for one.
    pub fn in_use(&self) -> u32 {
        self.usage.count()
    }

    /// Waits until a retired connection has ended.
    pub async fn wait_until_ended(&self) {
        let mut view = self.view.clone();
        // An error means that the task has ended as well.
        let _ = view.wait_for(|view| view.lifecycle.is_over()).await;
        self.inbox.closed().await;
    }

    fn down_failure(&self, lifecycle: &ConnLifecycle) -> Failure {
        let failed = matches!(lifecycle.state(), ServerState::Failed | ServerState::Backoff);
        match lifecycle.last_error().filter(|_| failed) {
            Some((_, failure)) => failure.clone(),
            None => {
                let text = format!("Server not connected: it is {}", lifecycle.state().as_str());
                Failure::new(FailureKind::Connection, text)
            }
        }
    }
}

/// Returns the session of a view with [`ConnAvailability::Up`], with a hold on it. The view stays borrowed meanwhile. The
/// task removes an unused session from the view before it checks for holds, so a session that is still in the view
/// waits for this hold. A session whose link just ended is skipped, because the task is about to see its end.
fn held_session(view: &ConnView) -> Option<Option<(Session, SessionHold)>> {
    let session = view.session.as_ref().filter(|session| !session.is_over());
    let session = || session.map(|session| (session.clone(), session.hold()));
    (view.lifecycle.availability() == ConnAvailability::Up).then(session)
}

impl ConnView {
    /// Protocol violations of the server, by kind.
    pub fn anomalies(&self) -> Vec<AnomalyReport> {
        self.session.as_ref().map(|session| session.peer().anomalies()).unwrap_or_default()
    }

    /// Problems of the link that do not prevent its use.
    pub fn link_problems(&self) -> &[Problem] {
        self.session.as_ref().map_or(&[], |session| &session.peer().link_info().problems)
    }
}

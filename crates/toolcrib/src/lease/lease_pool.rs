//! The leases of one server: a lock around the lease table that is never held across an await.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use toolcrib_wire::Era;

use super::error::AcquireError;
use super::event::{LeaseEffect, LeaseEvent, RefusalReason};
use super::lease_guard::LeaseGuard;
use super::lease_policy::LeasePolicy;
use super::lease_table::LeaseTable;
use super::lease_worker::{LeaseWorker, SessionRequest};
use super::session_entry::{Lease, SessionId, WaiterId};

/// The sessions of one server. Clones share them.
pub(crate) struct LeasePool<T: Clone, E: Error + Clone + 'static> {
    shared: Arc<PoolInner<T, E>>,
}

pub(super) struct PoolInner<T: Clone, E: Error + Clone + 'static> {
    server: Arc<str>,
    state: Mutex<PoolState<T, E>>,
    /// Notified when the worker has something to do.
    pub(super) wakeup: Notify,
    version: watch::Sender<u64>,
}

/// State that must agree: `sessions` holds exactly the open sessions, and `senders` exactly the waiting calls.
struct PoolState<T: Clone, E: Error + Clone + 'static> {
    table: LeaseTable,
    sessions: BTreeMap<SessionId, T>,
    senders: BTreeMap<WaiterId, ReplySender<T, E>>,
    last_waiter_id: u64,
    work: Vec<WorkItem<T>>,
    /// When the worker next looks for idle leases.
    idle_deadline: Option<Instant>,
}

/// A task for the worker.
#[derive(Debug)]
pub(super) enum WorkItem<T> {
    Open(SessionRequest),
    /// The session is `None` if it is still being opened.
    Close(SessionId, Option<T>),
}

type AcquireResult<T, E> = Result<LeaseGuard<T, E>, AcquireError<E>>;
type ReplySender<T, E> = oneshot::Sender<AcquireResult<T, E>>;

impl<T: Clone, E: Error + Clone + 'static> LeasePool<T, E> {
    /// Creates the pool and its worker. Sessions are opened and closed only while the worker runs.
    pub(crate) fn new(server: &str, policy: LeasePolicy) -> (Self, LeaseWorker<T, E>) {
        let state = PoolState {
            table: LeaseTable::new(policy, Instant::now()),
            sessions: BTreeMap::new(),
            senders: BTreeMap::new(),
            last_waiter_id: 0,
            work: Vec::new(),
            idle_deadline: None,
        };
        let shared = Arc::new(PoolInner {
            server: server.into(),
            state: Mutex::new(state),
            wakeup: Notify::new(),
            version: watch::Sender::new(0),
        });
        (Self { shared: shared.clone() }, LeaseWorker::new(shared))
    }

    /// Acquires a session for one call of a dialog: its own, a new or a shared one, by the server's policy. Waits
    /// until `late` completes. The sessions of a principal are limited.
    pub(crate) async fn acquire(
        &self,
        dialog: &Arc<str>,
        principal: Option<Arc<str>>,
        era: Era,
        late: impl Future<Output = ()>,
    ) -> Result<LeaseGuard<T, E>, AcquireError<E>> {
        let (sender, reply) = oneshot::channel();
        let mut waiting = PendingAcquire { shared: &self.shared, waiter_id: None };
        waiting.waiter_id = Some(self.shared.enqueue(sender, dialog.clone(), principal, era));
        let reply = tokio::select! {
            biased;
            reply = reply => reply,
            () = late => return Err(waiting.timeout_error()),
        };
        let aborted = || AcquireError::OpenAborted { server: self.shared.server.clone() };
        let reply = reply.map_err(|_| aborted())?;
        waiting.waiter_id = None;
        reply
    }

    /// Acquires the dialog's session if it is open, has room and no call is waiting. Nearly every call takes this
    /// path.
    pub(crate) fn try_acquire(&self, dialog: &Arc<str>, era: Era) -> Option<LeaseGuard<T, E>> {
        let mut state = self.shared.lock();
        let session_id = state.table.try_acquire(dialog, era, Instant::now())?;
        // `sessions` holds every open session.
        let session = state.sessions.get(&session_id)?.clone();
        let is_reminded = state.table.is_reminded(session_id);
        Some(LeaseGuard { session, session_id, is_reminded, shared: Arc::clone(&self.shared) })
    }

    /// Reports that the session has ended unexpectedly.
    pub(crate) fn mark_lost(&self, session_id: SessionId) {
        self.shared.apply(LeaseEvent::Lost(session_id));
    }

    /// Ends a dialog's lease; calls in flight may finish. Returns false if the dialog has no lease.
    pub(crate) fn release(&self, dialog: &Arc<str>) -> bool {
        let state = self.shared.lock();
        let held = state.table.has_assigned_session(dialog);
        self.shared.apply_with_cause(state, LeaseEvent::Release(dialog.clone()), None);
        held
    }

    /// Closes all sessions of the dialog at once.
    pub(crate) fn end_dialog(&self, dialog: &Arc<str>) {
        self.shared.apply(LeaseEvent::DialogEnded(dialog.clone()));
    }

    /// Closes every session at once. The next call opens a new one unless the server is retired.
    pub(crate) fn close_all(&self) {
        self.shared.apply(LeaseEvent::CloseAll);
    }

    /// Refuses new calls. The worker finishes when the current calls have ended.
    pub(crate) fn retire(&self) {
        self.shared.apply(LeaseEvent::Retire);
    }

    /// Returns the current leases of dialogs, oldest first.
    pub(crate) fn leases(&self) -> Vec<Lease> {
        self.shared.lock().table.leases(&self.shared.server)
    }

    /// Returns the sessions of single dialogs. The pool may close a session that the caller still holds.
    pub(crate) fn dialog_sessions(&self) -> Vec<(Arc<str>, T)> {
        let state = self.shared.lock();
        let session = |id| state.sessions.get(&id).cloned();
        let owned = state.table.dialog_sessions();
        owned.filter_map(|(dialog, id)| Some((dialog.clone(), session(id)?))).collect()
    }

    /// Returns whether a dialog has a lease.
    pub(crate) fn has_lease(&self, dialog: &Arc<str>) -> bool {
        self.shared.lock().table.has_lease(dialog)
    }

    /// Returns a receiver of a number that changes with the list of leases.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }
}

impl<T: Clone, E: Error + Clone + 'static> PoolInner<T, E> {
    pub(super) fn apply(self: &Arc<Self>, event: LeaseEvent) {
        self.apply_with_cause(self.lock(), event, None);
    }

    /// Stores an opened session. Returns the session if it is no longer wanted.
    pub(super) fn session_opened(self: &Arc<Self>, session_id: SessionId, session: T) -> Option<T> {
        let mut state = self.lock();
        if !state.table.is_opening(session_id) {
            return Some(session);
        }
        state.sessions.insert(session_id, session);
        self.apply_with_cause(state, LeaseEvent::Opened(session_id), None);
        None
    }

    pub(super) fn mark_reminded(&self, session_id: SessionId) -> bool {
        self.lock().table.mark_reminded(session_id)
    }

    pub(super) fn open_failed(self: &Arc<Self>, session_id: SessionId, cause: Option<&E>) {
        self.apply_with_cause(self.lock(), LeaseEvent::OpenFailed(session_id), cause);
    }

    /// Returns the worker's tasks and the next idle deadline. Returns `None` when a retired server has finished.
    pub(super) fn next_work(&self) -> Option<(Vec<WorkItem<T>>, Option<Instant>)> {
        let mut state = self.lock();
        if state.table.is_finished() {
            return None;
        }
        state.idle_deadline = state.table.next_idle_deadline();
        Some((std::mem::take(&mut state.work), state.idle_deadline))
    }

    /// Closes the pool when its worker is gone: waiting calls fail and open sessions are dropped.
    pub(super) fn close(self: &Arc<Self>) {
        let mut state = self.lock();
        let senders = std::mem::take(&mut state.senders);
        let sessions = std::mem::take(&mut state.sessions);
        let work = std::mem::take(&mut state.work);
        self.apply_with_cause(state, LeaseEvent::Retire, None);
        drop((senders, sessions, work));
    }

    fn enqueue(
        self: &Arc<Self>,
        sender: ReplySender<T, E>,
        dialog: Arc<str>,
        principal: Option<Arc<str>>,
        era: Era,
    ) -> WaiterId {
        let mut state = self.lock();
        state.last_waiter_id += 1;
        let waiter_id = WaiterId(state.last_waiter_id);
        state.senders.insert(waiter_id, sender);
        self.apply_with_cause(
            state,
            LeaseEvent::Acquire { waiter_id, dialog, principal, era },
            None,
        );
        waiter_id
    }

    /// Applies an event and performs its effects. Replies are sent after the lock is released, because dropping an
    /// unreceived reply takes the lock again.
    fn apply_with_cause(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, PoolState<T, E>>,
        event: LeaseEvent,
        cause: Option<&E>,
    ) {
        let effects = state.table.step(event, Instant::now());
        let replies: Vec<_> =
            effects.into_iter().filter_map(|e| self.perform(&mut state, e, cause)).collect();
        let has_timer = state.idle_deadline.is_some() || state.table.next_idle_deadline().is_none();
        if !state.work.is_empty() || !has_timer || state.table.is_finished() {
            self.wakeup.notify_one();
        }
        let version = state.table.version();
        self.version.send_if_modified(|known| std::mem::replace(known, version) != version);
        drop(state);
        for (sender, reply) in replies {
            // The caller may have given up just now.
            let _ = sender.send(reply);
        }
    }

    fn perform(
        self: &Arc<Self>,
        state: &mut PoolState<T, E>,
        effect: LeaseEffect,
        cause: Option<&E>,
    ) -> Option<(ReplySender<T, E>, AcquireResult<T, E>)> {
        match effect {
            LeaseEffect::Grant { waiter_id, session_id } => {
                let session = state.sessions.get(&session_id)?.clone();
                let is_reminded = state.table.is_reminded(session_id);
                let guard = LeaseGuard { session, session_id, is_reminded, shared: self.clone() };
                Some((state.senders.remove(&waiter_id)?, Ok(guard)))
            }
            LeaseEffect::Refuse { waiter_id, reason } => {
                let sender = state.senders.remove(&waiter_id)?;
                Some((sender, Err(self.acquire_error(reason, cause)?)))
            }
            LeaseEffect::Open { session_id, dialog, era } => {
                state.work.push(WorkItem::Open(SessionRequest { session_id, dialog, era }));
                None
            }
            LeaseEffect::Close(session_id) => {
                let session = state.sessions.remove(&session_id);
                state.work.push(WorkItem::Close(session_id, session));
                None
            }
        }
    }

    /// Returns `None` if the opening failed without an error. Dropping the senders then reports the failure.
    fn acquire_error(&self, reason: RefusalReason, cause: Option<&E>) -> Option<AcquireError<E>> {
        let server = self.server.clone();
        Some(match reason {
            RefusalReason::Full => AcquireError::QueueFull { server },
            RefusalReason::Failed => AcquireError::Failed { server, cause: cause?.clone() },
            RefusalReason::Retired => AcquireError::Retired { server },
            RefusalReason::DialogEnded => AcquireError::DialogEnded { server },
        })
    }

    fn lock(&self) -> MutexGuard<'_, PoolState<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiting call. It leaves the queue if it is dropped before its reply.
struct PendingAcquire<'a, T: Clone, E: Error + Clone + 'static> {
    shared: &'a Arc<PoolInner<T, E>>,
    waiter_id: Option<WaiterId>,
}

impl<T: Clone, E: Error + Clone + 'static> PendingAcquire<'_, T, E> {
    fn timeout_error(&self) -> AcquireError<E> {
        let server = self.shared.server.clone();
        let starting = self
            .waiter_id
            .is_some_and(|waiter_id| self.shared.lock().table.is_waiting_for_open(waiter_id));
        if starting {
            AcquireError::OpenTimeout { server }
        } else {
            AcquireError::Timeout { server }
        }
    }
}

impl<T: Clone, E: Error + Clone + 'static> Drop for PendingAcquire<'_, T, E> {
    fn drop(&mut self) {
        let Some(waiter_id) = self.waiter_id else {
            return;
        };
        let mut state = self.shared.lock();
        let sender = state.senders.remove(&waiter_id);
        self.shared.apply_with_cause(state, LeaseEvent::Cancel(waiter_id), None);
        drop(sender);
    }
}

impl<T: Clone, E: Error + Clone + 'static> Clone for LeasePool<T, E> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: Clone, E: Error + Clone + 'static> fmt::Debug for LeasePool<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasePool").field("shared", &self.shared).finish()
    }
}

impl<T: Clone, E: Error + Clone + 'static> fmt::Debug for PoolInner<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolInner").field("server", &self.server).finish_non_exhaustive()
    }
}

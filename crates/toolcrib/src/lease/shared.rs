//! The leases of one server as others use them: a lock around the book, never held across an await.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use toolcrib_wire::Era;

use super::book::Book;
use super::clerk::{Clerk, Order};
use super::error::TakeError;
use super::event::{Effect, Event, Refusal};
use super::guard::Guard;
use super::instance::{InstanceId, Lease, Ticket};
use super::terms::Terms;

/// The sessions of one server. Clones share them.
pub struct Leases<T: Clone, E: Error + Clone + 'static> {
    shared: Arc<Shared<T, E>>,
}

pub(super) struct Shared<T: Clone, E: Error + Clone + 'static> {
    server: Arc<str>,
    state: Mutex<State<T, E>>,
    /// Rung when the clerk has something to do.
    pub(super) bell: Notify,
    version: watch::Sender<u64>,
}

/// What must agree: a session is here exactly while its instance is live, a caller while its ticket waits.
struct State<T: Clone, E: Error + Clone + 'static> {
    book: Book,
    sessions: BTreeMap<InstanceId, T>,
    callers: BTreeMap<Ticket, Caller<T, E>>,
    tickets: u64,
    work: Vec<Work<T>>,
    /// When the clerk looks for idle leases, if there are any.
    alarm: Option<Instant>,
}

/// What the clerk is to do.
#[derive(Debug)]
pub(super) enum Work<T> {
    Make(Order),
    /// Without a session where it is still being opened.
    End(InstanceId, Option<T>),
}

type Answer<T, E> = Result<Guard<T, E>, TakeError<E>>;
type Caller<T, E> = oneshot::Sender<Answer<T, E>>;

impl<T: Clone, E: Error + Clone + 'static> Leases<T, E> {
    /// Nothing is opened or closed unless the clerk runs.
    pub fn new(server: &str, terms: Terms) -> (Self, Clerk<T, E>) {
        let state = State {
            book: Book::new(terms, Instant::now()),
            sessions: BTreeMap::new(),
            callers: BTreeMap::new(),
            tickets: 0,
            work: Vec::new(),
            alarm: None,
        };
        let shared = Arc::new(Shared {
            server: server.into(),
            state: Mutex::new(state),
            bell: Notify::new(),
            version: watch::Sender::new(0),
        });
        (Self { shared: shared.clone() }, Clerk::new(shared))
    }

    /// A session for one call of a dialog: its own, a new one, or whatever the server's policy says. Waits no
    /// longer than until the call is late.
    pub async fn take(
        &self,
        dialog: &Arc<str>,
        era: Era,
        late: impl Future<Output = ()>,
    ) -> Result<Guard<T, E>, TakeError<E>> {
        self.take_for(dialog, None, era, late).await
    }

    /// The same for a dialog of a principal, whose sessions are limited.
    pub async fn take_for(
        &self,
        dialog: &Arc<str>,
        principal: Option<Arc<str>>,
        era: Era,
        late: impl Future<Output = ()>,
    ) -> Result<Guard<T, E>, TakeError<E>> {
        let (caller, answer) = oneshot::channel();
        let mut waiting = Waiting { shared: &self.shared, ticket: None };
        waiting.ticket = Some(self.shared.enter(caller, dialog.clone(), principal, era));
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            () = late => return Err(waiting.too_late()),
        };
        let broken_off = || TakeError::BrokenOff { server: self.shared.server.clone() };
        let answer = answer.map_err(|_| broken_off())?;
        waiting.ticket = None;
        answer
    }

    /// The session that a dialog has, where it may call on it now and nobody waits: what nearly every call finds.
    pub fn take_now(&self, dialog: &Arc<str>, era: Era) -> Option<Guard<T, E>> {
        let mut state = self.shared.lock();
        let instance = state.book.take_held(dialog, era, Instant::now())?;
        // A session is here exactly while its instance is live.
        let session = state.sessions.get(&instance)?.clone();
        let is_reminded = state.book.is_reminded(instance);
        Some(Guard { session, instance, is_reminded, shared: Arc::clone(&self.shared) })
    }

    /// Takes in the session in which the lists were read. The first who can use it gets it.
    pub fn offer(&self, session: T, era: Era) -> InstanceId {
        let mut state = self.shared.lock();
        let instance = state.book.fresh();
        state.sessions.insert(instance, session);
        self.shared.act(state, Event::Offer(instance, era), None);
        instance
    }

    /// The session has ended without being told to.
    pub fn lost(&self, instance: InstanceId) {
        self.shared.apply(Event::Lost(instance));
    }

    /// Ends a dialog's lease; calls in flight end in peace. False where it has none.
    pub fn release(&self, dialog: &Arc<str>) -> bool {
        let state = self.shared.lock();
        let held = state.book.is_held_by(dialog);
        self.shared.act(state, Event::Release(dialog.clone()), None);
        held
    }

    /// Ends whatever the dialog has here, at once.
    pub fn dialog_ended(&self, dialog: &Arc<str>) {
        self.shared.apply(Event::DialogEnded(dialog.clone()));
    }

    /// Ends every session at once. The next call opens a new one, unless the server is retired.
    pub fn end_all(&self) {
        self.shared.apply(Event::EndAll);
    }

    /// Takes no more calls. The clerk is done when those that are here have ended.
    pub fn retire(&self) {
        self.shared.apply(Event::Retire);
    }

    /// What dialogs hold now, the oldest first.
    pub fn leases(&self) -> Vec<Lease> {
        self.shared.lock().book.leases(&self.shared.server)
    }

    /// The sessions that dialogs have for themselves. Nobody is kept from ending one.
    pub fn owned(&self) -> Vec<(Arc<str>, T)> {
        let state = self.shared.lock();
        let session = |id| state.sessions.get(&id).cloned();
        let owned = state.book.owned();
        owned.filter_map(|(dialog, id)| Some((dialog.clone(), session(id)?))).collect()
    }

    /// Whether a dialog has a lease.
    pub fn has_lease(&self, dialog: &Arc<str>) -> bool {
        self.shared.lock().book.has_lease(dialog)
    }

    /// Sees a new number whenever the list of leases has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }
}

impl<T: Clone, E: Error + Clone + 'static> Shared<T, E> {
    pub(super) fn apply(self: &Arc<Self>, event: Event) {
        self.act(self.lock(), event, None);
    }

    /// Gives the session back where it is not wanted any more.
    pub(super) fn made(self: &Arc<Self>, instance: InstanceId, session: T) -> Option<T> {
        let mut state = self.lock();
        if !state.book.is_making(instance) {
            return Some(session);
        }
        state.sessions.insert(instance, session);
        self.act(state, Event::Made(instance), None);
        None
    }

    pub(super) fn remind(&self, instance: InstanceId) -> bool {
        self.lock().book.remind(instance)
    }

    pub(super) fn failed(self: &Arc<Self>, instance: InstanceId, cause: Option<&E>) {
        self.act(self.lock(), Event::Failed(instance), cause);
    }

    /// What there is to do, and when to look for idle leases; nothing at all where the server's time is over.
    pub(super) fn work(&self) -> Option<(Vec<Work<T>>, Option<Instant>)> {
        let mut state = self.lock();
        if state.book.is_over() {
            return None;
        }
        state.alarm = state.book.next_due();
        Some((std::mem::take(&mut state.work), state.alarm))
    }

    /// Nobody opens sessions any more: callers hear of it, and what is open is dropped.
    pub(super) fn close(self: &Arc<Self>) {
        let mut state = self.lock();
        let callers = std::mem::take(&mut state.callers);
        let sessions = std::mem::take(&mut state.sessions);
        let work = std::mem::take(&mut state.work);
        self.act(state, Event::Retire, None);
        drop((callers, sessions, work));
    }

    fn enter(
        self: &Arc<Self>,
        caller: Caller<T, E>,
        dialog: Arc<str>,
        principal: Option<Arc<str>>,
        era: Era,
    ) -> Ticket {
        let mut state = self.lock();
        state.tickets += 1;
        let ticket = Ticket(state.tickets);
        state.callers.insert(ticket, caller);
        self.act(state, Event::Take { ticket, dialog, principal, era }, None);
        ticket
    }

    /// Callers are answered after the lock is released: an answer that nobody takes is dropped, and takes it again.
    fn act(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State<T, E>>,
        event: Event,
        cause: Option<&E>,
    ) {
        let effects = state.book.step(event, Instant::now());
        let answers: Vec<_> =
            effects.into_iter().filter_map(|e| self.perform(&mut state, e, cause)).collect();
        let alarmed = state.alarm.is_some() || state.book.next_due().is_none();
        if !state.work.is_empty() || !alarmed || state.book.is_over() {
            self.bell.notify_one();
        }
        let version = state.book.version();
        self.version.send_if_modified(|known| std::mem::replace(known, version) != version);
        drop(state);
        for (caller, answer) in answers {
            // Whoever gave up in this very moment has no use for it.
            let _ = caller.send(answer);
        }
    }

    fn perform(
        self: &Arc<Self>,
        state: &mut State<T, E>,
        effect: Effect,
        cause: Option<&E>,
    ) -> Option<(Caller<T, E>, Answer<T, E>)> {
        match effect {
            Effect::Grant { ticket, instance } => {
                let session = state.sessions.get(&instance)?.clone();
                let is_reminded = state.book.is_reminded(instance);
                let guard = Guard { session, instance, is_reminded, shared: self.clone() };
                Some((state.callers.remove(&ticket)?, Ok(guard)))
            }
            Effect::Refuse { ticket, why } => {
                let caller = state.callers.remove(&ticket)?;
                Some((caller, Err(self.refusal(why, cause)?)))
            }
            Effect::Make { instance, dialog, era } => {
                state.work.push(Work::Make(Order { instance, dialog, era }));
                None
            }
            Effect::End(instance) => {
                let session = state.sessions.remove(&instance);
                state.work.push(Work::End(instance, session));
                None
            }
        }
    }

    /// Nothing where an opening failed without an error: its callers are dropped, which tells them as much.
    fn refusal(&self, why: Refusal, cause: Option<&E>) -> Option<TakeError<E>> {
        let server = self.server.clone();
        Some(match why {
            Refusal::Full => TakeError::Full { server },
            Refusal::Failed => TakeError::Failed { server, cause: cause?.clone() },
            Refusal::Retired => TakeError::Retired { server },
            Refusal::DialogEnded => TakeError::DialogEnded { server },
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that waits. Dropped before it was answered, it leaves the queue.
struct Waiting<'a, T: Clone, E: Error + Clone + 'static> {
    shared: &'a Arc<Shared<T, E>>,
    ticket: Option<Ticket>,
}

impl<T: Clone, E: Error + Clone + 'static> Waiting<'_, T, E> {
    fn too_late(&self) -> TakeError<E> {
        let server = self.shared.server.clone();
        let starting =
            self.ticket.is_some_and(|ticket| self.shared.lock().book.is_starting(ticket));
        if starting { TakeError::Slow { server } } else { TakeError::NoneFree { server } }
    }
}

impl<T: Clone, E: Error + Clone + 'static> Drop for Waiting<'_, T, E> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else {
            return;
        };
        let mut state = self.shared.lock();
        let caller = state.callers.remove(&ticket);
        self.shared.act(state, Event::GiveUp(ticket), None);
        drop(caller);
    }
}

impl<T: Clone, E: Error + Clone + 'static> Clone for Leases<T, E> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: Clone, E: Error + Clone + 'static> fmt::Debug for Leases<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("shared", &self.shared).finish()
    }
}

impl<T: Clone, E: Error + Clone + 'static> fmt::Debug for Shared<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("server", &self.server).finish_non_exhaustive()
    }
}

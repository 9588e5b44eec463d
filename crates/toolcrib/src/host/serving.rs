//! A server at work: its connections, the leases of its sessions, and who answers what it asks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::policy::SessionScope;
use toolcrib_wire::Era;

use super::asking::{self, Answers};
use super::core::Core;
use super::dialog::Inner;
use super::memory::Results;
use super::meters::Meter;
use crate::conn::peer::{Answering, Asked, Handler};
use crate::conn::{Caller, Event, Failure, State, Ticket, Want};
use crate::lease::{Clerk, Guard, Lease, Leases, Order, Sessions, TakeError, Terms};
use crate::supervise::{Server, Spare};

/// One server and everything that the host keeps for it while it serves.
pub(super) struct Serving {
    pub(super) server: Arc<Server>,
    pub(super) key: Arc<str>,
    pub(super) meter: Arc<Meter>,
    pub(super) results: Results,
    leases: Leases<Arc<Spare>, Failure>,
    desk: Arc<Desk>,
}

/// Why a call got no session.
#[derive(Debug)]
pub(super) enum NoSession {
    Lease(TakeError<Failure>),
    Down(Failure),
    Late,
}

/// The right to call on a session, and whose lease it is on.
pub(super) struct Place {
    pub(super) ticket: Ticket,
    _guard: Option<Guard<Arc<Spare>, Failure>>,
    _calling: Calling,
}

impl Serving {
    /// The server's questions are answered at this desk, which was made for it.
    pub(super) fn new(
        core: &Arc<Core>,
        server: Arc<Server>,
        desk: Arc<Desk>,
        meter: Arc<Meter>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static + use<>) {
        let spec = server.spec();
        let (leases, clerk) = Leases::new(&spec.id, Terms::of(&spec.policy.session));
        let key: Arc<str> = spec.key().into();
        let is_shared = spec.policy.session.scope == SessionScope::Shared;
        let results = Results::new(spec.policy.calls.cache.ttl.0, is_shared);
        let maker = Maker {
            core: Arc::downgrade(core),
            server: Arc::downgrade(&server),
            desk: Arc::clone(&desk),
        };
        let run = run(clerk, maker);
        (Arc::new(Serving { server, key, meter, results, leases, desk }), run)
    }

    pub(super) fn spec(&self) -> &Arc<ServerSpec> {
        self.server.spec()
    }

    /// A session to call on, by the deadline: the shared one, the dialog's own, or one for this call alone.
    pub(super) async fn place(
        &self,
        dialog: &Arc<Inner>,
        deadline: Instant,
    ) -> Result<Place, NoSession> {
        let calling = self.desk.calling(dialog);
        if self.is_shared(dialog) {
            let ready = self.server.main().ready(Want::Call);
            let ready = tokio::time::timeout_at(deadline, ready).await;
            let ticket = ready.map_err(|_| NoSession::Late)?.map_err(NoSession::Down)?;
            return Ok(Place { ticket, _guard: None, _calling: calling });
        }
        self.refuse_if_switched_off()?;
        let era = dialog.era.unwrap_or(Era::Modern);
        let guard = self.leases.take(&dialog.id, era, deadline).await.map_err(NoSession::Lease)?;
        if dialog.has_ended() {
            // It ended before there was a lease that could have ended with it.
            self.dialog_ended(&dialog.id);
            let server = self.spec().id.as_str().into();
            return Err(NoSession::Lease(TakeError::DialogEnded { server }));
        }
        let ready = tokio::time::timeout_at(deadline, guard.conn().ready(Want::Call)).await;
        match ready {
            Err(_) => Err(NoSession::Late),
            Ok(Ok(ticket)) => Ok(Place { ticket, _guard: Some(guard), _calling: calling }),
            Ok(Err(failure)) => {
                // It will not come back by itself: the next call begins another.
                self.leases.lost(guard.instance());
                Err(NoSession::Down(failure))
            }
        }
    }

    /// Whether calls of this dialog go over the session that all share.
    fn is_shared(&self, dialog: &Inner) -> bool {
        let policy = &self.spec().policy.session;
        let wants_legacy = dialog.era == Some(Era::Legacy);
        let speaks_legacy = || {
            let view = self.server.main().view();
            view.session.is_none_or(|session| session.agreed().era == Era::Legacy)
        };
        policy.scope == SessionScope::Shared && (!wants_legacy || speaks_legacy())
    }

    /// Leases have connections of their own, but what a person said of the server counts for them too.
    fn refuse_if_switched_off(&self) -> Result<(), NoSession> {
        let state = self.server.main().view().life.state();
        match state {
            State::Stopped | State::Disabled => {
                let text = format!("Server not connected: it is {}", state.as_str());
                Err(NoSession::Down(Failure::new(crate::conn::FailureKind::Connection, text)))
            }
            _ => Ok(()),
        }
    }

    /// Lets it work, or not.
    pub(super) async fn enable(&self, enabled: bool) {
        if !enabled {
            self.end_leases();
        }
        let event = if enabled { Event::Enable } else { Event::Disable };
        self.server.main().tell(event).await;
    }

    pub(super) fn state(&self) -> State {
        self.server.main().watch().borrow().life.state()
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state(), State::Ready | State::Degraded)
    }

    pub(super) fn leases(&self) -> Vec<Lease> {
        self.leases.leases()
    }

    pub(super) fn release(&self, dialog: &Arc<str>) -> bool {
        self.leases.release(dialog)
    }

    pub(super) fn dialog_ended(&self, dialog: &Arc<str>) {
        self.leases.dialog_ended(dialog);
    }

    pub(super) fn end_leases(&self) {
        self.leases.end_all();
    }

    pub(super) fn retire_leases(&self) {
        self.leases.retire();
    }

    /// Sees a new number whenever the list of leases has changed.
    pub(super) fn lease_changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.leases.changes()
    }
}

async fn run(clerk: Clerk<Arc<Spare>, Failure>, maker: Maker) {
    clerk.run(Arc::new(maker)).await;
}

/// Opens and closes the sessions that dialogs lease.
struct Maker {
    core: Weak<Core>,
    server: Weak<Server>,
    desk: Arc<Desk>,
}

impl Sessions for Maker {
    type Session = Arc<Spare>;
    type Error = Failure;

    async fn make(&self, order: Order) -> Result<Arc<Spare>, Failure> {
        let gone = || Failure::new(crate::conn::FailureKind::Connection, "the host is ending");
        let (server, core) = (self.server.upgrade().ok_or_else(gone)?, self.core.upgrade());
        let dialog = order.dialog.and_then(|id| core?.dialogs.get(&id));
        let legacy = order.era == Era::Legacy;
        let lent = if legacy { None } else { server.lend() };
        let spare = match lent {
            Some(main) => {
                self.desk.lend_to(dialog.as_ref());
                main
            }
            None => {
                let caller = dialog.map(|dialog| asking::caller(&dialog, server.spec()));
                server.spare(caller, legacy.then_some(Protocol::Legacy))
            }
        };
        if let Err(failure) = spare.conn().ready(Want::Call).await {
            spare.end().await;
            return Err(failure);
        }
        Ok(Arc::new(spare))
    }

    async fn end(&self, session: Arc<Spare>) {
        session.end().await;
    }
}

/// Answers what a server asks on its main connection: for the dialog that has it, or that alone is calling on it.
pub(super) struct Desk {
    spec: Arc<ServerSpec>,
    cwd: PathBuf,
    who: Mutex<Who>,
}

#[derive(Default)]
struct Who {
    lessee: Option<Weak<Inner>>,
    calling: Vec<Arc<Inner>>,
}

/// While it lives, the dialog may be asked.
pub(super) struct Calling {
    desk: Arc<Desk>,
    dialog: Arc<Inner>,
}

impl Desk {
    pub(super) fn new(spec: Arc<ServerSpec>, cwd: PathBuf) -> Arc<Self> {
        Arc::new(Desk { spec, cwd, who: Mutex::default() })
    }

    /// As the server's main connection sees the host.
    pub(super) fn caller(self: &Arc<Self>, answers: Answers) -> Caller {
        let capabilities = asking::capabilities(&self.spec.policy.client, answers);
        Caller { capabilities, handler: Arc::clone(self) as _ }
    }

    fn lend_to(&self, dialog: Option<&Arc<Inner>>) {
        self.who().lessee = dialog.map(Arc::downgrade);
    }

    fn calling(self: &Arc<Self>, dialog: &Arc<Inner>) -> Calling {
        self.who().calling.push(Arc::clone(dialog));
        Calling { desk: Arc::clone(self), dialog: Arc::clone(dialog) }
    }

    /// Whose question it must be; nobody's where several could have caused it.
    fn whose(&self) -> Option<Arc<Inner>> {
        let who = self.who();
        if let Some(lessee) = who.lessee.as_ref().and_then(Weak::upgrade) {
            return Some(lessee);
        }
        let first = who.calling.first()?;
        who.calling.iter().all(|other| Arc::ptr_eq(first, other)).then(|| Arc::clone(first))
    }

    fn who(&self) -> MutexGuard<'_, Who> {
        self.who.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        let mut who = self.desk.who();
        if let Some(place) = who.calling.iter().position(|one| Arc::ptr_eq(one, &self.dialog)) {
            who.calling.swap_remove(place);
        }
    }
}

impl Handler for Desk {
    fn take(&self, asked: Asked) -> Option<Answering> {
        let dialog = self.whose();
        let cwd = dialog.as_ref().map_or(&*self.cwd, |dialog| &dialog.cwd);
        asking::take(dialog.as_ref(), cwd, &self.spec, asked)
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("server", &self.server).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("server", &self.spec.id).finish_non_exhaustive()
    }
}

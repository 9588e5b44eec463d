//! A server at work: its connections and the leases of its sessions.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use toolcrib_config::ServerSpec;
use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::policy::SessionScope;
use toolcrib_config::model::transport::Transport;
use toolcrib_upstream::conn::peer::Patience;
use toolcrib_upstream::conn::{
    Catalog, Conn, Event, Failure, FailureKind, Late, State, Ticket, View, Want,
};
use toolcrib_upstream::supervise::{Other, Server, Spare};
use toolcrib_wire::{Era, Raw};

use super::asking::{self, During};
use super::call::longest_wait;
use super::core::Core;
use super::desk::{Call, Calling, Desk};
use super::dialog::Inner;
use super::dialogs::Dialogs;
use super::memory::Results;
use super::meters::Meter;
use super::reload::Outcome;
use super::slot::patience;
use crate::lease::{
    Clerk, Guard, Lease, Leases, Order, Reminder, Sessions, TakeError, Terms, reminder_of,
};

/// How long a lease that was ended may take to be given back.
const RETURNING: Duration = Duration::from_secs(5);

/// One server and everything that the host keeps for it while it serves.
pub(super) struct Serving {
    pub(super) server: Arc<Server>,
    pub(super) key: Arc<str>,
    pub(super) meter: Arc<Meter>,
    pub(super) results: Results,
    /// That of all agents that have no credentials of their own.
    seat: Seat,
    own_seats: HashMap<String, Seat>,
    desk: Arc<Desk>,
}

/// Where calls get their sessions: those of agents that the server takes for one and the same.
struct Seat {
    /// The session that they share; the server's main connection where nothing is here.
    conn: Option<Spare>,
    leases: Leases<Arc<Spare>, Failure>,
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
    guard: Option<Guard<Arc<Spare>, Failure>>,
    calling: Calling,
}

/// A list, and since when its session is open, where that was listed first of all.
pub(super) type Listed = (Arc<Catalog>, Option<Instant>);

/// A session that somebody listens on without calling: it does not end because it is not used.
#[derive(Debug)]
pub(super) struct Held {
    _ticket: Ticket,
    _guard: Option<Guard<Arc<Spare>, Failure>>,
}

impl Place {
    /// Whether the session is this dialog's or this call's alone.
    pub(super) fn is_leased(&self) -> bool {
        self.guard.is_some()
    }

    /// The reminder of the lease, for the one call that tells its dialog of it.
    pub(super) fn remind(&self, spec: &ServerSpec) -> Option<Box<Reminder>> {
        let guard = self.guard.as_ref().filter(|guard| !guard.is_reminded())?;
        let reminder = reminder_of(&spec.id, &spec.policy.session)?;
        guard.remind().then(|| Box::new(reminder))
    }

    /// The server has answered the call.
    pub(super) fn answered(&mut self) {
        self.calling.answered();
    }

    /// Gives up the call and keeps the session; the lease too, where it is of this call alone.
    pub(super) fn hold(self, is_per_call: bool) -> Held {
        Held { _ticket: self.ticket, _guard: self.guard.filter(|_| is_per_call) }
    }
}

impl Serving {
    /// The server's questions are answered at this desk, which was made for it.
    pub(super) fn new(
        core: &Arc<Core>,
        server: Arc<Server>,
        desk: Arc<Desk>,
        meter: Arc<Meter>,
    ) -> (Arc<Self>, Vec<impl Future<Output = ()> + Send + 'static + use<>>) {
        let spec = server.spec();
        let key: Arc<str> = spec.key().into();
        let own = spec.policy.auth_per_agent.keys().filter(|_| spec.transport.remote().is_some());
        let own: Vec<Arc<str>> = own.map(|agent| agent.as_str().into()).collect();
        // What one agent was told may not be for another that the server knows by other credentials.
        let is_shared = spec.policy.session.scope == SessionScope::Shared && own.is_empty();
        let results = Results::new(spec.policy.calls.cache.ttl.0, is_shared);
        let mut clerks = Vec::with_capacity(own.len() + 1);
        let mut seat = |agent: Option<&Arc<str>>| {
            let (leases, clerk) = Leases::new(&spec.id, Terms::of(&spec.policy.session));
            let maker = Maker {
                core: Arc::downgrade(core),
                server: Arc::downgrade(&server),
                desk: Arc::clone(&desk),
                agent: agent.cloned(),
            };
            clerks.push(run(clerk, maker));
            let with = agent.map(|agent| Other { agent: Some(agent.clone()), ..Other::default() });
            Seat { conn: with.map(|with| server.spare(with)), leases }
        };
        let everybody = seat(None);
        let own_seats = own.iter().map(|agent| (agent.to_string(), seat(Some(agent)))).collect();
        let serving = Serving { key, meter, results, seat: everybody, own_seats, desk, server };
        (Arc::new(serving), clerks)
    }

    fn seat(&self, dialog: &Inner) -> &Seat {
        self.own_seats.get(&*dialog.agent).unwrap_or(&self.seat)
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.own_seats.values().chain([&self.seat])
    }

    pub(super) fn spec(&self) -> &Arc<ServerSpec> {
        self.server.spec()
    }

    /// How much of the time since then counts for a call: not what it took to renew tokens (`stood` is from then).
    pub(super) fn waited(&self, since: Instant, stood: Duration) -> Duration {
        since.elapsed().saturating_sub(self.stood().saturating_sub(stood))
    }

    /// For how long nobody's time has counted so far.
    pub(super) fn stood(&self) -> Duration {
        self.server.clock().stood()
    }

    /// A session to call on: the shared one, the dialog's own, or one for this call alone. What it took counts; what
    /// is left of the caller's patience.
    pub(super) async fn place(
        &self,
        call: Call<'_>,
        patience: Patience,
    ) -> Result<(Place, Patience), NoSession> {
        if let Some(place) = self.place_now(call) {
            return Ok((place, patience));
        }
        let (begun, stood) = (Instant::now(), self.stood());
        // What is rare does not make every call large.
        let place = Box::pin(self.place_by(call, begun + longest_wait(patience))).await?;
        Ok((place, patience.less(self.waited(begun, stood))))
    }

    /// A session that is there and free, as nearly every call finds it.
    fn place_now(&self, call: Call<'_>) -> Option<Place> {
        let dialog = call.dialog;
        let seat = self.seat(dialog);
        if self.may_share(dialog) {
            let ticket = self.shared_conn(seat).ok()?.ready_now()?;
            if self.is_shared(dialog, &ticket) {
                return Some(self.placed(ticket, None, call));
            }
        }
        self.refuse_if_switched_off().ok()?;
        let guard = seat.leases.take_now(&dialog.id, dialog.era.unwrap_or(Era::Modern))?;
        let ticket = guard.conn().ready_now().filter(|_| !dialog.has_ended())?;
        Some(self.placed(ticket, Some(guard), call))
    }

    async fn place_by(&self, call: Call<'_>, deadline: Instant) -> Result<Place, NoSession> {
        let dialog = call.dialog;
        let late = self.server.clock().late(deadline);
        if let Some(ticket) = self.shared(dialog, late).await? {
            return Ok(self.placed(ticket, None, call));
        }
        self.refuse_if_switched_off()?;
        let era = dialog.era.unwrap_or(Era::Modern);
        let leases = &self.seat(dialog).leases;
        let is_late = self.server.clock().until(late);
        let principal = dialog.principal.as_deref().map(Arc::from);
        let guard = leases.take_for(&dialog.id, principal, era, is_late).await;
        let guard = guard.map_err(NoSession::Lease)?;
        if dialog.has_ended() {
            // It ended before there was a lease that could have ended with it.
            self.dialog_ended(&dialog.id);
            let server = self.spec().id.as_str().into();
            return Err(NoSession::Lease(TakeError::DialogEnded { server }));
        }
        let ready = self.server.clock().by(late, guard.conn().ready(Want::Call)).await;
        match ready {
            None => Err(NoSession::Late),
            Some(Ok(ticket)) => Ok(self.placed(ticket, Some(guard), call)),
            Some(Err(failure)) => {
                // It will not come back by itself: the next call begins another.
                leases.lost(guard.instance());
                Err(NoSession::Down(failure))
            }
        }
    }

    /// The session that all share whom the server takes for one, where the calls of this dialog go over it.
    async fn shared(&self, dialog: &Inner, late: Late) -> Result<Option<Ticket>, NoSession> {
        if !self.may_share(dialog) {
            return Ok(None);
        }
        let conn = self.shared_conn(self.seat(dialog))?;
        let ready = self.server.clock().by(late, conn.ready(Want::Call)).await;
        let ticket = ready.ok_or(NoSession::Late)?.map_err(NoSession::Down)?;
        Ok(Some(ticket).filter(|ticket| self.is_shared(dialog, ticket)))
    }

    fn may_share(&self, dialog: &Inner) -> bool {
        let spec = self.spec();
        match spec.policy.session.scope {
            SessionScope::Shared => true,
            // Over HTTP the modern era has no sessions, so there is nothing to lease; who speaks the other has his own.
            SessionScope::PerConversation => {
                let is_http = matches!(spec.transport, Transport::StreamableHttp(_));
                is_http && dialog.era != Some(Era::Legacy)
            }
            SessionScope::PerCall => false,
        }
    }

    fn shared_conn<'s>(&'s self, seat: &'s Seat) -> Result<&'s Conn, NoSession> {
        match &seat.conn {
            None => Ok(self.server.main()),
            Some(own) => self.refuse_if_switched_off().map(|()| own.conn()),
        }
    }

    /// Whether a session that may be shared speaks what the dialog speaks, and is one that others can share.
    fn is_shared(&self, dialog: &Inner, ticket: &Ticket) -> bool {
        let era = ticket.session.agreed().era;
        let is_shared =
            self.spec().policy.session.scope == SessionScope::Shared || era == Era::Modern;
        is_shared && (dialog.era != Some(Era::Legacy) || era == Era::Legacy)
    }

    /// From now on the dialog may be asked.
    fn placed(
        &self,
        ticket: Ticket,
        guard: Option<Guard<Arc<Spare>, Failure>>,
        call: Call<'_>,
    ) -> Place {
        Place { ticket, guard, calling: self.desk.calling(call) }
    }

    /// Leases have connections of their own, but what a person said of the server counts for them too.
    fn refuse_if_switched_off(&self) -> Result<(), NoSession> {
        let state = self.server.main().state();
        match state {
            State::Stopped | State::Disabled => {
                let text = format!("Server not connected: it is {}", state.as_str());
                Err(NoSession::Down(Failure::new(FailureKind::Connection, text)))
            }
            _ => Ok(()),
        }
    }

    /// Lets it work, or not.
    pub(super) async fn enable(&self, enabled: bool) {
        if !enabled {
            self.end_leases();
        }
        // The sessions of single agents come back when they are wanted.
        let event = if enabled { Event::Enable } else { Event::Disable };
        self.server.main().tell(event).await;
    }

    /// The sessions of single agents that failed are tried again when they are wanted.
    pub(super) fn forgive_agents(&self) {
        let own = self.own_seats.values().filter_map(|seat| seat.conn.as_ref()).map(Spare::conn);
        for conn in own.filter(|conn| conn.watch().borrow().life.state() == State::Failed) {
            conn.nudge(Event::Release);
        }
    }

    pub(super) fn state(&self) -> State {
        self.server.main().state()
    }

    /// How a start that is under way ends: waits until it is up, has failed once, or its time is over.
    pub(super) async fn settled(&self) -> Outcome {
        let mut view = self.server.main().watch();
        let is_settled = |view: &View| {
            let state = view.life.state();
            !matches!(state, State::Connecting | State::Reconnecting | State::Draining)
        };
        let settled = timeout(patience(self.spec()), view.wait_for(is_settled)).await;
        let Ok(Ok(view)) = settled else {
            return Outcome::Coming;
        };
        let failed = matches!(view.life.state(), State::Backoff | State::Failed);
        match view.life.last_error().filter(|_| failed) {
            Some((_, failure)) => Outcome::Failed(failure.message.clone()),
            None if view.life.state() == State::Idle => Outcome::Coming,
            None => Outcome::Done,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state(), State::Ready | State::Degraded)
    }

    /// What is listed in sessions that are not everybody's, for each dialog that has one; and since when such a session
    /// is open, where that was listed first of all.
    pub(super) fn own_lists(&self, dialogs: &Dialogs) -> Vec<(Arc<str>, Listed)> {
        let leased = self.seats().flat_map(|seat| seat.leases.owned());
        let listed = leased.filter_map(|(dialog, it)| Some((dialog, it.conn().listed()?)));
        let mut lists: HashMap<Arc<str>, Listed> = listed.collect();
        // Whoever has credentials of his own may be shown something else, too.
        for (agent, seat) in &self.own_seats {
            let Some(listed) = seat.conn.as_ref().and_then(|own| own.conn().listed()) else {
                continue;
            };
            for dialog in dialogs.list().into_iter().filter(|it| *it.agent == **agent) {
                lists.entry(Arc::clone(&dialog.id)).or_insert_with(|| listed.clone());
            }
        }
        lists.into_iter().collect()
    }

    /// Tells something to the session that a dialog has. The modern era has no words of clients but requests.
    pub(super) fn tell(&self, dialog: &Arc<str>, method: &str, params: Option<&Raw>) {
        let owned = self.seats().flat_map(|seat| seat.leases.owned());
        for (_, spare) in owned.filter(|(of, _)| of == dialog) {
            let session = spare.conn().view().session;
            if let Some(session) = session.filter(|it| it.agreed().era == Era::Legacy) {
                session.peer().tell(method, params);
            }
        }
    }

    pub(super) fn leases(&self) -> Vec<Lease> {
        self.seats().flat_map(|seat| seat.leases.leases()).collect()
    }

    pub(super) fn has_lease(&self, dialog: &Arc<str>) -> bool {
        self.seats().any(|seat| seat.leases.has_lease(dialog))
    }

    pub(super) fn release(&self, dialog: &Arc<str>) -> bool {
        // Not the first that does: all are to be asked.
        self.seats().filter(|seat| seat.leases.release(dialog)).count() > 0
    }

    pub(super) fn dialog_ended(&self, dialog: &Arc<str>) {
        self.seats().for_each(|seat| seat.leases.dialog_ended(dialog));
    }

    pub(super) fn end_leases(&self) {
        for seat in self.seats() {
            seat.leases.end_all();
            if let Some(own) = &seat.conn {
                own.conn().nudge(Event::Release);
            }
        }
    }

    /// The same, and waits until the main connection is nobody's, so that what comes next is not taken for its end.
    pub(super) async fn end_leases_and_wait(&self) {
        self.end_leases();
        let until = Instant::now() + RETURNING;
        while self.server.is_lent() && Instant::now() < until {
            // It is given back by whoever closes its session, which nothing tells of.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(super) fn retire_leases(&self) {
        self.seats().for_each(|seat| seat.leases.retire());
    }

    /// One of them sees a new number whenever the list of leases has changed.
    pub(super) fn lease_changes(&self) -> Vec<tokio::sync::watch::Receiver<u64>> {
        self.seats().map(|seat| seat.leases.changes()).collect()
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
    /// Whose credentials its sessions show, if not everybody's.
    agent: Option<Arc<str>>,
}

impl Sessions for Maker {
    type Session = Arc<Spare>;
    type Error = Failure;

    async fn make(&self, order: Order) -> Result<Arc<Spare>, Failure> {
        let gone = || Failure::new(FailureKind::Connection, "the host is ending");
        let server = self.server.upgrade().ok_or_else(gone)?;
        let core = self.core.upgrade().ok_or_else(gone)?;
        let dialog = order.dialog.and_then(|id| core.dialogs.get(&id));
        if let Some(main) = self.lend(&core, &server, order.era, dialog.as_ref()) {
            return opened(main).await;
        }
        let whose = dialog.as_ref().map(|dialog| Arc::clone(&dialog.id));
        let desk = || During::Any(Arc::clone(&self.desk));
        let caller = dialog.map(|it| asking::caller(&it, server.spec(), desk()));
        let agent = self.agent.clone();
        // The lists were read in the main session (DKR-45).
        let is_per_call = server.spec().policy.session.scope == SessionScope::PerCall;
        let catalog = is_per_call.then(|| server.main().view().catalog).flatten();
        let with = Other { caller, protocol: None, dialog: whose, agent, catalog };
        if order.era == Era::Legacy {
            let legacy = Other { protocol: Some(Protocol::Legacy), ..with.clone() };
            match opened(server.spare(legacy)).await {
                // It has only the other era; what it asks is translated.
                Err(failure) if failure.kind == FailureKind::Protocol => {}
                outcome => return outcome,
            }
        }
        opened(server.spare(with)).await
    }

    async fn end(&self, session: Arc<Spare>) {
        session.end().await;
        if session.is_main() {
            self.lend_to(None);
        }
    }
}

impl Maker {
    /// The main connection, where it is what the dialog would have opened itself.
    fn lend(
        &self,
        core: &Core,
        server: &Arc<Server>,
        era: Era,
        dialog: Option<&Arc<Inner>>,
    ) -> Option<Spare> {
        let spoken = server.main().watch().borrow().session.as_ref().map(|it| it.agreed().era);
        let fits = era == Era::Modern || spoken == Some(Era::Legacy);
        let is_alike =
            dialog.is_none_or(|it| it.answers.get() == core.answers && it.cwd == self.desk.cwd);
        let main = (fits && is_alike && self.agent.is_none()).then(|| server.lend())??;
        self.lend_to(dialog);
        Some(main)
    }

    fn lend_to(&self, dialog: Option<&Arc<Inner>>) {
        self.desk.lend_to(dialog);
        if let Some((core, server)) = self.core.upgrade().zip(self.server.upgrade()) {
            core.ears.lent(server.number(), dialog.map(|dialog| Arc::clone(&dialog.id)));
        }
    }
}

async fn opened(spare: Spare) -> Result<Arc<Spare>, Failure> {
    match spare.conn().ready(Want::Call).await {
        Ok(_) => Ok(Arc::new(spare)),
        Err(failure) => {
            spare.end().await;
            Err(failure)
        }
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("server", &self.server).finish_non_exhaustive()
    }
}

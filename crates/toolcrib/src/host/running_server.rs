//! A running server with its connections and session leases.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use toolcrib_config::ServerSpec;
use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::policy::SessionScope;
use toolcrib_config::model::transport::Transport;
use toolcrib_upstream::conn::peer::CallTimeouts;
use toolcrib_upstream::conn::{
    Catalog, Conn, ConnEvent, ConnView, Demand, Failure, FailureKind, PausableDeadline,
    ServerState, SessionPermit,
};
use toolcrib_upstream::supervise::{DedicatedConn, DedicatedOptions, Server};
use toolcrib_wire::{Era, RawJson};

use super::call::session_wait_limit;
use super::call_metrics::CallMetrics;
use super::client_requests::{self, CauseLookup};
use super::core::Core;
use super::dialog::DialogState;
use super::dialog_table::DialogTable;
use super::reload::ReloadOutcome;
use super::result_cache::ResultCache;
use super::server_requests::{ActiveCallGuard, OutgoingCall, ServerRequestRouter};
use super::slot::startup_timeout;
use crate::lease::{
    AcquireError, Lease, LeaseGuard, LeasePolicy, LeasePool, LeaseWorker, Reminder, SessionOpener,
    SessionRequest, reminder_for_server,
};

/// Time limit for the return of an ended lease.
const LEASE_RETURN_TIMEOUT: Duration = Duration::from_secs(5);

/// A server with everything that the host keeps for it while it runs.
pub(super) struct RunningServer {
    pub(super) server: Arc<Server>,
    pub(super) key: Arc<str>,
    pub(super) metrics: Arc<CallMetrics>,
    pub(super) result_cache: ResultCache,
    /// The source for all agents without credentials of their own.
    default_source: SessionSource,
    agent_sources: HashMap<String, SessionSource>,
    router: Arc<ServerRequestRouter>,
}

/// The sessions for the agents that share the same credentials.
struct SessionSource {
    /// The shared session; `None` for the server's main connection.
    conn: Option<DedicatedConn>,
    leases: LeasePool<Arc<DedicatedConn>, Failure>,
}

/// Why a call got no session.
#[derive(Debug)]
pub(super) enum SessionError {
    Lease(AcquireError<Failure>),
    NotConnected(Failure),
    Timeout,
}

/// The session of one call: the permit to use it, and its lease.
pub(super) struct CallSession {
    pub(super) permit: SessionPermit,
    guard: Option<LeaseGuard<Arc<DedicatedConn>, Failure>>,
    active_call: ActiveCallGuard,
}

/// A catalog, with the opening time of its session if the catalog is the session's first one.
pub(super) type SessionList = (Arc<Catalog>, Option<Instant>);

/// Keeps a session open without a call, so that the session does not end as idle.
#[derive(Debug)]
pub(super) struct SessionHold {
    _permit: SessionPermit,
    _guard: Option<LeaseGuard<Arc<DedicatedConn>, Failure>>,
}

impl CallSession {
    /// Whether this dialog or call uses the session exclusively.
    pub(super) fn is_leased(&self) -> bool {
        self.guard.is_some()
    }

    /// The reminder of the lease, for the first call that reports the lease.
    pub(super) fn take_reminder(&self, spec: &ServerSpec) -> Option<Box<Reminder>> {
        let guard = self.guard.as_ref().filter(|guard| !guard.is_reminded())?;
        let reminder = reminder_for_server(&spec.id, &spec.policy.session)?;
        guard.mark_reminded().then(|| Box::new(reminder))
    }

    /// Marks the call as answered by the server.
    pub(super) fn mark_answered(&mut self) {
        self.active_call.mark_answered();
    }

    /// Ends the call and keeps the session open. The lease is kept only if it belongs to this call
    /// alone.
    pub(super) fn into_hold(self, is_per_call: bool) -> SessionHold {
        SessionHold { _permit: self.permit, _guard: self.guard.filter(|_| is_per_call) }
    }
}

impl RunningServer {
    /// Creates the server and the workers of its lease pools. `router` answers the server's
    /// requests.
    pub(super) fn new(
        core: &Arc<Core>,
        server: Arc<Server>,
        router: Arc<ServerRequestRouter>,
        metrics: Arc<CallMetrics>,
    ) -> (Arc<Self>, Vec<impl Future<Output = ()> + Send + 'static + use<>>) {
        let spec = server.spec();
        let key: Arc<str> = spec.key().into();
        let own = spec.policy.auth_per_agent.keys().filter(|_| spec.transport.remote().is_some());
        let own: Vec<Arc<str>> = own.map(|agent| agent.as_str().into()).collect();
        // Results for one agent may be confidential for another agent with other credentials.
        let is_shared = spec.policy.session.scope == SessionScope::Shared && own.is_empty();
        let result_cache = ResultCache::new(spec.policy.calls.cache.ttl.0, is_shared);
        let mut lease_workers = Vec::with_capacity(own.len() + 1);
        let mut source = |agent: Option<&Arc<str>>| {
            let (leases, lease_worker) =
                LeasePool::new(&spec.id, LeasePolicy::from_session_policy(&spec.policy.session));
            let factory = SessionFactory {
                core: Arc::downgrade(core),
                server: Arc::downgrade(&server),
                router: Arc::clone(&router),
                agent: agent.cloned(),
            };
            lease_workers.push(run_lease_worker(lease_worker, factory));
            let with = agent.map(|agent| DedicatedOptions {
                agent: Some(agent.clone()),
                ..DedicatedOptions::default()
            });
            SessionSource { conn: with.map(|with| server.open_dedicated(with)), leases }
        };
        let default_source = source(None);
        let agent_sources =
            own.iter().map(|agent| (agent.to_string(), source(Some(agent)))).collect();
        let running = RunningServer {
            key,
            metrics,
            result_cache,
            default_source,
            agent_sources,
            router,
            server,
        };
        (Arc::new(running), lease_workers)
    }

    fn session_source(&self, dialog: &DialogState) -> &SessionSource {
        self.agent_sources.get(&*dialog.agent).unwrap_or(&self.default_source)
    }

    fn session_sources(&self) -> impl Iterator<Item = &SessionSource> {
        self.agent_sources.values().chain([&self.default_source])
    }

    pub(super) fn spec(&self) -> &Arc<ServerSpec> {
        self.server.spec()
    }

    /// The part of the time since `since` that counts for a call: everything except token renewals.
    /// `total_paused` was read at `since`.
    pub(super) fn counted_wait(&self, since: Instant, total_paused: Duration) -> Duration {
        since.elapsed().saturating_sub(self.total_paused().saturating_sub(total_paused))
    }

    /// The total time of token renewals so far, which counts for no call.
    pub(super) fn total_paused(&self) -> Duration {
        self.server.clock().total_paused()
    }

    /// Acquires a session for a call: the shared one, the dialog's own, or one for this call alone.
    /// Returns the time limits minus the wait.
    pub(super) async fn acquire_session(
        &self,
        call: OutgoingCall<'_>,
        timeouts: CallTimeouts,
    ) -> Result<(CallSession, CallTimeouts), SessionError> {
        if let Some(call_session) = self.try_acquire_session(call) {
            return Ok((call_session, timeouts));
        }
        let (started_at, total_paused) = (Instant::now(), self.total_paused());
        // Boxed: the wait is rare and would make the future of every call larger.
        let call_session =
            Box::pin(self.wait_for_session(call, started_at + session_wait_limit(timeouts)))
                .await?;
        Ok((call_session, timeouts.minus_elapsed(self.counted_wait(started_at, total_paused))))
    }

    /// Returns a session that is open and free. Nearly every call succeeds here.
    fn try_acquire_session(&self, call: OutgoingCall<'_>) -> Option<CallSession> {
        let dialog = call.dialog;
        let source = self.session_source(dialog);
        if self.may_share(dialog) {
            let permit = self.shared_conn(source).ok()?.try_acquire_session()?;
            if self.is_shareable(dialog, &permit) {
                return Some(self.start_call(permit, None, call));
            }
        }
        self.check_enabled().ok()?;
        let guard = source.leases.try_acquire(&dialog.id, dialog.session_era())?;
        let permit = guard.conn().try_acquire_session().filter(|_| !dialog.is_closed())?;
        Some(self.start_call(permit, Some(guard), call))
    }

    async fn wait_for_session(
        &self,
        call: OutgoingCall<'_>,
        at: Instant,
    ) -> Result<CallSession, SessionError> {
        let dialog = call.dialog;
        let deadline = self.server.clock().deadline_at(at);
        if let Some(permit) = self.shared_session(dialog, deadline).await? {
            return Ok(self.start_call(permit, None, call));
        }
        self.check_enabled()?;
        let era = dialog.session_era();
        let leases = &self.session_source(dialog).leases;
        let expired = self.server.clock().wait_until(deadline);
        let principal = dialog.principal.as_deref().map(Arc::from);
        let guard = leases.acquire(&dialog.id, principal, era, expired).await;
        let guard = guard.map_err(SessionError::Lease)?;
        if dialog.is_closed() {
            // The dialog was closed before its lease existed, so the lease must be ended here.
            self.close_dialog(&dialog.id);
            let server = self.spec().id.as_str().into();
            return Err(SessionError::Lease(AcquireError::DialogEnded { server }));
        }
        let ready = self
            .server
            .clock()
            .run_until(deadline, guard.conn().acquire_session(Demand::Call))
            .await;
        match ready {
            None => Err(SessionError::Timeout),
            Some(Ok(permit)) => Ok(self.start_call(permit, Some(guard), call)),
            Some(Err(failure)) => {
                // The session does not recover. The next call opens another one.
                leases.mark_lost(guard.session_id());
                Err(SessionError::NotConnected(failure))
            }
        }
    }

    /// The shared session, if the calls of this dialog may use it.
    async fn shared_session(
        &self,
        dialog: &DialogState,
        deadline: PausableDeadline,
    ) -> Result<Option<SessionPermit>, SessionError> {
        if !self.may_share(dialog) {
            return Ok(None);
        }
        let conn = self.shared_conn(self.session_source(dialog))?;
        let ready =
            self.server.clock().run_until(deadline, conn.acquire_session(Demand::Call)).await;
        let permit = ready.ok_or(SessionError::Timeout)?.map_err(SessionError::NotConnected)?;
        Ok(Some(permit).filter(|permit| self.is_shareable(dialog, permit)))
    }

    fn may_share(&self, dialog: &DialogState) -> bool {
        let spec = self.spec();
        match spec.policy.session.scope {
            SessionScope::Shared => true,
            // The modern era has no sessions over HTTP, so there is nothing to lease. A client of
            // the legacy era gets its own session.
            SessionScope::PerConversation => {
                let is_http = matches!(spec.transport, Transport::StreamableHttp(_));
                is_http && dialog.era != Some(Era::Legacy)
            }
            SessionScope::PerCall => false,
        }
    }

    fn shared_conn<'s>(&'s self, source: &'s SessionSource) -> Result<&'s Conn, SessionError> {
        match &source.conn {
            None => Ok(self.server.main()),
            Some(own) => self.check_enabled().map(|()| own.conn()),
        }
    }

    /// Whether the dialog can use this shared session: the session can be shared and speaks the
    /// dialog's era.
    fn is_shareable(&self, dialog: &DialogState, permit: &SessionPermit) -> bool {
        let agreed = permit.session.agreed();
        let is_shared = self.spec().policy.session.scope == SessionScope::Shared
            || agreed.carries_client_per_request();
        is_shared && agreed.fits_client(dialog.era)
    }

    /// Registers the call, so that its dialog can answer requests of the server.
    fn start_call(
        &self,
        permit: SessionPermit,
        guard: Option<LeaseGuard<Arc<DedicatedConn>, Failure>>,
        call: OutgoingCall<'_>,
    ) -> CallSession {
        CallSession { permit, guard, active_call: self.router.start_call(call) }
    }

    /// Fails if the server is stopped or disabled. Leased sessions have their own connections, but
    /// follow the state of the server.
    fn check_enabled(&self) -> Result<(), SessionError> {
        let state = self.server.main().state();
        match state {
            ServerState::Stopped | ServerState::Disabled => {
                let text = format!("Server not connected: it is {}", state.as_str());
                Err(SessionError::NotConnected(Failure::new(FailureKind::Connection, text)))
            }
            _ => Ok(()),
        }
    }

    /// Enables or disables the server.
    pub(super) async fn set_enabled(&self, enabled: bool) {
        if !enabled {
            self.end_leases();
        }
        // The sessions of single agents reopen on demand.
        let event = if enabled { ConnEvent::Enable } else { ConnEvent::Disable };
        self.server.main().send_event(event).await;
    }

    /// Lets failed sessions of single agents reopen on demand.
    pub(super) fn retry_failed_agents(&self) {
        let own = self
            .agent_sources
            .values()
            .filter_map(|source| source.conn.as_ref())
            .map(DedicatedConn::conn);
        for conn in
            own.filter(|conn| conn.watch().borrow().lifecycle.state() == ServerState::Failed)
        {
            conn.try_send_event(ConnEvent::Release);
        }
    }

    pub(super) fn state(&self) -> ServerState {
        self.server.main().state()
    }

    /// Waits until a start has succeeded, failed once or timed out, and returns its outcome.
    pub(super) async fn wait_until_settled(&self) -> ReloadOutcome {
        let mut view = self.server.main().watch();
        let is_settled = |view: &ConnView| {
            let state = view.lifecycle.state();
            !matches!(
                state,
                ServerState::Connecting | ServerState::Reconnecting | ServerState::Draining
            )
        };
        let settled = timeout(startup_timeout(self.spec()), view.wait_for(is_settled)).await;
        let Ok(Ok(view)) = settled else {
            return ReloadOutcome::Coming;
        };
        let failed = matches!(view.lifecycle.state(), ServerState::Backoff | ServerState::Failed);
        match view.lifecycle.last_error().filter(|_| failed) {
            Some((_, failure)) => ReloadOutcome::Failed(failure.message.clone()),
            None if view.lifecycle.state() == ServerState::Idle => ReloadOutcome::Coming,
            None => ReloadOutcome::Done,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state(), ServerState::Ready | ServerState::Degraded)
    }

    /// The lists of sessions that are not shared, by dialog.
    pub(super) fn session_lists(&self, dialogs: &DialogTable) -> Vec<(Arc<str>, SessionList)> {
        let leased = self.session_sources().flat_map(|source| source.leases.dialog_sessions());
        let listed = leased.filter_map(|(dialog, it)| Some((dialog, it.conn().current_catalog()?)));
        let mut lists: HashMap<Arc<str>, SessionList> = listed.collect();
        // Agents with credentials of their own may see other lists, too.
        for (agent, source) in &self.agent_sources {
            let Some(listed) = source.conn.as_ref().and_then(|own| own.conn().current_catalog())
            else {
                continue;
            };
            for dialog in dialogs.list().into_iter().filter(|it| *it.agent == **agent) {
                lists.entry(Arc::clone(&dialog.id)).or_insert_with(|| listed.clone());
            }
        }
        lists.into_iter().collect()
    }

    /// Notifies the session that a dialog leases. The modern era has no notifications of clients.
    pub(super) fn notify_dialog_session(
        &self,
        dialog: &Arc<str>,
        method: &str,
        params: Option<&RawJson>,
    ) {
        let owned = self.session_sources().flat_map(|source| source.leases.dialog_sessions());
        for (_, dedicated) in owned.filter(|(of, _)| of == dialog) {
            let session = dedicated.conn().view().session;
            if let Some(session) = session.filter(|it| it.agreed().accepts_client_notifications()) {
                session.peer().queue_notification(method, params);
            }
        }
    }

    pub(super) fn leases(&self) -> Vec<Lease> {
        self.session_sources().flat_map(|source| source.leases.leases()).collect()
    }

    pub(super) fn has_lease(&self, dialog: &Arc<str>) -> bool {
        self.session_sources().any(|source| source.leases.has_lease(dialog))
    }

    pub(super) fn release_lease(&self, dialog: &Arc<str>) -> bool {
        // `any` would stop at the first success, but every source must release its lease.
        self.session_sources().filter(|source| source.leases.release(dialog)).count() > 0
    }

    pub(super) fn close_dialog(&self, dialog: &Arc<str>) {
        self.session_sources().for_each(|source| source.leases.end_dialog(dialog));
    }

    pub(super) fn end_leases(&self) {
        for source in self.session_sources() {
            source.leases.close_all();
            if let Some(own) = &source.conn {
                own.conn().try_send_event(ConnEvent::Release);
            }
        }
    }

    /// Ends all leases and waits until the main connection is returned, so that later events are
    /// not mistaken for the lease's end.
    pub(super) async fn end_leases_and_wait(&self) {
        self.end_leases();
        let until = Instant::now() + LEASE_RETURN_TIMEOUT;
        while self.server.is_lent() && Instant::now() < until {
            // The lease worker returns the connection without a notification.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(super) fn retire_leases(&self) {
        self.session_sources().for_each(|source| source.leases.retire());
    }

    /// Channels that change whenever the leases of a source change.
    pub(super) fn lease_changes(&self) -> Vec<tokio::sync::watch::Receiver<u64>> {
        self.session_sources().map(|source| source.leases.changes()).collect()
    }
}

async fn run_lease_worker(
    lease_worker: LeaseWorker<Arc<DedicatedConn>, Failure>,
    factory: SessionFactory,
) {
    lease_worker.run(Arc::new(factory)).await;
}

/// Opens and closes the sessions that dialogs lease.
struct SessionFactory {
    core: Weak<Core>,
    server: Weak<Server>,
    router: Arc<ServerRequestRouter>,
    /// The agent that the sessions authenticate as; `None` for the server's own credentials.
    agent: Option<Arc<str>>,
}

impl SessionOpener for SessionFactory {
    type Session = Arc<DedicatedConn>;
    type Error = Failure;

    async fn open(&self, order: SessionRequest) -> Result<Arc<DedicatedConn>, Failure> {
        let gone = || Failure::new(FailureKind::Connection, "the host is shutting down");
        let server = self.server.upgrade().ok_or_else(gone)?;
        let core = self.core.upgrade().ok_or_else(gone)?;
        let dialog = order.dialog.and_then(|id| core.dialogs.get(&id));
        if let Some(main) = self.lend_main(&core, &server, order.era, dialog.as_ref()) {
            return wait_until_open(main).await;
        }
        let dialog_id = dialog.as_ref().map(|dialog| Arc::clone(&dialog.id));
        let router = || CauseLookup::Router(Arc::clone(&self.router));
        let client = dialog.map(|it| client_requests::dialog_client(&it, server.spec(), router()));
        let agent = self.agent.clone();
        // Sessions per call use the lists of the main session (DKR-45).
        let is_per_call = server.spec().policy.session.scope == SessionScope::PerCall;
        let catalog = is_per_call.then(|| server.main().view().catalog).flatten();
        let with = DedicatedOptions { client, protocol: None, dialog: dialog_id, agent, catalog };
        if order.era == Era::Legacy {
            let legacy = DedicatedOptions { protocol: Some(Protocol::Legacy), ..with.clone() };
            match wait_until_open(server.open_dedicated(legacy)).await {
                // The server speaks only the modern era. Its requests are translated.
                Err(failure) if failure.kind == FailureKind::Protocol => {}
                outcome => return outcome,
            }
        }
        wait_until_open(server.open_dedicated(with)).await
    }

    async fn close(&self, session: Arc<DedicatedConn>) {
        session.close().await;
        if session.is_main() {
            self.set_lessee(None);
        }
    }
}

impl SessionFactory {
    /// Lends the main connection, if it equals the session that the dialog would open.
    fn lend_main(
        &self,
        core: &Core,
        server: &Arc<Server>,
        era: Era,
        dialog: Option<&Arc<DialogState>>,
    ) -> Option<DedicatedConn> {
        let session = server.main().view().session;
        let fits =
            session.map_or(era == Era::Modern, |session| session.agreed().fits_client(Some(era)));
        let is_alike = dialog.is_none_or(|it| {
            it.capabilities.get() == core.capabilities && it.cwd == self.router.cwd
        });
        let main = (fits && is_alike && self.agent.is_none()).then(|| server.lend_main())??;
        self.set_lessee(dialog);
        Some(main)
    }

    fn set_lessee(&self, dialog: Option<&Arc<DialogState>>) {
        self.router.set_lessee(dialog);
        if let Some((core, server)) = self.core.upgrade().zip(self.server.upgrade()) {
            core.connection_events
                .set_lessee(server.number(), dialog.map(|dialog| Arc::clone(&dialog.id)));
        }
    }
}

async fn wait_until_open(dedicated: DedicatedConn) -> Result<Arc<DedicatedConn>, Failure> {
    match dedicated.conn().acquire_session(Demand::Call).await {
        Ok(_) => Ok(Arc::new(dedicated)),
        Err(failure) => {
            dedicated.close().await;
            Err(failure)
        }
    }
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningServer").field("server", &self.server).finish_non_exhaustive()
    }
}

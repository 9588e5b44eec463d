//! State of one gateway client: dialog, session, running requests, and forwarded server requests.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::AbortHandle;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OnceCell, mpsc, watch};
use tokio::time::{Instant, timeout};
use toolcrib::{Dialog, DialogRequest, PendingRequest, ResourceSubscription};
use toolcrib_upstream::conn::peer::Cancellation;
use toolcrib_wire::view::LogLevel;
use toolcrib_wire::{Id, MalformedMessage, Message, RawJson, Response, RpcError, build};

use super::Gateway;
use super::list_cache::{CachedList, ListFingerprints, ListKind};
use super::parked_calls::{ParkedCalls, ParkedEntry};
use super::request_context::{LegacySession, RequestContext};
use super::response_channel::{ResponseHandle, ResponseSender};
use crate::identity::namespace::dialog_id;

/// Maximum number of concurrent requests of one client; more are refused.
const MAX_REQUESTS: usize = 256;

/// Time limit for starting servers before the first list of a client.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// Principal, agent, server and dialog of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    /// Id of the authenticated principal.
    pub principal: Option<Arc<str>>,
    pub agent: Arc<str>,
    /// True if the principal may act as any agent.
    pub may_choose_agent: bool,
    /// The only server that the client sees, under its original names; all servers if `None`.
    pub server: Option<Arc<str>>,
    /// Name of the dialog to open or resume; a new dialog if `None`.
    pub dialog: Option<Arc<str>>,
}

impl ClientIdentity {
    /// A local client that sees everything visible to an agent.
    pub fn for_agent(agent: &str) -> Self {
        ClientIdentity {
            principal: None,
            agent: agent.into(),
            may_choose_agent: true,
            server: None,
            dialog: None,
        }
    }

    /// Returns whether another client may use this client's session: it must have the same principal, the same server
    /// endpoint, and the same agent unless the principal may choose it.
    pub(super) fn is_usable_by(&self, other: &ClientIdentity) -> bool {
        self.principal == other.principal
            && self.server == other.server
            && (other.may_choose_agent || self.agent == other.agent)
    }

    /// Id of the named dialog.
    fn dialog_id(&self) -> Option<String> {
        let name = self.dialog.as_deref()?;
        let principal = self.principal.as_deref().unwrap_or_default();
        Some(dialog_id(principal, &self.agent, self.may_choose_agent, name))
    }
}

/// One client of the gateway.
#[derive(Debug)]
pub struct Client {
    pub(super) gateway: Arc<Gateway>,
    pub(super) identity: ClientIdentity,
    dialog: OnceCell<Dialog>,
    /// Notified when the dialog exists.
    dialog_begun: Notify,
    /// Notified when a session is opened.
    session_opened: Notify,
    servers_awaited: OnceCell<()>,
    parked_calls: ParkedCalls,
    ended: watch::Sender<bool>,
    state: Mutex<ClientState>,
}

#[derive(Debug)]
struct ClientState {
    legacy_session: Option<LegacySession>,
    log_level: Option<LogLevel>,
    last_request_id: i64,
    /// Pending server requests that were forwarded, by JSON-RPC id.
    forwarded: HashMap<Id, u64>,
    /// Requests that can be cancelled. If a client uses an id twice, the entry is the newer request.
    active: BTreeMap<Id, ActiveRequest>,
    last_request: u64,
    /// Number of running requests, whatever their ids are.
    in_flight: usize,
    subscriptions: HashMap<String, ResourceSubscription>,
    /// Receives messages that are posted beside the stream of the client.
    inbox: Option<Inbox>,
    listed: ListFingerprints,
    /// When the last open request or stream ended.
    idle_since: Instant,
    /// Number of open requests and streams.
    open_count: usize,
}

/// A running request.
#[derive(Debug)]
struct ActiveRequest {
    number: u64,
    task: AbortHandle,
    cancellation: Cancellation,
}

type Inbox = mpsc::Sender<Result<Message, MalformedMessage>>;

/// Marks the client as active until it is dropped.
#[derive(Debug)]
pub(super) struct ActivityGuard(Arc<Client>);

/// A server request that was forwarded to the client. Dropping it while it is unanswered sends a cancellation.
pub(super) struct ForwardedRequest<'a> {
    client: &'a Client,
    dialog: &'a Dialog,
    pending: &'a PendingRequest,
    id: Id,
    out: &'a ResponseSender,
    is_sent: bool,
}

impl Drop for ForwardedRequest<'_> {
    fn drop(&mut self) {
        // Only the carrying call has ended: the client may still answer, and another call may carry the request.
        if self.is_sent && self.dialog.is_request_pending(self.pending.id) {
            return;
        }
        let is_unanswered = self.client.state().forwarded.remove(&self.id).is_some();
        if self.is_sent && is_unanswered {
            let id = self.id.clone();
            self.out
                .try_send(self.pending.cancellation.notification(id, "the request was withdrawn"));
        }
    }
}

impl ActivityGuard {
    /// Runs `work` in the background until the client or the gateway closes.
    pub(super) fn continue_detached(&self, work: impl Future<Output = ()> + Send + 'static) {
        let client = Arc::clone(&self.0);
        let is_closing = Handle::try_current().is_err() || client.gateway.is_closing();
        if !is_closing {
            let open = client.activity_guard();
            client.gateway.spawn(async move {
                tokio::select! {
                    () = work => {}
                    () = open.0.wait_ended() => {}
                    () = open.0.gateway.wait_closing() => {}
                }
            });
        }
    }
}

impl Client {
    pub(super) fn new(gateway: &Arc<Gateway>, identity: ClientIdentity) -> Arc<Self> {
        Arc::new(Client {
            gateway: Arc::clone(gateway),
            identity,
            dialog: OnceCell::new(),
            dialog_begun: Notify::new(),
            session_opened: Notify::new(),
            servers_awaited: OnceCell::new(),
            parked_calls: ParkedCalls::default(),
            ended: watch::Sender::new(false),
            state: Mutex::new(ClientState {
                legacy_session: None,
                log_level: None,
                last_request_id: 0,
                forwarded: HashMap::new(),
                active: BTreeMap::new(),
                last_request: 0,
                in_flight: 0,
                subscriptions: HashMap::new(),
                inbox: None,
                listed: ListFingerprints::default(),
                idle_since: Instant::now(),
                open_count: 0,
            }),
        })
    }

    /// The dialog of the client, opened with the first request that needs it.
    pub(super) async fn dialog(&self, context: &RequestContext) -> Result<&Dialog, RpcError> {
        let begin = || async {
            let request = DialogRequest {
                id: self.identity.dialog_id(),
                agent: Some(self.identity.agent.to_string()),
                principal: self.identity.principal.as_deref().map(str::to_owned),
                era: Some(context.era()),
                capabilities: Some(context.capabilities()),
                ..DialogRequest::default()
            };
            self.gateway.host.open_dialog(request).await
        };
        if let Some(dialog) = self.dialog.get() {
            return Ok(dialog);
        }
        let dialog = Box::pin(self.dialog.get_or_try_init(begin)).await;
        self.dialog_begun.notify_waiters();
        dialog.map_err(|error| RpcError::internal(toolcrib_upstream::signals::chain(&error)))
    }

    /// Delays the first list of a client for starting servers, because many clients list only once.
    pub(super) async fn wait_for_servers(&self) {
        let settled = || async {
            // Servers that start later cause a change notification.
            let _ = timeout(FIRST_LIST_TIMEOUT, self.gateway.host.wait_until_settled()).await;
        };
        self.servers_awaited.get_or_init(settled).await;
    }

    /// Waits for the dialog. Any number of tasks may wait.
    pub(super) async fn wait_for_dialog(&self) -> &Dialog {
        loop {
            let begins = self.dialog_begun.notified();
            if let Some(dialog) = self.dialog.get() {
                return dialog;
            }
            begins.await;
        }
    }

    /// The dialog, if it is open.
    pub(super) fn begun_dialog(&self) -> Option<&Dialog> {
        self.dialog.get()
    }

    /// Returns whether the dialog was ended from elsewhere.
    pub(super) fn dialog_has_ended(&self) -> bool {
        self.begun_dialog().is_some_and(Dialog::is_closed)
    }

    pub(super) fn legacy_session(&self) -> Option<LegacySession> {
        self.state().legacy_session.clone()
    }

    pub(super) fn open_session(&self, opened: LegacySession) {
        self.state().legacy_session = Some(opened);
        self.session_opened.notify_waiters();
    }

    /// Waits until the client opens a legacy session.
    pub(super) async fn wait_for_session(&self) {
        loop {
            let opens = self.session_opened.notified();
            if self.legacy_session().is_some() {
                return;
            }
            opens.await;
        }
    }

    pub(super) fn set_inbox(&self, inbox: Inbox) {
        self.state().inbox = Some(inbox);
    }

    /// Delivers a posted message. Returns `false` if the client has no stream.
    pub(super) async fn deliver(&self, message: Result<Message, MalformedMessage>) -> bool {
        let inbox = self.state().inbox.clone();
        match inbox {
            Some(inbox) => inbox.send(message).await.is_ok(),
            None => false,
        }
    }

    /// The minimum log level, if the client has set one.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        self.state().log_level
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        self.state().log_level = Some(level);
    }

    /// Marks the client as active.
    pub(super) fn activity_guard(self: &Arc<Self>) -> ActivityGuard {
        self.state().open_count += 1;
        ActivityGuard(Arc::clone(self))
    }

    /// Time since the client became idle.
    pub(super) fn idle_time(&self) -> Duration {
        let state = self.state();
        match state.open_count {
            0 => state.idle_since.elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// Returns whether one more request is allowed.
    pub(super) fn has_capacity(&self) -> bool {
        self.state().in_flight < MAX_REQUESTS
    }

    /// Registers a request and returns its number for `unregister_request`.
    pub(super) fn register_request(
        &self,
        id: Id,
        task: AbortHandle,
        handle: &ResponseHandle,
    ) -> u64 {
        let mut state = self.state();
        state.in_flight += 1;
        state.last_request += 1;
        let (number, cancellation) = (state.last_request, handle.cancellation.clone());
        state.active.insert(id, ActiveRequest { number, task, cancellation });
        number
    }

    pub(super) fn unregister_request(&self, id: &Id, run: u64) {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        if state.active.get(id).is_some_and(|newest| newest.number == run) {
            state.active.remove(id);
        }
    }

    /// Cancels a request. `params` are those of the cancel notification and go to the server.
    pub(super) fn cancel(&self, id: &Id, params: Option<RawJson>) {
        let Some(run) = self.state().active.remove(id) else { return };
        if let Some(params) = params {
            run.cancellation.set_params(params);
        }
        run.task.abort();
    }

    /// Forwards a server request on the stream of one of the client's requests. A request that was already forwarded on
    /// another stream keeps its id. Returns `None` if the client has disconnected.
    pub(super) async fn forward_request<'a>(
        &'a self,
        dialog: &'a Dialog,
        pending: &'a PendingRequest,
        out: &'a ResponseSender,
    ) -> Option<ForwardedRequest<'a>> {
        let (id, is_sent) = {
            let mut state = self.state();
            state.forwarded.retain(|_, forwarded| dialog.is_request_pending(*forwarded));
            let known = state.forwarded.iter().find(|(_, forwarded)| **forwarded == pending.id);
            match known.map(|(id, _)| id.clone()) {
                Some(id) => (id, true),
                None => {
                    state.last_request_id += 1;
                    let id = Id::Number(state.last_request_id);
                    state.forwarded.insert(id.clone(), pending.id);
                    (id, false)
                }
            }
        };
        let mut forwarded = ForwardedRequest { client: self, dialog, pending, id, out, is_sent };
        if !forwarded.is_sent {
            let message =
                build::request(&forwarded.id, &pending.method, Some(pending.params.json()));
            out.send(message).await.ok()?;
            forwarded.is_sent = true;
        }
        Some(forwarded)
    }

    /// Delivers the client's response to the server. Returns `false` if no server waits for it.
    pub(super) fn deliver_response(&self, response: Response) -> bool {
        let forwarded = response.id.as_ref().and_then(|id| self.state().forwarded.remove(id));
        let forwarded = forwarded.zip(self.begun_dialog());
        forwarded
            .is_some_and(|(pending, dialog)| dialog.answer_request(pending, response.into_result()))
    }

    pub(super) fn subscribe(&self, uri: &str, subscription: ResourceSubscription) {
        self.state().subscriptions.insert(uri.to_owned(), subscription);
    }

    pub(super) fn unsubscribe(&self, uri: &str) -> Option<ResourceSubscription> {
        self.state().subscriptions.remove(uri)
    }

    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.state().subscriptions.contains_key(uri)
    }

    /// Fingerprints of the lists that the client has seen.
    pub(super) fn listed_fingerprints(&self) -> ListFingerprints {
        self.state().listed
    }

    pub(super) fn record_listed(&self, list: ListKind, listed: &CachedList) {
        self.state().listed.set(list, listed.fingerprint);
    }

    /// Parks an entry for the client to return to. Returns its state.
    pub(super) fn park(&self, entry: ParkedEntry) -> Result<String, RpcError> {
        self.gateway.parked_calls.register(&self.parked_calls);
        let state = self.parked_calls.park(entry)?;
        if self.gateway.is_closing() {
            self.parked_calls.cancel_calls();
        }
        Ok(state)
    }

    /// Removes and returns the entry parked under this state.
    pub(super) fn take_parked(&self, state: &str) -> Option<ParkedEntry> {
        self.parked_calls.remove(state)
    }

    /// Waits until the client is closed.
    pub(super) async fn wait_ended(&self) {
        let mut ended = self.ended.subscribe();
        // `self` holds the sender, so this wait cannot fail.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Closes the client and cancels its requests.
    pub(super) async fn close(&self) {
        self.ended.send_replace(true);
        self.release_all();
        self.parked_calls.clear();
        if let Some(dialog) = self.dialog.get() {
            dialog.close().await;
        }
    }

    fn release_all(&self) {
        let mut state = self.state();
        state.inbox = None;
        let active = std::mem::take(&mut state.active);
        let left = (std::mem::take(&mut state.forwarded), std::mem::take(&mut state.subscriptions));
        drop(state);
        active.into_values().for_each(|run| run.task.abort());
        drop(left);
    }

    fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open_count = state.open_count.saturating_sub(1);
        state.idle_since = Instant::now();
    }
}

//! JSON-RPC peer: any number of concurrent calls over one link.
//!
//! A [`Peer`] numbers requests, matches responses, enforces deadlines and cancels dropped calls. Server requests go to
//! a [`RequestHandler`]; notifications go to one bounded mailbox. No server message ends the connection, and no slow
//! listener blocks it.

mod anomaly;
mod call_deadline;
mod cancellation;
mod dispatch;
mod error;
mod mailbox;
mod masking;
mod pending_calls;
mod server_requests;
mod shared_state;

pub use anomaly::{Anomaly, AnomalyReport};
pub use call_deadline::{CallTimeouts, TimeoutKind};
pub use cancellation::Cancellation;
pub use error::{BadResponse, PeerCallError};
pub use mailbox::{MailboxReceiver, MailboxSender, mailbox};
pub use server_requests::{
    DeadlinePause, HandlerFuture, RefuseRequests, RequestHandler, RequestOrigin, ServerRequest,
};

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use toolcrib_wire::header::Header;
use toolcrib_wire::method::{MethodTarget, target};
use toolcrib_wire::{
    Body, Channel, Framing, Id, Notification, ObjectWriter, RawJson, Version, build, meta,
};

use crate::transport::{
    CloseReason, Closer, Exchange, ExchangeOutcome, Link, LinkInfo, Outgoing, OutgoingKind,
    OutgoingMessage, RemainingWork,
};
use call_deadline::DeadlineTimer;
use dispatch::Dispatcher;
use pending_calls::{CallOutcome, PendingCall};
use server_requests::ServerRequests;
use shared_state::SharedState;

/// Capacity of the event mailbox. The oldest events are dropped beyond it.
const EVENT_CAPACITY: usize = 256;

/// Time limit for a direct exchange after its link broke.
const EXCHANGE_GRACE: Duration = Duration::from_secs(5);

/// Handle to a peer. Clones share it. When the last clone drops, the link ends at once.
#[derive(Clone, Debug)]
pub struct Peer {
    shared: Arc<SharedState>,
    owned: Arc<OwnedTasks>,
}

/// Settings of a peer.
#[derive(Debug)]
pub struct PeerSettings {
    /// Server name for logs.
    pub server: String,
    /// Handler of server requests.
    pub handler: Arc<dyn RequestHandler>,
    /// True if secrets in results are masked too.
    pub masks_results: bool,
}

/// Options of one call.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Time limits of the call.
    pub timeouts: CallTimeouts,
    /// Handling of progress notifications.
    pub progress: ProgressMode,
    /// Protocol version of this request, if it differs from the agreed one.
    pub version: Option<Version>,
    /// Extra headers, for transports with headers.
    pub headers: Vec<Header>,
    /// The caller's own key of the call. Server requests on its stream carry it.
    pub tag: Option<u64>,
    /// The params are known to have no `_meta`, which saves a lookup.
    pub has_no_meta: bool,
    /// All calls of the session belong to one caller, so messages outside of a call's stream belong to one of these
    /// calls.
    pub is_exclusive: bool,
    /// The caller itself performs the exchange, on transports with one exchange for each request. It may overtake
    /// earlier messages, and it makes no progress while the call is not polled.
    pub is_direct: bool,
    /// Params of the cancellation, if the canceller supplies its own.
    pub cancellation: Option<Cancellation>,
    /// Signalled when the server acknowledges the subscription. The sender does not wait for capacity.
    pub acknowledged: Option<mpsc::Sender<()>>,
}

/// Progress notifications of a call.
#[derive(Clone, Debug, Default)]
pub enum ProgressMode {
    #[default]
    None,
    /// Progress only extends the deadline.
    Extend,
    /// Delivers each notification in order. All of them are delivered before the call returns.
    Deliver(Arc<dyn NotificationSink>),
}

/// Receiver of a call's notifications. Implementations must not block, because the whole peer waits.
pub trait NotificationSink: fmt::Debug + Send + Sync {
    fn on_notification(&self, notification: CallNotification);
}

impl NotificationSink for MailboxSender<CallNotification> {
    fn on_notification(&self, notification: CallNotification) {
        let bytes = notification.params().text().len();
        self.push(notification, bytes);
    }
}

/// Params of a notification about a running call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallNotification {
    Progress(RawJson),
    Log(RawJson),
}

impl CallNotification {
    /// Params of the notification.
    pub fn params(&self) -> &RawJson {
        match self {
            CallNotification::Progress(params) | CallNotification::Log(params) => params,
        }
    }
}

/// Events outside of calls.
#[derive(Debug)]
pub enum PeerEvent {
    /// Any notification except progress and cancellation.
    Notification {
        notification: Notification,
        /// True if a call has received it as a [`CallNotification`].
        in_call: bool,
    },
    /// First violation of its kind. [`Peer::anomalies`] returns the counts.
    Anomaly(Anomaly),
    /// The last event.
    Closed(CloseReason),
}

/// Tasks and link that end with the last handle.
#[derive(Debug)]
struct OwnedTasks {
    _tasks: JoinSet<()>,
    closer: Mutex<Option<Closer>>,
}

impl Peer {
    /// Starts the tasks of a peer on an open link. Returns the peer and its events.
    pub fn start(link: Link, settings: PeerSettings) -> (Peer, MailboxReceiver<PeerEvent>) {
        let Link { outbox, inbox, info: link_info, closer, direct } = link;
        let (sender, events) = mailbox(EVENT_CAPACITY);
        let shared = Arc::new(SharedState::new(&settings, link_info, outbox, direct));
        let dispatch =
            Dispatcher::new(Arc::clone(&shared), ServerRequests::new(settings.handler), sender);
        let mut tasks = JoinSet::new();
        tasks.spawn(dispatch.run(inbox));
        let carrier = Arc::clone(&shared);
        tasks.spawn(async move { carrier.send_backlog().await });
        let owned = Arc::new(OwnedTasks { _tasks: tasks, closer: Mutex::new(Some(closer)) });
        (Peer { shared, owned }, events)
    }

    /// Sends a request and waits for its response. Dropping the future cancels the request at the server.
    pub async fn call(
        &self,
        method: &str,
        params: RawJson,
        options: CallOptions,
    ) -> Result<Body, PeerCallError> {
        match self.exchange(method, params, options).await {
            Ok(body) if !self.shared.must_mask(method, &body) => Ok(body),
            outcome => self.shared.masked_outcome(method, outcome),
        }
    }

    async fn exchange(
        &self,
        method: &str,
        params: RawJson,
        options: CallOptions,
    ) -> Result<Body, PeerCallError> {
        let timer = DeadlineTimer::start(options.timeouts);
        let timeouts = options.timeouts;
        let timeout_error = |limit| PeerCallError::Timeout {
            after: match limit {
                TimeoutKind::Request => timeouts.request.unwrap_or_default(),
                TimeoutKind::Max => timeouts.max.unwrap_or_default(),
            },
            limit,
        };
        let direct = self.shared.direct.as_ref().filter(|_| options.is_direct);
        let room = match direct {
            Some(_) => None,
            None => Some(tokio::select! {
                room = self.shared.outbox.reserve() => match room {
                    Ok(room) => room,
                    Err(_) => return Err(Box::pin(self.shared.unsent_error(method)).await),
                },
                limit = timer.expired() => return Err(timeout_error(limit)),
            }),
        };
        let cancellation = options.cancellation.clone();
        // There is no await point before the guard, so a call is either unknown to the server or guarded.
        let (mut answer, request) = self.register_call(method, &params, options, &timer)?;
        let mut guard = CallGuard {
            shared: &self.shared,
            number: request.number,
            method,
            version: request.message.version.clone(),
            cancellation,
            reason: "no longer wanted",
            exchange: None,
        };
        match (room, direct) {
            (Some(room), _) => room.send(Outgoing::Message(request.message)),
            (None, direct) => guard.exchange = direct.map(|it| it.start_exchange(request.message)),
        }
        loop {
            tokio::select! {
                biased;
                outcome = &mut answer => {
                    let outcome = outcome.unwrap_or_else(|_| Err(self.shared.closed_error()));
                    let is_broken = matches!(outcome, Err(PeerCallError::Closed(CloseReason::Broken(_))));
                    return match &mut guard.exchange {
                        // Boxed, so that the common future stays small.
                        exchange @ Some(_) if is_broken => {
                            Box::pin(wait_for_exchange(outcome, exchange, &timer)).await
                        }
                        _ => outcome,
                    };
                }
                went = poll_exchange(&mut guard.exchange) => {
                    if let Some(outcome) = self.finish_exchange(guard.number, went, &mut answer) {
                        return outcome;
                    }
                }
                limit = timer.expired() => {
                    guard.reason = "timed out";
                    guard.cancellation = None;
                    return Err(timeout_error(limit));
                }
            }
        }
    }

    /// Handles the outcome of a direct exchange. Returns the call's outcome if the exchange decided it.
    fn finish_exchange(
        &self,
        number: i64,
        went: ExchangeOutcome,
        answer: &mut oneshot::Receiver<CallOutcome>,
    ) -> Option<CallOutcome> {
        let direct_outcome = match went {
            ExchangeOutcome::Response(direct) => {
                if let Some(rest) = direct.remaining {
                    self.shared.enqueue(Outgoing::RunRemaining(RemainingWork(rest)));
                }
                dispatch::call_outcome(&direct.response)
            }
            ExchangeOutcome::Failed(fault) => Err(PeerCallError::Failed(fault)),
            ExchangeOutcome::Forwarded => return None,
        };
        if self.shared.claim_outcome(number) {
            return Some(direct_outcome);
        }
        // A response counts wherever it arrived. A closed link does not: this exchange may have closed it, and the
        // exchange knows more, such as whether the server started the call.
        Some(answer.try_recv().ok().filter(Result::is_ok).unwrap_or(direct_outcome))
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Option<RawJson>) -> Result<(), PeerCallError> {
        let sent = self.shared.outbox.send(self.notification(method, params.as_ref())).await;
        sent.map_err(|_| self.shared.closed_error())
    }

    /// Sends a notification without waiting; without capacity it is queued.
    pub fn queue_notification(&self, method: &str, params: Option<&RawJson>) {
        self.shared.enqueue(self.notification(method, params));
    }

    fn notification(&self, method: &str, params: Option<&RawJson>) -> Outgoing {
        Outgoing::Message(OutgoingMessage {
            raw: build::notification(method, params.map(RawJson::json)),
            kind: OutgoingKind::Notification { method: method.into() },
            version: self.version(),
            headers: Vec::new(),
        })
    }

    /// Sets the protocol version for all following messages.
    pub fn set_version(&self, version: Version) {
        self.shared.state().version = Some(version);
    }

    /// Agreed protocol version.
    pub fn version(&self) -> Option<Version> {
        self.shared.state().version.clone()
    }

    /// Returns whether the link is closed.
    pub fn is_over(&self) -> bool {
        self.shared.closed.borrow().is_some()
    }

    /// Message framing of the server, once it has sent a message on a byte stream.
    pub fn framing(&self) -> Option<Framing> {
        self.shared.state().framing
    }

    /// Facts about the link.
    pub fn link_info(&self) -> &LinkInfo {
        &self.shared.link_info
    }

    /// Number of pending calls.
    pub fn in_flight(&self) -> usize {
        self.shared.state().calls.len()
    }

    /// Time of the last message from the server.
    pub fn last_received(&self) -> Instant {
        self.shared.state().last_received
    }

    /// Protocol violations of the server, by kind.
    pub fn anomalies(&self) -> Vec<AnomalyReport> {
        self.shared.state().anomalies.all()
    }

    /// Waits until the link closes.
    pub async fn closed(&self) -> CloseReason {
        let mut closed = self.shared.closed.subscribe();
        let known = closed.wait_for(Option::is_some).await;
        known.ok().and_then(|reason| reason.clone()).unwrap_or(CloseReason::HostClosed)
    }

    /// Fails all pending calls, sends queued messages within `grace`, and stops everything that the link started.
    /// Dropping the future stops it at once.
    pub async fn close(&self, grace: Duration) {
        self.shared.close(&CloseReason::HostClosed, Vec::new());
        let closer = self.owned.closer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(closer) = closer {
            closer.close(grace).await;
        }
    }

    /// Fails all pending calls and stops everything that the link started at once.
    pub fn kill(&self) {
        self.shared.close(&CloseReason::HostClosed, Vec::new());
        drop(self.owned.closer.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn register_call(
        &self,
        method: &str,
        params: &RawJson,
        options: CallOptions,
        timer: &Arc<DeadlineTimer>,
    ) -> Result<(oneshot::Receiver<CallOutcome>, RegisteredCall), PeerCallError> {
        let (sender, answer) = oneshot::channel();
        let (wants_progress, listener) = match options.progress {
            ProgressMode::None => (false, None),
            ProgressMode::Extend => (true, None),
            ProgressMode::Deliver(sink) => (true, Some(sink)),
        };
        let mut state = self.shared.state();
        // Closing fails all calls under the same lock, so no call is missed.
        if self.is_over() {
            drop(state);
            return Err(unregistered_error(self.shared.closed_error()));
        }
        let number = state.calls.next_number();
        let call = PendingCall {
            response_sender: sender,
            timer: Arc::clone(timer),
            listener,
            is_exclusive: options.is_exclusive,
            tag: options.tag,
            acknowledged: options.acknowledged,
        };
        state.calls.insert(number, call);
        let version = options.version.or_else(|| state.version.clone());
        drop(state);
        let id = Id::Number(number);
        let name = self.header_name(method, params, version.as_ref());
        let raw = match wants_progress {
            true if options.has_no_meta => build::request_for_progress(&id, method, params.json()),
            true => build::request(&id, method, Some(with_token(params, &id).json())),
            false => build::request(&id, method, Some(params.json())),
        };
        let message = OutgoingMessage {
            raw,
            kind: OutgoingKind::Request { id, method: method.into(), name },
            version,
            headers: options.headers,
        };
        Ok((answer, RegisteredCall { number, message }))
    }

    /// Read from the params, so that header and body cannot differ.
    fn header_name(
        &self,
        method: &str,
        params: &RawJson,
        version: Option<&Version>,
    ) -> Option<Arc<str>> {
        if self.shared.link_info.channel != Channel::Http
            || !version.is_some_and(Version::is_modern)
        {
            return None;
        }
        let key = match target(method)? {
            MethodTarget::Name => "name",
            MethodTarget::Uri => "uri",
        };
        Some(params.json().get(key)?.as_str()?.into())
    }
}

/// A registered call that has not been sent.
struct RegisteredCall {
    number: i64,
    message: OutgoingMessage,
}

/// Cancels its call at the server on drop, unless the call has ended.
struct CallGuard<'a> {
    shared: &'a SharedState,
    number: i64,
    method: &'a str,
    version: Option<Version>,
    cancellation: Option<Cancellation>,
    /// Cancellation reason, unless the canceller supplies its own.
    reason: &'static str,
    /// The direct exchange, until it ends.
    exchange: Option<Exchange>,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let exchange = self.exchange.take();
        let (cancellation, reason) = (self.cancellation.take(), self.reason);
        let cancel_message = |id| cancellation.unwrap_or_default().notification(id, reason);
        self.shared.abandon_call(
            self.number,
            self.method,
            self.version.as_ref(),
            cancel_message,
            exchange,
        );
    }
}

/// Treats an unsent call like one that the server refused because of an unknown session.
fn unregistered_error(closed: PeerCallError) -> PeerCallError {
    match closed {
        PeerCallError::Closed(CloseReason::Broken(fault)) if fault.is_session_gone() => {
            PeerCallError::Failed(fault)
        }
        closed => closed,
    }
}

/// Polls the exchange and clears it when it ends.
async fn poll_exchange(exchange: &mut Option<Exchange>) -> ExchangeOutcome {
    let Some(current) = exchange else { return std::future::pending().await };
    let went = current.work.as_mut().await;
    *exchange = None;
    went
}

/// Waits for the exchange after the link broke. The broken link does not know the outcome of a direct exchange, such
/// as that it never started.
async fn wait_for_exchange(
    outcome: CallOutcome,
    exchange: &mut Option<Exchange>,
    timer: &DeadlineTimer,
) -> CallOutcome {
    let went = tokio::select! {
        biased;
        went = timeout(EXCHANGE_GRACE, poll_exchange(exchange)) => went.unwrap_or(ExchangeOutcome::Forwarded),
        // No longer than the call's own deadline.
        _ = timer.expired() => ExchangeOutcome::Forwarded,
    };
    match went {
        ExchangeOutcome::Response(direct) => dispatch::call_outcome(&direct.response),
        ExchangeOutcome::Failed(fault) => Err(PeerCallError::Failed(fault)),
        ExchangeOutcome::Forwarded => outcome,
    }
}

impl PeerEvent {
    fn is_notification(&self, method: &str) -> bool {
        matches!(self, PeerEvent::Notification { notification, .. } if notification.method == method)
    }
}

/// Uses the request id as the progress token, because it is unique as well.
fn with_token(params: &RawJson, id: &Id) -> RawJson {
    let token = progress_token(id);
    let Some(meta) = params.get("_meta") else {
        return params.with_new_member("_meta", token.json());
    };
    let meta = meta.with_members([(meta::PROGRESS_TOKEN, token.get(meta::PROGRESS_TOKEN))]);
    params.with_members([("_meta", Some(meta))])
}

fn progress_token(id: &Id) -> RawJson {
    ObjectWriter::new().id(meta::PROGRESS_TOKEN, id).finish()
}

#[cfg(test)]
mod tests;

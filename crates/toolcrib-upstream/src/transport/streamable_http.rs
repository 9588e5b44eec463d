//! Streamable HTTP transport: one POST per message; a response is one message or an event stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use toolcrib_config::model::transport::StreamableHttp;
use toolcrib_wire::{Channel, Id, method};

use super::direct_exchange::{DirectTransport, Exchange};
use super::http_client::{HTTP_SCHEMES, HttpClient};
use super::http_session::HttpSession;
use super::link::{
    CloseReason, Link, LinkInfo, Outgoing, OutgoingKind, OutgoingMessage, TransportSide,
};
use super::open::{OpenContext, OpenError};
use super::remote_target::RemoteTarget;

/// Most concurrent deliveries of notifications and responses. Each has a timeout.
const MAX_DELIVERIES: usize = 64;

/// Time that a cancellation waits for its request to reach the server. A server that answers with a stream confirms at
/// once; one that answers with a single message confirms nothing before it.
const CANCEL_DELAY: Duration = Duration::from_millis(500);

/// Minimum time for deleting the session, however short the grace period of the close is.
const SESSION_END_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn open(spec: &StreamableHttp, context: &OpenContext<'_>) -> Result<Link, OpenError> {
    let target = RemoteTarget::resolve(&spec.remote, HTTP_SCHEMES, context)?;
    let http = HttpClient::new(target, context)?;
    let configured = configured_session(spec, context)?;
    let terminate = spec.terminate_on_close;
    let info = LinkInfo::new(Channel::Http);
    let mut session = None;
    let link = Link::start(info, |ends| {
        let own = Arc::new(HttpSession::new(http, ends.incoming.clone(), configured));
        session = Some(Arc::clone(&own));
        run_link(ends, own, terminate)
    });
    Ok(match session {
        Some(session) => link.with_direct(Arc::new(SessionRequests(session))),
        None => link,
    })
}

fn configured_session(
    spec: &StreamableHttp,
    context: &OpenContext<'_>,
) -> Result<Option<HeaderValue>, OpenError> {
    let Some(id) = &spec.session_id else { return Ok(None) };
    let id = context.text(id)?;
    if id.is_empty() {
        return Ok(None);
    }
    let refused = |_| OpenError::BadHeader(toolcrib_wire::header::SESSION_ID.to_owned());
    HeaderValue::from_str(&id).map(Some).map_err(refused)
}

async fn run_link(mut ends: TransportSide, session: Arc<HttpSession>, terminate: bool) {
    let mut tasks = SessionTasks::new(Arc::clone(&session));
    let (reason, terminate_timeout) = loop {
        tokio::select! {
            Ok(grace) = &mut ends.close_requested => {
                let deadline = Instant::now() + grace;
                let _ = timeout_at(deadline, tasks.flush(&mut ends.outgoing)).await;
                let left = deadline.saturating_duration_since(Instant::now());
                break (CloseReason::HostClosed, terminate.then_some(left.max(SESSION_END_TIMEOUT)));
            }
            reason = session.closed() => break (reason, None),
            Some(done) = tasks.running.join_next() => tasks.record_finished(done),
            Some(next) = ends.outgoing.recv(), if tasks.has_room() => tasks.start(next),
            () = session.close_idle_connections() => {}
        }
    };
    tasks.running.shutdown().await;
    TransportSide::report_closed(&ends.incoming, reason).await;
    if let Some(limit) = terminate_timeout {
        let _ = timeout(limit, session.terminate()).await;
    }
}

/// Starts one independent exchange per request.
#[derive(Debug)]
struct SessionRequests(Arc<HttpSession>);

impl DirectTransport for SessionRequests {
    fn start_exchange(&self, request: OutgoingMessage) -> Exchange {
        let (arrives, arrived) = oneshot::channel();
        let work = Box::pin(Arc::clone(&self.0).send_request(request, arrives));
        Exchange { work, arrived }
    }
}

/// Running tasks of a session. Each request with its response stream is a task, so that none waits for another.
struct SessionTasks {
    session: Arc<HttpSession>,
    running: JoinSet<FinishedTask>,
    requests: HashMap<Id, InFlightRequest>,
    /// Notifications and responses being delivered.
    deliveries: usize,
    /// Cancellations waiting for their requests.
    cancellations: usize,
    /// `notifications/initialized` is being sent, and no message may overtake it.
    is_initializing: bool,
}

/// A request without a response.
struct InFlightRequest {
    task: AbortHandle,
    /// Resolves when the response begins.
    arrived: oneshot::Receiver<()>,
}

enum FinishedTask {
    Request(Id),
    Delivery,
    Cancellation,
    Initialized,
    /// A task that no other work waits for.
    Other,
}

impl SessionTasks {
    fn new(session: Arc<HttpSession>) -> Self {
        Self {
            session,
            running: JoinSet::new(),
            requests: HashMap::new(),
            deliveries: 0,
            cancellations: 0,
            is_initializing: false,
        }
    }

    fn has_room(&self) -> bool {
        !self.is_initializing && self.deliveries < MAX_DELIVERIES
    }

    fn start(&mut self, next: Outgoing) {
        match next {
            Outgoing::Message(message) => self.send(message),
            Outgoing::Adopt(id, exchange) => self.adopt(id, exchange),
            Outgoing::RunRemaining(rest) => {
                self.running.spawn(async move {
                    rest.0.await;
                    FinishedTask::Other
                });
            }
            // The server sees its stream closed, which cancels a call in the modern era.
            Outgoing::Abandon(id) => {
                if let Some(request) = self.requests.remove(&id) {
                    request.task.abort();
                }
            }
        }
    }

    fn send(&mut self, message: OutgoingMessage) {
        let session = Arc::clone(&self.session);
        match message.kind.clone() {
            OutgoingKind::Request { id, .. } => {
                let exchange = SessionRequests(session).start_exchange(message);
                self.adopt(id, exchange);
            }
            OutgoingKind::Notification { method } if &*method == method::INITIALIZED => {
                self.is_initializing = true;
                self.running.spawn(async move {
                    session.deliver(message).await;
                    FinishedTask::Initialized
                });
            }
            OutgoingKind::Notification { .. } | OutgoingKind::Response => {
                if let Some(request) = self.take_cancelled_request(&message) {
                    return self.cancel_request(request, message);
                }
                self.deliveries += 1;
                self.running.spawn(async move {
                    session.deliver(message).await;
                    FinishedTask::Delivery
                });
            }
        }
    }

    /// Sends the outcome of an exchange to the inbox.
    fn adopt(&mut self, id: Id, exchange: Exchange) {
        let session = Arc::clone(&self.session);
        let Exchange { work, arrived } = exchange;
        let key = id.clone();
        let task = self.running.spawn(async move {
            session.forward_outcome(work.await, id.clone()).await;
            FinishedTask::Request(id)
        });
        self.requests.insert(key, InFlightRequest { task, arrived });
    }

    /// Takes the request that a message cancels. Returns `None` if too many cancellations are waiting already.
    fn take_cancelled_request(&mut self, message: &OutgoingMessage) -> Option<InFlightRequest> {
        let request =
            message.cancelled_request().filter(|_| self.cancellations < MAX_DELIVERIES)?;
        self.requests.remove(&request)
    }

    fn cancel_request(&mut self, request: InFlightRequest, message: OutgoingMessage) {
        let session = Arc::clone(&self.session);
        let InFlightRequest { task, arrived } = request;
        self.cancellations += 1;
        self.running.spawn(async move {
            // An error means that the request has ended.
            let _ = timeout(CANCEL_DELAY, arrived).await;
            session.deliver(message).await;
            task.abort();
            FinishedTask::Cancellation
        });
    }

    fn record_finished(&mut self, done: Result<FinishedTask, JoinError>) {
        match done {
            // The request was abandoned.
            Err(_) | Ok(FinishedTask::Other) => {}
            Ok(FinishedTask::Request(id)) => {
                self.requests.remove(&id);
            }
            Ok(FinishedTask::Delivery) => self.deliveries -= 1,
            Ok(FinishedTask::Cancellation) => self.cancellations -= 1,
            Ok(FinishedTask::Initialized) => {
                self.is_initializing = false;
                let session = Arc::clone(&self.session);
                session.mark_listener_pending();
                self.running.spawn(async move {
                    session.listen().await;
                    FinishedTask::Other
                });
            }
        }
    }

    /// Sends queued messages and waits until the server has accepted them.
    async fn flush(&mut self, outgoing: &mut mpsc::Receiver<Outgoing>) {
        outgoing.close();
        loop {
            while self.has_room()
                && let Ok(next) = outgoing.try_recv()
            {
                self.start(next);
            }
            if self.deliveries + self.cancellations == 0 && !self.is_initializing {
                return;
            }
            tokio::select! {
                Some(done) = self.running.join_next() => self.record_finished(done),
                _ = self.session.closed() => return,
            }
        }
    }
}

//! One Streamable HTTP session: sends messages, reads responses and event streams, notices its end.

mod requests;

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use reqwest::header::HeaderValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use toolcrib_wire::{Id, Message, Packet, Version, method};

use super::direct_exchange::{DirectResponse, ExchangeOutcome, StaticBoxFuture};
use super::event_stream::{
    EventStream, HEADROOM, StreamCursor, parse_after_headroom, parse_event, parse_message,
    settles_request,
};
use super::http_client::HttpClient;
use super::http_fault::HttpFault;
use super::http_response::{self, DRAIN_TIMEOUT, HttpResponse, ResponseContent};
use super::link::{CloseReason, Incoming, LinkFault, OutgoingKind, OutgoingMessage};
use super::session_state::SessionState;

/// Limit for the delivery of a notification or response.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit of calls that wait for the listen stream.
const LISTENER_WAIT: Duration = Duration::from_millis(250);

/// A listen stream that lasts this long resets the retry attempts.
const STABLE_STREAM_AGE: Duration = Duration::from_secs(5);

pub(super) struct HttpSession {
    http: HttpClient,
    incoming: mpsc::Sender<Incoming>,
    state: Mutex<SessionState>,
    /// The reason of the session's end.
    close_reason: watch::Sender<Option<CloseReason>>,
    /// Since when the listen stream is being opened.
    listener_pending: watch::Sender<Option<Instant>>,
}

impl HttpSession {
    pub(super) fn new(
        http: HttpClient,
        incoming: mpsc::Sender<Incoming>,
        configured: Option<HeaderValue>,
    ) -> Self {
        let state = SessionState::with_session_id(configured.map(into_sensitive));
        Self {
            http,
            incoming,
            state: Mutex::new(state),
            close_reason: watch::Sender::new(None),
            listener_pending: watch::Sender::new(None),
        }
    }

    /// Marks the listen stream as being opened.
    pub(super) fn mark_listener_pending(&self) {
        self.listener_pending.send_replace(Some(Instant::now()));
    }

    /// Waits a moment for the listen stream. A server may send requests on it during a call, and loses them while there
    /// is no stream.
    async fn wait_for_listener(&self) {
        let Some(since) = *self.listener_pending.borrow() else { return };
        let mut listener_pending = self.listener_pending.subscribe();
        // Some servers do not send the response head before the first event.
        let _ = timeout_at(since + LISTENER_WAIT, listener_pending.wait_for(Option::is_none)).await;
        self.listener_pending.send_replace(None);
    }

    /// Waits until the session has ended.
    pub(super) async fn closed(&self) -> CloseReason {
        let mut close_reason = self.close_reason.subscribe();
        let reason = close_reason.wait_for(Option::is_some).await;
        // The sender lives in the session itself, so `wait_for` does not fail.
        reason.ok().and_then(|reason| reason.clone()).unwrap_or(CloseReason::StreamEnded)
    }

    /// Closes idle connections. Never returns.
    pub(super) async fn close_idle_connections(&self) {
        self.http.close_idle_connections().await;
    }

    /// Sends a request and reads its response. `arrives` resolves when the response begins.
    pub(super) async fn send_request(
        self: Arc<Self>,
        message: OutgoingMessage,
        arrives: oneshot::Sender<()>,
    ) -> ExchangeOutcome {
        let OutgoingKind::Request { id, method, .. } = &message.kind else {
            return ExchangeOutcome::Forwarded;
        };
        if method::may_require_input(method) {
            self.wait_for_listener().await;
        }
        match self.exchange(&message, id, arrives).await {
            Ok(outcome) => outcome,
            Err(fault) => {
                let is_closed = matches!(fault, HttpFault::SessionGone);
                let fault = fault.into_link_fault("get an answer from the server");
                if is_closed {
                    self.close_with(fault.clone());
                }
                ExchangeOutcome::Failed(fault)
            }
        }
    }

    /// Sends the outcome to the inbox, for an exchange without a waiting caller.
    pub(super) async fn forward_outcome(&self, outcome: ExchangeOutcome, request: Id) {
        match outcome {
            ExchangeOutcome::Response(direct) => {
                let packet = Packet::One(Message::Response(direct.response));
                self.forward(Incoming::Packet { packet, on: Some(request) }).await;
                if let Some(remaining) = direct.remaining {
                    remaining.await;
                }
            }
            ExchangeOutcome::Failed(fault) => {
                self.forward(Incoming::Failed { request, fault }).await
            }
            ExchangeOutcome::Forwarded => {}
        }
    }

    /// Sends a message that has no response.
    pub(super) async fn deliver(&self, message: OutgoingMessage) {
        let fault = match self.post(&message).await {
            Ok((response, _)) if response.status().is_success() => {
                return self.http.response_body(response).drain().await;
            }
            Ok((response, had_session)) => self.http.read_refusal(response, had_session).await,
            Err(fault) => fault,
        };
        if matches!(fault, HttpFault::SessionGone) {
            return self.close_with(fault.into_link_fault("send to the server"));
        }
        self.http.log_undelivered(&fault);
    }

    /// Reads the listen stream, which carries server messages outside of requests. Returns if the server offers none.
    pub(super) async fn listen(&self) {
        let mut cursor = StreamCursor::default();
        let mut was_there = false;
        loop {
            let start = Instant::now();
            let accepted_rx = self.next_accepted_request();
            let opened = self.get_event_stream(&cursor).await;
            self.listener_pending.send_replace(None);
            let ended = match opened {
                Ok(response) => {
                    was_there = true;
                    self.forward_stream(response, &mut cursor).await
                }
                Err(fault) => Err(fault),
            };
            match ended {
                // Some servers answer every GET with 404. Calls show whether the session exists.
                Err(HttpFault::SessionGone) if !was_there => return,
                Err(fault @ HttpFault::SessionGone) => {
                    return self.close_with(fault.into_link_fault("listen to the server"));
                }
                // A person may have to log in first. The sender lives in the session itself, so `recv` does not fail
                // early.
                Err(fault) if fault.is_denial() => drop(accepted_rx.await),
                Err(fault) if !fault.is_transient() => return,
                _ if start.elapsed() > STABLE_STREAM_AGE => cursor.reset_attempts(),
                _ => {}
            }
            let Some(pause) = cursor.next_delay() else { return };
            sleep(pause).await;
        }
    }

    /// Resolves with the next request that the server accepts.
    fn next_accepted_request(&self) -> oneshot::Receiver<()> {
        let (accepted_tx, accepted_rx) = oneshot::channel();
        self.state().accepted = Some(accepted_tx);
        accepted_rx
    }

    /// Deletes the session on the server, if there is one.
    pub(super) async fn terminate(&self) {
        let (headers, had_session) = self.state().headers(&self.http);
        // Servers may refuse the DELETE. There is no alternative.
        if had_session && let Err(fault) = self.http.delete(headers).await {
            let error = self.http.mask().mask_excerpt(fault.to_string());
            tracing::debug!(%error, "the session could not be ended");
        }
    }

    async fn exchange(
        self: &Arc<Self>,
        request: &OutgoingMessage,
        id: &Id,
        arrives: oneshot::Sender<()>,
    ) -> Result<ExchangeOutcome, HttpFault> {
        let (response, had_session) = match is_initialize(request) {
            true => Box::pin(self.post_initialize(request)).await?,
            false => self.post(request).await?,
        };
        // The caller may not listen.
        let _ = arrives.send(());
        if !response.status().is_success() {
            return Box::pin(self.read_error_response(response, had_session, id)).await;
        }
        match ResponseContent::of_response(&response) {
            ResponseContent::Json => {
                let body = self
                    .http
                    .response_body(response)
                    .read_all(self.http.limits.size, HEADROOM)
                    .await?;
                let item = parse_after_headroom(body, id, &self.http.limits);
                // A JSON body is the whole response. If it does not answer the request, the call must not wait.
                let settles = settles_request(&item, id);
                let found = self.route_response(item, id, None).await;
                if settles { Ok(found) } else { Err(HttpFault::NoResponse) }
            }
            ResponseContent::Events => {
                let is_modern = request.version.as_ref().is_some_and(Version::is_modern);
                Box::pin(self.read_resumable_stream(response, id, !is_modern)).await
            }
            ResponseContent::Nothing => Err(HttpFault::NoResponse),
            ResponseContent::Other(found) => Err(HttpFault::ContentType(found)),
        }
    }

    /// Returns a response directly to its caller if the inbox is empty, so that no earlier message is overtaken.
    async fn route_response(
        &self,
        item: Incoming,
        id: &Id,
        rest: Option<StaticBoxFuture<()>>,
    ) -> ExchangeOutcome {
        let is_empty = self.incoming.capacity() == self.incoming.max_capacity();
        match item {
            Incoming::Packet { packet: Packet::One(Message::Response(response)), .. }
                if is_empty && response.id.as_ref() == Some(id) =>
            {
                ExchangeOutcome::Response(Box::new(DirectResponse { response, remaining: rest }))
            }
            item => {
                Box::pin(self.forward(item)).await;
                if let Some(rest) = rest {
                    rest.await;
                }
                ExchangeOutcome::Forwarded
            }
        }
    }

    /// Reads the response stream up to the response, and resumes a broken stream if possible.
    async fn read_resumable_stream(
        self: &Arc<Self>,
        response: HttpResponse,
        id: &Id,
        may_resume: bool,
    ) -> Result<ExchangeOutcome, HttpFault> {
        let mut cursor = StreamCursor::default();
        let mut broken = match self.read_until_response(response, id, &mut cursor).await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => HttpFault::NoResponse,
            Err(fault) => fault,
        };
        while may_resume
            && cursor.last_id().is_some()
            && !matches!(broken, HttpFault::ReadTimeout(_))
        {
            let Some(pause) = cursor.next_delay() else { break };
            sleep(pause).await;
            let read = match self.get_event_stream(&cursor).await {
                Ok(response) => self.read_until_response(response, id, &mut cursor).await,
                Err(fault) if fault.is_transient() => Err(fault),
                // The stream cannot be resumed, so the first error stays the reason. `SessionGone` would wrongly mean
                // that the request was not started.
                Err(_) => break,
            };
            match read {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => broken = HttpFault::NoResponse,
                Err(fault) => broken = fault,
            }
        }
        Err(broken)
    }

    /// Sends events to the inbox up to the response. Returns `None` if the stream ends without it.
    async fn read_until_response(
        self: &Arc<Self>,
        response: HttpResponse,
        id: &Id,
        cursor: &mut StreamCursor,
    ) -> Result<Option<ExchangeOutcome>, HttpFault> {
        let mut stream = self.event_stream(response, cursor);
        loop {
            let event = match stream.next().await {
                Ok(Some(event)) => event,
                ended => {
                    *cursor = stream.cursor;
                    return ended.map(|_| None);
                }
            };
            let on = Some(id.clone());
            let Some(item) = parse_event(event, on, &self.http.limits) else { continue };
            if settles_request(&item, id) {
                let rest = Arc::clone(self).forward_remaining(stream, id.clone());
                return Ok(Some(self.route_response(item, id, poll_once(rest)).await));
            }
            self.forward(item).await;
        }
    }

    /// Sends all events to the inbox.
    async fn forward_stream(
        &self,
        response: HttpResponse,
        cursor: &mut StreamCursor,
    ) -> Result<(), HttpFault> {
        let mut stream = self.event_stream(response, cursor);
        let ended = loop {
            match stream.next().await {
                Ok(Some(event)) => {
                    if let Some(item) = parse_event(event, None, &self.http.limits) {
                        self.forward(item).await;
                    }
                }
                ended => break ended.map(drop),
            }
        };
        *cursor = stream.cursor;
        ended
    }

    fn event_stream(&self, response: HttpResponse, cursor: &mut StreamCursor) -> EventStream {
        EventStream::new(self.http.response_body(response), self.http.limits, mem::take(cursor))
    }

    /// Forwards events after the response. A connection can be reused only after the end of its stream.
    async fn forward_remaining(self: Arc<Self>, mut stream: EventStream, on: Id) {
        let reading = async {
            while let Ok(Some(event)) = stream.next().await {
                if let Some(item) = parse_event(event, Some(on.clone()), &self.http.limits) {
                    self.forward(item).await;
                }
            }
        };
        let _ = timeout(DRAIN_TIMEOUT, reading).await;
    }

    /// Reads an error response: a JSON-RPC error, or only a status.
    async fn read_error_response(
        &self,
        response: HttpResponse,
        had_session: bool,
        id: &Id,
    ) -> Result<ExchangeOutcome, HttpFault> {
        let mut fault = self.status_fault(&response, had_session);
        let HttpFault::Status { excerpt, .. } = &mut fault else {
            self.http.response_body(response).drain().await;
            return Err(fault);
        };
        let body = self.http.response_body(response).read_prefix().await;
        *excerpt = http_response::excerpt(&body, self.http.mask());
        let item = parse_message(body, Some(id.clone()), &self.http.limits);
        match &item {
            Incoming::Packet { .. } if settles_request(&item, id) => {
                Ok(self.route_response(item, id, None).await)
            }
            _ => Err(fault),
        }
    }

    fn status_fault(&self, response: &HttpResponse, had_session: bool) -> HttpFault {
        HttpFault::from_response(
            response.status(),
            &response.headers(),
            had_session,
            self.http.url(),
        )
    }

    /// Ends the session. The first reason counts.
    fn close_with(&self, fault: LinkFault) {
        self.close_reason.send_if_modified(|close_reason| {
            let is_first = close_reason.is_none();
            close_reason.get_or_insert(CloseReason::Broken(fault));
            is_first
        });
    }

    /// Drops the item if the inbox is gone.
    async fn forward(&self, item: Incoming) {
        let _ = self.incoming.send(item).await;
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for HttpSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

fn is_initialize(message: &OutgoingMessage) -> bool {
    matches!(&message.kind, OutgoingKind::Request { method, .. } if &**method == method::INITIALIZE)
}

/// Polls the work once and returns it if it is not done. Mostly the stream ends with its last event.
fn poll_once(work: impl Future<Output = ()> + Send + 'static) -> Option<StaticBoxFuture<()>> {
    let mut work: StaticBoxFuture<()> = Box::pin(work);
    (&mut work).now_or_never().is_none().then_some(work)
}

/// The session id authenticates its holder, so logs must not show it.
fn into_sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

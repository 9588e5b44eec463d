//! State that callers and the tasks of a peer share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use toolcrib_wire::{CancelMethod, Channel, Era, Framing, Id, RawJson, Version, method};

use super::PeerSettings;
use super::anomaly::{Anomaly, AnomalyTally};
use super::error::PeerCallError;
use super::pending_calls::PendingCalls;
use crate::transport::{
    CloseReason, DirectTransport, Exchange, LinkInfo, Outbox, Outgoing, OutgoingKind,
    OutgoingMessage, SendError,
};

/// Limit of queued cancellations and responses for a slow server. Further ones are dropped, because a server that does
/// not read will not miss them.
const MAX_BACKLOG: usize = 4096;

/// Time limit for the close reason after the queue has closed.
const CLOSE_REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// Byte limit of the backlog: a response repeats the server's id, which may be long.
const MAX_BACKLOG_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct SharedState {
    pub(super) server: String,
    pub(super) link_info: LinkInfo,
    /// True if secrets in results are masked too.
    pub(super) masks_results: bool,
    pub(super) outbox: Outbox,
    pub(super) direct: Option<Arc<dyn DirectTransport>>,
    pub(super) closed: watch::Sender<Option<CloseReason>>,
    state: Mutex<LockedState>,
    backlogged: Notify,
}

/// State that has to be consistent, under one lock.
#[derive(Debug)]
pub(super) struct LockedState {
    pub(super) calls: PendingCalls,
    pub(super) anomalies: AnomalyTally,
    pub(super) version: Option<Version>,
    pub(super) framing: Option<Framing>,
    pub(super) last_received: Instant,
    backlog: VecDeque<Outgoing>,
    backlog_bytes: usize,
}

impl SharedState {
    pub(super) fn new(
        settings: &PeerSettings,
        link_info: LinkInfo,
        outbox: Outbox,
        direct: Option<Arc<dyn DirectTransport>>,
    ) -> Self {
        SharedState {
            server: settings.server.clone(),
            link_info,
            masks_results: settings.masks_results,
            outbox,
            direct,
            closed: watch::Sender::new(None),
            state: Mutex::new(LockedState {
                calls: PendingCalls::default(),
                anomalies: AnomalyTally::default(),
                version: None,
                framing: None,
                last_received: Instant::now(),
                backlog: VecDeque::new(),
                backlog_bytes: 0,
            }),
            backlogged: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LockedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Error for a closed link. A queue that closed without a reason was closed by the host.
    pub(super) fn closed_error(&self) -> PeerCallError {
        let reason = self.closed.borrow().clone();
        PeerCallError::Closed(reason.unwrap_or(CloseReason::HostClosed))
    }

    /// Error for a request that could not be sent. For a tool call it says so, because the call can be repeated
    /// elsewhere.
    pub(super) async fn unsent_error(&self, method_name: &str) -> PeerCallError {
        if method_name != method::TOOLS_CALL {
            return self.closed_error();
        }
        let mut closed = self.closed.subscribe();
        // The close reason follows the closed queue, and a caller that retries needs it.
        let reason = timeout(CLOSE_REASON_TIMEOUT, closed.wait_for(Option::is_some)).await;
        let reason = reason.ok().and_then(|reason| reason.ok().and_then(|reason| reason.clone()));
        PeerCallError::Unsent(reason.unwrap_or(CloseReason::HostClosed))
    }

    /// Sends without waiting; without capacity the message goes to the backlog.
    pub(super) fn enqueue(&self, outgoing: Outgoing) {
        let mut state = self.state();
        let outgoing = match state.backlog.is_empty() {
            true => match self.outbox.try_send(outgoing) {
                Err(unsent) if unsent.error == SendError::Full => unsent.outgoing,
                _ => return,
            },
            false => outgoing,
        };
        let bytes = state.backlog_bytes + size(&outgoing);
        if state.backlog.len() == MAX_BACKLOG || bytes > MAX_BACKLOG_BYTES {
            drop(state);
            self.record_anomaly(Anomaly::Unread, "");
            return;
        }
        state.backlog_bytes = bytes;
        state.backlog.push_back(outgoing);
        drop(state);
        self.backlogged.notify_one();
    }

    /// Sends the backlog in order until the link closes.
    pub(super) async fn send_backlog(&self) {
        loop {
            self.backlogged.notified().await;
            while !self.state().backlog.is_empty() {
                let Ok(room) = self.outbox.reserve().await else {
                    return;
                };
                let mut state = self.state();
                if let Some(next) = state.backlog.pop_front() {
                    state.backlog_bytes -= size(&next);
                    room.send(next);
                }
            }
        }
    }

    /// Abandons a call and notifies the server as its era requires, without waiting. Dropping the exchange closes it,
    /// which suffices if no notification is due.
    pub(super) fn abandon_call(
        &self,
        number: i64,
        method_name: &str,
        version: Option<&Version>,
        cancel_message: impl FnOnce(Id) -> RawJson,
        exchange: Option<Exchange>,
    ) {
        // `initialize` must not be cancelled.
        let may_notify = method_name != method::INITIALIZE;
        if !self.state().calls.abandon(number, may_notify) {
            return;
        }
        let (id, channel) = (Id::Number(number), self.link_info.channel);
        let era = version.and_then(Version::era).unwrap_or(Era::Legacy);
        let is_notified = era.cancel_method(channel) == CancelMethod::Notify && may_notify;
        if let Some(exchange) = exchange {
            if !is_notified {
                return;
            }
            self.enqueue(Outgoing::Adopt(id.clone(), exchange));
        }
        if is_notified {
            self.enqueue(Outgoing::Message(OutgoingMessage {
                raw: cancel_message(id.clone()),
                kind: OutgoingKind::Notification { method: method::CANCELLED.into() },
                version: version.cloned(),
                headers: Vec::new(),
            }));
        }
        if channel == Channel::Http {
            self.enqueue(Outgoing::Abandon(id));
        }
    }

    /// Counts a violation and logs the first of its kind without the server's text. Returns true for the first.
    pub(super) fn record_anomaly(&self, anomaly: Anomaly, example: &str) -> bool {
        let shown = || self.link_info.mask.mask_excerpt(example.to_owned());
        let first = self.state().anomalies.count(anomaly, shown);
        if first {
            tracing::warn!(server = %self.server, kind = anomaly.code(), "protocol violation by the server");
        }
        first
    }

    /// Claims the outcome for the caller. Returns false if the call was completed before.
    pub(super) fn claim_outcome(&self, number: i64) -> bool {
        let mut state = self.state();
        state.last_received = Instant::now();
        state.calls.remove_pending(number)
    }

    /// Closes the peer: fails all calls with the reason, and unsent ones as unsent.
    pub(super) fn close(&self, reason: &CloseReason, unsent: Vec<Id>) {
        let first = self.closed.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert_with(|| reason.clone());
            first
        });
        if !first {
            return;
        }
        let mut state = self.state();
        for id in unsent {
            if let Id::Number(number) = id {
                state.calls.complete(number, Err(PeerCallError::Unsent(reason.clone())));
            }
        }
        for number in state.calls.numbers() {
            state.calls.complete(number, Err(PeerCallError::Closed(reason.clone())));
        }
        state.backlog.clear();
        state.backlog_bytes = 0;
    }
}

fn size(outgoing: &Outgoing) -> usize {
    match outgoing {
        Outgoing::Message(message) => message.raw.text().len(),
        Outgoing::Abandon(_) | Outgoing::Adopt(..) | Outgoing::RunRemaining(_) => 0,
    }
}

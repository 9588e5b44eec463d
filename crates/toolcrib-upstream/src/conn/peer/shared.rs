//! What the callers of a conversation and its tasks have in common.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use toolcrib_wire::{Cancel, Channel, Era, Framing, Id, Raw, Version, method};

use super::PeerSettings;
use super::calls::Calls;
use super::error::CallError;
use super::oddity::{Odd, Tally};
use crate::transport::{
    CloseReason, Direct, Exchange, Facts, Outbox, Outgoing, Outward, SendError, What,
};

/// Cancellations and answers that wait because the server reads too slowly. More are dropped: a server that
/// does not read will not miss them.
const BACKLOG: usize = 4096;

/// How long the reason may come after the end of the queue.
const CLOSING: Duration = Duration::from_secs(1);

/// An answer repeats the server's id, which may be long: a backlog has a size as well.
const BACKLOG_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) server: String,
    pub(super) facts: Facts,
    /// Whether results are masked, too.
    pub(super) masks_results: bool,
    pub(super) outbox: Outbox,
    pub(super) direct: Option<Arc<dyn Direct>>,
    pub(super) closed: watch::Sender<Option<CloseReason>>,
    state: Mutex<State>,
    backlogged: Notify,
}

/// All that must agree, behind one lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) calls: Calls,
    pub(super) tally: Tally,
    pub(super) version: Option<Version>,
    pub(super) framing: Option<Framing>,
    pub(super) heard: Instant,
    backlog: VecDeque<Outgoing>,
    backlog_bytes: usize,
}

impl Shared {
    pub(super) fn new(
        settings: &PeerSettings,
        facts: Facts,
        outbox: Outbox,
        direct: Option<Arc<dyn Direct>>,
    ) -> Self {
        Shared {
            server: settings.server.clone(),
            facts,
            masks_results: settings.masks_results,
            outbox,
            direct,
            closed: watch::Sender::new(None),
            state: Mutex::new(State {
                calls: Calls::default(),
                tally: Tally::default(),
                version: None,
                framing: None,
                heard: Instant::now(),
                backlog: VecDeque::new(),
                backlog_bytes: 0,
            }),
            backlogged: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing can be sent any more. A queue that was closed before its reason is known was closed by us.
    pub(super) fn why_closed(&self) -> CallError {
        let reason = self.closed.borrow().clone();
        CallError::Closed(reason.unwrap_or(CloseReason::Asked))
    }

    /// Why a request could not be sent. A tool call says that it was not: it can be made again elsewhere.
    pub(super) async fn why_unsent(&self, called: &str) -> CallError {
        if called != method::TOOLS_CALL {
            return self.why_closed();
        }
        let mut closed = self.closed.subscribe();
        // The end follows the end of the queue; whoever tries again must know of it.
        let reason = timeout(CLOSING, closed.wait_for(Option::is_some)).await;
        let reason = reason.ok().and_then(|reason| reason.ok().and_then(|reason| reason.clone()));
        CallError::Unsent(reason.unwrap_or(CloseReason::Asked))
    }

    /// Sends without waiting: at once if there is room, else as soon as there is.
    pub(super) fn post(&self, outgoing: Outgoing) {
        let mut state = self.state();
        let outgoing = match state.backlog.is_empty() {
            true => match self.outbox.try_send(outgoing) {
                Err(unsent) if unsent.error == SendError::Full => unsent.outgoing,
                _ => return,
            },
            false => outgoing,
        };
        let bytes = state.backlog_bytes + size(&outgoing);
        if state.backlog.len() == BACKLOG || bytes > BACKLOG_BYTES {
            drop(state);
            self.odd(Odd::Unread, "");
            return;
        }
        state.backlog_bytes = bytes;
        state.backlog.push_back(outgoing);
        drop(state);
        self.backlogged.notify_one();
    }

    /// Brings the backlog out, in order, until the link is closed.
    pub(super) async fn carry(&self) {
        loop {
            self.backlogged.notified().await;
            while !self.state().backlog.is_empty() {
                let Ok(room) = self.outbox.room().await else {
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

    /// Gives a call up and tells the server in the way its era asks for; does not wait. An exchange that is given
    /// along is closed by being dropped, which is how it is done where nothing is to be told.
    pub(super) fn give_up(
        &self,
        number: i64,
        called: &str,
        version: Option<&Version>,
        told: impl FnOnce(Id) -> Raw,
        exchange: Option<Exchange>,
    ) {
        // The one request that must not be cancelled.
        let may_tell = called != method::INITIALIZE;
        if !self.state().calls.give_up(number, may_tell) {
            return;
        }
        let (id, channel) = (Id::Number(number), self.facts.channel);
        let era = version.and_then(Version::era).unwrap_or(Era::Legacy);
        let is_told = era.cancel(channel) == Cancel::Notify && may_tell;
        if let Some(exchange) = exchange {
            if !is_told {
                return;
            }
            self.post(Outgoing::Adopt(id.clone(), exchange));
        }
        if is_told {
            self.post(Outgoing::Message(Outward {
                raw: told(id.clone()),
                what: What::Notification { method: method::CANCELLED.into() },
                version: version.cloned(),
                headers: Vec::new(),
            }));
        }
        if channel == Channel::Http {
            self.post(Outgoing::Abandon(id));
        }
    }

    /// Counts something odd and logs the first of its kind; what the server wrote stays out of the log. True if
    /// it is the first.
    pub(super) fn odd(&self, odd: Odd, example: &str) -> bool {
        let shown = || self.facts.mask.mask_excerpt(example.to_owned());
        let first = self.state().tally.count(odd, shown);
        if first {
            tracing::warn!(server = %self.server, kind = odd.code(), "the server does something odd");
        }
        first
    }

    /// The caller has found himself how his call ends; false if somebody has ended it before.
    pub(super) fn found(&self, number: i64) -> bool {
        let mut state = self.state();
        state.heard = Instant::now();
        state.calls.found(number)
    }

    /// Ends the conversation: everybody who waits learns why, and whether his call was never sent.
    pub(super) fn end(&self, reason: &CloseReason, unsent: Vec<Id>) {
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
                state.calls.settle(number, Err(CallError::Unsent(reason.clone())));
            }
        }
        for number in state.calls.numbers() {
            state.calls.settle(number, Err(CallError::Closed(reason.clone())));
        }
        state.backlog.clear();
        state.backlog_bytes = 0;
    }
}

fn size(outgoing: &Outgoing) -> usize {
    match outgoing {
        Outgoing::Message(message) => message.raw.text().len(),
        Outgoing::Abandon(_) | Outgoing::Adopt(..) | Outgoing::Finish(_) => 0,
    }
}

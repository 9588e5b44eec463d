//! Pending and abandoned calls of one peer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use toolcrib_wire::{Body, Id};

use super::NotificationSink;
use super::anomaly::Anomaly;
use super::call_deadline::DeadlineTimer;
use super::error::PeerCallError;
use super::server_requests::CandidateCalls;

/// Limit of remembered abandoned calls, which tell late responses from duplicates.
const MAX_ABANDONED: usize = 1024;

pub(super) type CallOutcome = Result<Body, PeerCallError>;

/// Calls by id. Ids count up from one.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    last: i64,
    pending: BTreeMap<i64, PendingCall>,
    abandoned: VecDeque<AbandonedCall>,
}

/// One pending call.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) response_sender: oneshot::Sender<CallOutcome>,
    pub(super) timer: Arc<DeadlineTimer>,
    pub(super) listener: Option<Arc<dyn NotificationSink>>,
    pub(super) is_exclusive: bool,
    pub(super) tag: Option<u64>,
    pub(super) acknowledged: Option<mpsc::Sender<()>>,
}

impl PendingCall {
    /// Returns the call as a candidate origin of a server request.
    pub(super) fn candidate(&self) -> (Option<u64>, Arc<DeadlineTimer>) {
        (self.tag, Arc::clone(&self.timer))
    }
}

/// A call that its caller has dropped.
#[derive(Debug)]
struct AbandonedCall {
    number: i64,
    /// True if a cancellation was sent. `initialize` is never cancelled.
    was_server_notified: bool,
}

impl PendingCalls {
    pub(super) fn next_number(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    pub(super) fn insert(&mut self, id: i64, call: PendingCall) {
        self.pending.insert(id, call);
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Number of the pending call with this id, and whether the id was a string instead of a number.
    pub(super) fn find_pending(&self, id: &Id) -> Option<(i64, bool)> {
        let (number, as_text) = parse_number(id)?;
        self.pending.contains_key(&number).then_some((number, as_text))
    }

    /// The pending call of a progress token or stream.
    pub(super) fn get(&self, id: &Id) -> Option<&PendingCall> {
        self.pending.get(&self.find_pending(id)?.0)
    }

    /// Returns whether a request with this id was ever sent.
    pub(super) fn was_issued(&self, id: &Id) -> bool {
        parse_number(id).is_some_and(|(number, _)| (1..=self.last).contains(&number))
    }

    /// Receiver of a notification outside of all call streams: the first exclusive call.
    pub(super) fn exclusive_call(&self) -> Option<&PendingCall> {
        self.pending.values().find(|it| it.is_exclusive && it.listener.is_some())
    }

    /// Completes a call. The outcome is discarded if the caller has just dropped it.
    pub(super) fn complete(&mut self, number: i64, outcome: CallOutcome) -> bool {
        let Some(call) = self.pending.remove(&number) else {
            return false;
        };
        // Drops the sink first, so that its reader sees the end before the caller continues.
        drop(call.listener);
        let _ = call.response_sender.send(outcome);
        true
    }

    /// Removes a call whose caller knows the outcome. Returns whether it was pending.
    pub(super) fn remove_pending(&mut self, number: i64) -> bool {
        self.pending.remove(&number).is_some()
    }

    /// Removes a call that its caller has dropped. Returns whether it was pending.
    pub(super) fn abandon(&mut self, number: i64, was_server_notified: bool) -> bool {
        let was_pending = self.pending.remove(&number).is_some();
        if was_pending {
            if self.abandoned.len() == MAX_ABANDONED {
                self.abandoned.pop_front();
            }
            self.abandoned.push_back(AbandonedCall { number, was_server_notified });
        }
        was_pending
    }

    /// Classifies a response without a pending call. Returns `None` if the server could not know better.
    pub(super) fn classify_stray(&mut self, id: &Id) -> Option<Anomaly> {
        let Some((number, _)) = parse_number(id) else {
            return Some(Anomaly::UnknownId);
        };
        if let Some(index) = self.abandoned.iter().position(|it| it.number == number) {
            let late = self.abandoned.remove(index).is_some_and(|it| it.was_server_notified);
            return late.then_some(Anomaly::Late);
        }
        Some(if (1..=self.last).contains(&number) {
            Anomaly::Duplicate
        } else {
            Anomaly::UnknownId
        })
    }

    /// Numbers of all pending calls.
    pub(super) fn numbers(&mut self) -> Vec<i64> {
        self.pending.keys().copied().collect()
    }

    /// The only pending call, if no other call could match a response.
    pub(super) fn single_pending(&self) -> Option<i64> {
        let mut pending = self.pending.keys().copied();
        let first = pending.next().filter(|_| self.abandoned.is_empty())?;
        pending.next().is_none().then_some(first)
    }

    pub(super) fn candidates(&self) -> CandidateCalls {
        self.pending.values().map(PendingCall::candidate).collect()
    }
}

fn parse_number(id: &Id) -> Option<(i64, bool)> {
    match id {
        Id::Number(number) => Some((*number, false)),
        Id::Text(text) => Some((text.parse().ok()?, true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::peer::call_deadline::CallTimeouts;

    fn pending_call() -> PendingCall {
        PendingCall {
            response_sender: oneshot::channel().0,
            timer: DeadlineTimer::start(CallTimeouts::default()),
            listener: None,
            is_exclusive: false,
            tag: None,
            acknowledged: None,
        }
    }

    #[tokio::test]
    async fn stray_responses_are_classified() {
        let mut calls = PendingCalls::default();
        for _ in 0..3 {
            let id = calls.next_number();
            calls.insert(id, pending_call());
        }
        assert!(calls.complete(1, Err(PeerCallError::EndedByServer)));
        assert!(calls.abandon(2, true));
        assert_eq!(calls.find_pending(&Id::from(3)), Some((3, false)));
        assert_eq!(calls.find_pending(&Id::from("3")), Some((3, true)));
        assert!(calls.was_issued(&Id::from(1)) && calls.was_issued(&Id::from("3")));
        assert!(!calls.was_issued(&Id::from(4)) && !calls.was_issued(&Id::from("x")));
        for (id, expected) in [
            (Id::from(1), Anomaly::Duplicate),
            (Id::from(2), Anomaly::Late),
            (Id::from(2), Anomaly::Duplicate),
            (Id::from(4), Anomaly::UnknownId),
            (Id::from(0), Anomaly::UnknownId),
            (Id::from("x"), Anomaly::UnknownId),
        ] {
            assert_eq!(calls.classify_stray(&id), Some(expected), "{id}");
        }
        assert!(calls.abandon(3, false));
        assert_eq!(calls.classify_stray(&Id::from(3)), None, "no cancellation was sent");
    }

    #[tokio::test]
    async fn abandoned_calls_are_bounded() {
        let mut calls = PendingCalls::default();
        for _ in 0..MAX_ABANDONED * 2 {
            let id = calls.next_number();
            calls.insert(id, pending_call());
            calls.abandon(id, true);
        }
        assert_eq!((calls.len(), calls.abandoned.len()), (0, MAX_ABANDONED));
    }
}

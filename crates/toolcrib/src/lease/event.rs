//! What can happen to the sessions of a server, and what is to be done about it.

use std::sync::Arc;

use toolcrib_wire::Era;

use super::instance::{InstanceId, Ticket};

/// What can happen.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Take {
        ticket: Ticket,
        dialog: Arc<str>,
        /// Whose dialog it is; nobody's in particular where nothing is said.
        principal: Option<Arc<str>>,
        era: Era,
    },
    /// Whoever waited does not wait any more.
    GiveUp(Ticket),
    /// One call on it has ended.
    Done(InstanceId),
    Made(InstanceId),
    Failed(InstanceId),
    /// A session that is open and on which nothing was called.
    Offer(InstanceId, Era),
    /// It ended without being told to.
    Lost(InstanceId),
    /// Its end is complete.
    Gone(InstanceId),
    /// The dialog does not need its lease any more. Calls in flight end in peace.
    Release(Arc<str>),
    /// Nobody is left who could want an answer.
    DialogEnded(Arc<str>),
    /// All sessions end at once, calls in flight or not.
    EndAll,
    /// No new calls; those in flight and those that wait are served, then all ends.
    Retire,
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Grant {
        ticket: Ticket,
        instance: InstanceId,
    },
    Refuse {
        ticket: Ticket,
        why: Refusal,
    },
    Make {
        instance: InstanceId,
        dialog: Option<Arc<str>>,
        era: Era,
    },
    /// Closes it, or stops its opening.
    End(InstanceId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Full,
    Failed,
    Retired,
    DialogEnded,
}

//! Events and effects of the lease table.

use std::sync::Arc;

use toolcrib_wire::Era;

use super::session_entry::{SessionId, WaiterId};

/// An input of the lease table.
#[derive(Debug, Clone)]
pub(super) enum LeaseEvent {
    Acquire {
        waiter_id: WaiterId,
        dialog: Arc<str>,
        /// The principal of the dialog. `None` if it has none.
        principal: Option<Arc<str>>,
        era: Era,
    },
    /// A waiting caller has given up.
    Cancel(WaiterId),
    /// A call on the session has ended.
    CallEnded(SessionId),
    Opened(SessionId),
    OpenFailed(SessionId),
    /// The session ended unexpectedly.
    Lost(SessionId),
    /// The session is completely closed.
    Closed(SessionId),
    /// The dialog gives up its lease. Calls in flight may finish.
    Release(Arc<str>),
    /// The dialog has ended, so no caller waits for results.
    DialogEnded(Arc<str>),
    /// Closes all sessions at once, including those with calls in flight.
    CloseAll,
    /// Refuses new calls. Calls in flight and waiting calls are served, then all sessions are closed.
    Retire,
    Tick,
}

/// An output of the lease table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeaseEffect {
    Grant {
        waiter_id: WaiterId,
        session_id: SessionId,
    },
    Refuse {
        waiter_id: WaiterId,
        reason: RefusalReason,
    },
    Open {
        session_id: SessionId,
        dialog: Option<Arc<str>>,
        era: Era,
    },
    /// Closes the session or aborts its opening.
    Close(SessionId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalReason {
    Full,
    Failed,
    Retired,
    DialogEnded,
}

//! One session of a server: its entry in the lease table and its public lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_wire::Era;

/// Id of a session, from the request to open it until it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(super) u64);

/// A dialog's lease of a session, as shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The server's id.
    pub server: Arc<str>,
    /// The dialog that holds the session.
    pub dialog: Arc<str>,
    /// The start of the lease.
    pub since: Instant,
    /// The last use of the session.
    pub last_use: Instant,
    /// The idle timeout. `None` means no timeout.
    pub idle_after: Option<Duration>,
    /// The number of calls in flight.
    pub in_flight: u32,
}

/// The holder of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SessionHolder {
    /// All dialogs of this era.
    Shared(Era),
    Dialog(Arc<str>),
    /// One call of a dialog.
    Call(WaiterId, Arc<str>),
}

/// Id of a call that waits for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WaiterId(pub(super) u64);

#[derive(Debug, Clone)]
pub(super) struct SessionEntry {
    pub(super) holder: SessionHolder,
    /// The principal of the dialog that holds the session.
    pub(super) principal: Option<Arc<str>>,
    pub(super) phase: SessionPhase,
    pub(super) since: Instant,
    pub(super) last_use: Instant,
    pub(super) in_flight: u32,
    /// True if the dialog was reminded to release the session.
    pub(super) is_reminded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionPhase {
    Opening,
    Open,
    /// Released; closed after its last call.
    Draining,
    /// The session is being closed, or its opening is being aborted.
    Closing,
}

impl SessionHolder {
    pub(super) fn dialog(&self) -> Option<&Arc<str>> {
        match self {
            Self::Dialog(dialog) | Self::Call(_, dialog) => Some(dialog),
            Self::Shared(_) => None,
        }
    }
}

impl SessionEntry {
    pub(super) fn new(holder: SessionHolder, phase: SessionPhase, now: Instant) -> Self {
        Self {
            holder,
            principal: None,
            phase,
            since: now,
            last_use: now,
            in_flight: 0,
            is_reminded: false,
        }
    }

    /// Returns the time at which the session reaches the idle timeout.
    pub(super) fn idle_deadline(&self, idle: Duration) -> Option<Instant> {
        let is_idle = self.phase == SessionPhase::Open && self.in_flight == 0 && !idle.is_zero();
        self.last_use.checked_add(idle).filter(|_| is_idle)
    }
}

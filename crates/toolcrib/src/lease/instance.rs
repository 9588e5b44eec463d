//! One session of a server as the book knows it, and what others may see of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_wire::Era;

/// One session of a server, from the order to open it until its end is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub(super) u64);

/// A dialog's right to a session, as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub server: Arc<str>,
    pub dialog: Arc<str>,
    pub since: Instant,
    pub last_use: Instant,
    /// When it ends if it is not used; never, where nothing is said.
    pub idle_after: Option<Duration>,
    pub in_flight: u32,
}

/// Whose session it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    /// Everybody's who speaks that era.
    Shared(Era),
    Dialog(Arc<str>),
    /// One call's, which belongs to a dialog.
    Call(Ticket, Arc<str>),
    /// Nobody's yet: the lists were read in it, and nothing was called on it.
    Nobody,
}

/// One call that wants a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(pub(super) u64);

#[derive(Debug, Clone)]
pub(super) struct Instance {
    pub(super) holder: Holder,
    /// Whose dialog holds it.
    pub(super) principal: Option<Arc<str>>,
    pub(super) era: Era,
    pub(super) phase: Phase,
    pub(super) since: Instant,
    pub(super) last_use: Instant,
    pub(super) in_flight: u32,
    /// Whether its dialog was told to give it back.
    pub(super) is_reminded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Making,
    Live,
    /// Nobody's any more; it ends when its last call does.
    Leaving,
    /// It is being closed, or its opening is being stopped.
    Ending,
}

impl Holder {
    pub(super) fn dialog(&self) -> Option<&Arc<str>> {
        match self {
            Self::Dialog(dialog) | Self::Call(_, dialog) => Some(dialog),
            Self::Shared(_) | Self::Nobody => None,
        }
    }
}

impl Instance {
    pub(super) fn new(holder: Holder, era: Era, phase: Phase, now: Instant) -> Self {
        Self {
            holder,
            principal: None,
            era,
            phase,
            since: now,
            last_use: now,
            in_flight: 0,
            is_reminded: false,
        }
    }

    /// When it has been idle for too long.
    pub(super) fn due(&self, idle: Duration) -> Option<Instant> {
        let rests = self.phase == Phase::Live && self.in_flight == 0 && !idle.is_zero();
        self.last_use.checked_add(idle).filter(|_| rests)
    }
}

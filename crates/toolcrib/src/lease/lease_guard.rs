//! The right to make one call on a session.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::event::LeaseEvent;
use super::lease_pool::PoolInner;
use super::session_entry::SessionId;

/// A session for the duration of one call. Dropping the guard ends the call but not the lease.
pub(crate) struct LeaseGuard<T: Clone, E: Error + Clone + 'static> {
    pub(super) session: T,
    pub(super) session_id: SessionId,
    /// True if the dialog was reminded of the lease before this call.
    pub(super) is_reminded: bool,
    pub(super) shared: Arc<PoolInner<T, E>>,
}

impl<T: Clone, E: Error + Clone + 'static> LeaseGuard<T, E> {
    /// Returns the id of the session.
    pub(crate) fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Returns whether the dialog was reminded of the lease before this call.
    pub(crate) fn is_reminded(&self) -> bool {
        self.is_reminded
    }

    /// Records that this call reminds its dialog of the lease. Returns true once per lease.
    pub(crate) fn mark_reminded(&self) -> bool {
        self.shared.mark_reminded(self.session_id)
    }
}

impl<T: Clone, E: Error + Clone + 'static> Deref for LeaseGuard<T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.session
    }
}

impl<T: Clone, E: Error + Clone + 'static> Drop for LeaseGuard<T, E> {
    fn drop(&mut self) {
        self.shared.apply(LeaseEvent::CallEnded(self.session_id));
    }
}

impl<T: Clone, E: Error + Clone + 'static> fmt::Debug for LeaseGuard<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGuard").field("session_id", &self.session_id).finish_non_exhaustive()
    }
}

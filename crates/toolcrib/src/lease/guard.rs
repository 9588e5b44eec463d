//! The right to make one call on a session.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::event::Event;
use super::instance::InstanceId;
use super::shared::Shared;

/// A session for the length of one call. Dropping it ends the call; the lease goes on.
pub struct Guard<T: Clone, E: Error + Clone + 'static> {
    pub(super) session: T,
    pub(super) instance: InstanceId,
    /// Whether the dialog was reminded of the lease before this call.
    pub(super) is_reminded: bool,
    pub(super) shared: Arc<Shared<T, E>>,
}

impl<T: Clone, E: Error + Clone + 'static> Guard<T, E> {
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// Whether the dialog was reminded of the lease before this call.
    pub fn is_reminded(&self) -> bool {
        self.is_reminded
    }

    /// Notes that this call reminds its dialog of the lease. True once for each lease.
    pub fn remind(&self) -> bool {
        self.shared.remind(self.instance)
    }
}

impl<T: Clone, E: Error + Clone + 'static> Deref for Guard<T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.session
    }
}

impl<T: Clone, E: Error + Clone + 'static> Drop for Guard<T, E> {
    fn drop(&mut self) {
        self.shared.apply(Event::Done(self.instance));
    }
}

impl<T: Clone, E: Error + Clone + 'static> fmt::Debug for Guard<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("instance", &self.instance).finish_non_exhaustive()
    }
}

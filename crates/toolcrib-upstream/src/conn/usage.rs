//! Usage count of a connection, which callers update and the task polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Number of callers that use or await the session, and the time of the last release. Calls neither wait for the task
/// nor wake it, unless the task asked for that.
#[derive(Debug)]
pub(super) struct SessionUsage {
    started_at: Instant,
    count: AtomicU32,
    /// Microseconds since `started_at`.
    last_use: AtomicU64,
    /// True if the task waits for the last release.
    is_waited_for: AtomicBool,
    all_released: Notify,
    /// True if one dialog has the connection for itself.
    is_lent: AtomicBool,
}

/// One active use. Dropping it ends the use.
#[derive(Debug)]
pub(super) struct UseGuard(Arc<SessionUsage>);

impl SessionUsage {
    pub(super) fn new(started_at: Instant) -> Self {
        SessionUsage {
            started_at,
            count: AtomicU32::new(0),
            last_use: AtomicU64::new(0),
            is_waited_for: AtomicBool::new(false),
            all_released: Notify::new(),
            is_lent: AtomicBool::new(false),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Sets whether the connection is lent to one dialog. Returns the previous value.
    pub(super) fn set_lent(&self, lent: bool) -> bool {
        self.is_lent.swap(lent, Ordering::SeqCst)
    }

    pub(super) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::SeqCst)
    }

    /// Returns the number of uses and the time of the last release. A later last release notifies the task.
    pub(super) fn observe(&self) -> (u32, Duration) {
        // In this order: a release before the count is not counted, and a release after it notifies.
        self.is_waited_for.store(true, Ordering::SeqCst);
        let count = self.count();
        if count == 0 {
            self.is_waited_for.store(false, Ordering::SeqCst);
        }
        (count, Duration::from_micros(self.last_use.load(Ordering::SeqCst)))
    }

    /// Waits for the last release.
    pub(super) async fn all_released(&self) {
        self.all_released.notified().await;
    }
}

impl UseGuard {
    pub(super) fn new(usage: &Arc<SessionUsage>) -> Self {
        usage.count.fetch_add(1, Ordering::SeqCst);
        UseGuard(Arc::clone(usage))
    }
}

impl Drop for UseGuard {
    fn drop(&mut self) {
        let now = self.0.started_at.elapsed().as_micros();
        self.0.last_use.fetch_max(u64::try_from(now).unwrap_or(u64::MAX), Ordering::SeqCst);
        let was_last = self.0.count.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.0.is_waited_for.load(Ordering::SeqCst) {
            self.0.all_released.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn last_release_notifies_only_a_waiting_task() {
        let usage = Arc::new(SessionUsage::new(Instant::now()));
        drop(UseGuard::new(&usage));
        assert!(usage.all_released().now_or_never().is_none(), "the task did not wait");

        let (first, second) = (UseGuard::new(&usage), UseGuard::new(&usage));
        tokio::time::advance(Duration::from_secs(3)).await;
        drop(first);
        assert_eq!(usage.observe(), (1, Duration::from_secs(3)));
        assert!(usage.all_released().now_or_never().is_none(), "one use is left");
        drop(second);
        assert!(usage.all_released().now_or_never().is_some());
        assert_eq!(usage.observe().0, 0);
    }
}

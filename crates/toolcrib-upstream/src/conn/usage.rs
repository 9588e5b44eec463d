//! Who uses a session: counted by its users, looked up by its task when it matters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How many use the session or wait for it, and when the last use ended. No call waits for the task, nor wakes it
/// unless it has asked to be told.
#[derive(Debug)]
pub(super) struct Usage {
    began: Instant,
    count: AtomicU32,
    /// Microseconds since it began.
    last: AtomicU64,
    /// Whether the task wants to know when nobody uses it any more.
    is_watched: AtomicBool,
    unused: Notify,
    /// Whether one dialog has the connection for itself.
    is_lent: AtomicBool,
}

/// One use.
#[derive(Debug)]
pub(super) struct Used(Arc<Usage>);

impl Usage {
    pub(super) fn new(began: Instant) -> Self {
        Usage {
            began,
            count: AtomicU32::new(0),
            last: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            unused: Notify::new(),
            is_lent: AtomicBool::new(false),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Lends the connection, or takes it back; whether it was lent before.
    pub(super) fn lend(&self, lent: bool) -> bool {
        self.is_lent.swap(lent, Ordering::SeqCst)
    }

    pub(super) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::SeqCst)
    }

    /// How many use it, and when the last one that ended did. The end of the uses that are counted will be told.
    pub(super) fn look(&self) -> (u32, Duration) {
        // In this order: whoever ends before the count is taken is not in it, and whoever ends after it tells.
        self.is_watched.store(true, Ordering::SeqCst);
        let count = self.count();
        if count == 0 {
            self.is_watched.store(false, Ordering::SeqCst);
        }
        (count, Duration::from_micros(self.last.load(Ordering::SeqCst)))
    }

    /// Waits for the end that was to be told.
    pub(super) async fn unused(&self) {
        self.unused.notified().await;
    }
}

impl Used {
    pub(super) fn new(usage: &Arc<Usage>) -> Self {
        usage.count.fetch_add(1, Ordering::SeqCst);
        Used(Arc::clone(usage))
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let now = self.0.began.elapsed().as_micros();
        self.0.last.fetch_max(u64::try_from(now).unwrap_or(u64::MAX), Ordering::SeqCst);
        let was_last = self.0.count.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.0.is_watched.load(Ordering::SeqCst) {
            self.0.unused.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_an_end_that_is_waited_for_is_told() {
        let usage = Arc::new(Usage::new(Instant::now()));
        drop(Used::new(&usage));
        assert!(usage.unused().now_or_never().is_none(), "nobody asked");

        let (first, second) = (Used::new(&usage), Used::new(&usage));
        tokio::time::advance(Duration::from_secs(3)).await;
        drop(first);
        assert_eq!(usage.look(), (1, Duration::from_secs(3)));
        assert!(usage.unused().now_or_never().is_none(), "one is left");
        drop(second);
        assert!(usage.unused().now_or_never().is_some());
        assert_eq!(usage.look().0, 0);
    }
}

//! Keeps a thread awake while it waits for a fast response, because a wakeup takes longer than the response.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::yield_now;

/// Maximum time of busy polling, and of a wait that counts as short.
const BUSY_POLL_LIMIT: Duration = Duration::from_micros(200);

/// Keeps one thread awake while a connection on it waits for a fast response. Clones control the same thread.
#[derive(Clone, Debug)]
pub struct BusyPoll(Arc<BusyPollState>);

#[derive(Debug)]
struct BusyPollState {
    started: Instant,
    /// End of the busy polling, in nanoseconds since `started`.
    deadline: AtomicU64,
    requested: Notify,
}

/// Tracks the waits of one connection and expects the next wait to be like the last one.
#[derive(Debug, Default)]
pub(super) struct WaitTracker {
    busy_poll: Option<BusyPoll>,
    since: Option<Instant>,
    was_quick: bool,
}

impl Default for BusyPoll {
    fn default() -> Self {
        let (deadline, requested) = (AtomicU64::new(0), Notify::new());
        BusyPoll(Arc::new(BusyPollState { started: Instant::now(), deadline, requested }))
    }
}

impl BusyPoll {
    /// Busy-polls on request. Never returns; the owner of the thread drops it.
    pub(super) async fn run(&self) {
        loop {
            self.0.requested.notified().await;
            while self.deadline() > self.elapsed_nanos() {
                // The scheduler polls for I/O before this task continues.
                yield_now().await;
            }
        }
    }

    fn request(&self) {
        let now = self.elapsed_nanos();
        let before = self.0.deadline.swap(now + nanos(BUSY_POLL_LIMIT), Ordering::Relaxed);
        if before <= now {
            self.0.requested.notify_one();
        }
    }

    fn deadline(&self) -> u64 {
        self.0.deadline.load(Ordering::Relaxed)
    }

    fn elapsed_nanos(&self) -> u64 {
        nanos(self.0.started.elapsed())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

impl WaitTracker {
    /// Without a `BusyPoll` the tracker does nothing.
    pub(super) fn new(busy_poll: Option<BusyPoll>) -> Self {
        WaitTracker { busy_poll, ..WaitTracker::default() }
    }

    /// Starts a wait, unless one is running.
    pub(super) fn start_wait(&mut self) {
        let Some(busy_poll) = self.busy_poll.as_ref().filter(|_| self.since.is_none()) else {
            return;
        };
        self.since = Some(Instant::now());
        if self.was_quick {
            busy_poll.request();
        }
    }

    /// Finishes the wait, if one is running.
    pub(super) fn finish_wait(&mut self) {
        if let Some(since) = self.since.take() {
            self.was_quick = since.elapsed() <= BUSY_POLL_LIMIT;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::JoinSet;

    use super::*;

    fn is_requested(busy_poll: &BusyPoll) -> bool {
        busy_poll.0.requested.notified().now_or_never().is_some()
    }

    #[tokio::test]
    async fn busy_poll_starts_only_after_a_short_wait() {
        let busy_poll = BusyPoll::default();
        let mut tracker = WaitTracker::new(Some(busy_poll.clone()));
        tracker.start_wait();
        assert!(!is_requested(&busy_poll), "no earlier wait");
        tracker.finish_wait();
        tracker.was_quick = true;
        tracker.start_wait();
        assert!(is_requested(&busy_poll));
        tracker.start_wait();
        assert!(!is_requested(&busy_poll), "the wait is still running");
        std::thread::sleep(BUSY_POLL_LIMIT * 2);
        tracker.finish_wait();
        tracker.start_wait();
        assert!(!is_requested(&busy_poll), "the last wait was long");
    }

    #[tokio::test]
    async fn tracker_without_busy_poll_does_nothing() {
        let mut tracker = WaitTracker::new(None);
        tracker.start_wait();
        tracker.finish_wait();
        assert!(tracker.since.is_none() && !tracker.was_quick);
    }

    #[tokio::test]
    async fn busy_poll_ends_at_its_deadline_and_restarts() {
        let busy_poll = BusyPoll::default();
        let (runner, mut tasks) = (busy_poll.clone(), JoinSet::new());
        tasks.spawn(async move { runner.run().await });
        for _ in 0..2 {
            busy_poll.request();
            let requested_deadline = busy_poll.deadline();
            while busy_poll.elapsed_nanos() < requested_deadline {
                yield_now().await;
            }
            yield_now().await;
            assert!(!is_requested(&busy_poll), "the runner has consumed the request");
        }
    }
}

//! Deadlines of a call: an idle timeout that progress restarts, and a total timeout.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Time limits of a call. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTimeouts {
    /// Time without progress.
    pub request: Option<Duration>,
    /// Total time, regardless of progress.
    pub max: Option<Duration>,
}

impl CallTimeouts {
    /// Subtracts elapsed time.
    #[must_use]
    pub fn minus_elapsed(self, passed: Duration) -> Self {
        let left = |time: Option<Duration>| time.map(|time| time.saturating_sub(passed));
        CallTimeouts { request: left(self.request), max: left(self.max) }
    }
}

/// The limit that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    Request,
    Max,
}

/// Deadline of one call. It is paused while the user is asked for input.
#[derive(Debug)]
pub(super) struct CallDeadline {
    timeouts: CallTimeouts,
    started_at: Instant,
    /// Time of the start or of the latest progress.
    last_progress: Instant,
    /// Number of active pauses, and the start of the first.
    pauses: usize,
    paused: Option<Instant>,
}

impl CallDeadline {
    pub(super) fn new(timeouts: CallTimeouts, now: Instant) -> Self {
        CallDeadline { timeouts, started_at: now, last_progress: now, pauses: 0, paused: None }
    }

    /// Time and kind of the next timeout. `None` while paused, without a limit, or if the instant is not
    /// representable.
    pub(super) fn due(&self) -> Option<(Instant, TimeoutKind)> {
        if self.paused.is_some() {
            return None;
        }
        let after = |start: Instant, limit: Option<Duration>| start.checked_add(limit?);
        let request =
            after(self.last_progress, self.timeouts.request).map(|at| (at, TimeoutKind::Request));
        let max = after(self.started_at, self.timeouts.max).map(|at| (at, TimeoutKind::Max));
        request.into_iter().chain(max).min_by_key(|(at, _)| *at)
    }

    pub(super) fn progress(&mut self, now: Instant) {
        self.last_progress = now;
    }

    pub(super) fn pause(&mut self, now: Instant) {
        self.pauses += 1;
        self.paused.get_or_insert(now);
    }

    pub(super) fn resume(&mut self, now: Instant) {
        self.pauses = self.pauses.saturating_sub(1);
        if self.pauses > 0 {
            return;
        }
        if let Some(since) = self.paused.take() {
            let paused_for = now.saturating_duration_since(since);
            self.started_at += paused_for;
            self.last_progress = (self.last_progress + paused_for).min(now);
        }
    }
}

/// A deadline that one task awaits while the dispatcher changes it.
#[derive(Debug)]
pub(super) struct DeadlineTimer {
    deadline: Mutex<CallDeadline>,
    resumed: Notify,
}

impl DeadlineTimer {
    pub(super) fn start(timeouts: CallTimeouts) -> Arc<Self> {
        Arc::new(DeadlineTimer {
            deadline: Mutex::new(CallDeadline::new(timeouts, Instant::now())),
            resumed: Notify::new(),
        })
    }

    /// Waits for the timeout.
    pub(super) async fn expired(&self) -> TimeoutKind {
        loop {
            let Some(due) = self.due() else {
                self.resumed.notified().await;
                continue;
            };
            tokio::time::sleep_until(due.0).await;
            // The deadline may have moved meanwhile.
            if self.due() == Some(due) {
                return due.1;
            }
        }
    }

    pub(super) fn progress(&self) {
        self.update(CallDeadline::progress);
    }

    pub(super) fn pause(&self) {
        self.update(CallDeadline::pause);
    }

    pub(super) fn resume(&self) {
        self.update(CallDeadline::resume);
        self.resumed.notify_one();
    }

    fn due(&self) -> Option<(Instant, TimeoutKind)> {
        self.deadline().due()
    }

    fn update(&self, act: impl FnOnce(&mut CallDeadline, Instant)) {
        act(&mut self.deadline(), Instant::now());
    }

    fn deadline(&self) -> MutexGuard<'_, CallDeadline> {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    type DeadlineAction = fn(&mut CallDeadline, Instant);

    /// Events and the resulting timeout, in seconds from the start.
    fn check(
        request: u64,
        max: u64,
        events: &[(u64, DeadlineAction)],
        due: Option<(u64, TimeoutKind)>,
    ) {
        let limit = |count| (count > 0).then_some(secs(count));
        let timeouts = CallTimeouts { request: limit(request), max: limit(max) };
        let start = Instant::now();
        let mut deadline = CallDeadline::new(timeouts, start);
        for (at, event) in events {
            event(&mut deadline, start + secs(*at));
        }
        let found = deadline.due().map(|(at, limit)| ((at - start).as_secs(), limit));
        assert_eq!(found, due);
    }

    #[test]
    fn dkr_39_progress_extends_the_deadline_up_to_the_maximum() {
        use TimeoutKind::{Max, Request};
        check(60, 600, &[], Some((60, Request)));
        check(60, 600, &[(50, CallDeadline::progress)], Some((110, Request)));
        check(60, 600, &[(590, CallDeadline::progress)], Some((600, Max)));
        check(0, 600, &[], Some((600, Max)));
        check(60, 0, &[(1000, CallDeadline::progress)], Some((1060, Request)));
        check(0, 0, &[], None);
    }

    #[test]
    fn deadline_is_paused_while_input_is_requested() {
        use TimeoutKind::{Max, Request};
        let (pause, resume): (DeadlineAction, DeadlineAction) =
            (CallDeadline::pause, CallDeadline::resume);
        check(60, 600, &[(10, pause)], None);
        check(60, 600, &[(10, pause), (1010, resume)], Some((1060, Request)));
        check(0, 600, &[(10, pause), (1010, resume)], Some((1600, Max)));
        check(60, 0, &[(10, pause), (20, pause), (30, resume)], None);
        check(60, 0, &[(10, pause), (20, pause), (30, resume), (40, resume)], Some((90, Request)));
        check(
            60,
            0,
            &[(10, pause), (20, CallDeadline::progress), (30, resume)],
            Some((90, Request)),
        );
    }
}

//! When a call has taken too long: a time that progress begins anew, and one that nothing extends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a call may take; none means without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// Without a sign of progress.
    pub request: Option<Duration>,
    /// In all, progress or not.
    pub max: Option<Duration>,
}

impl Patience {
    /// What is left after a part of it has passed.
    #[must_use]
    pub fn less(self, passed: Duration) -> Self {
        let left = |time: Option<Duration>| time.map(|time| time.saturating_sub(passed));
        Patience { request: left(self.request), max: left(self.max) }
    }
}

/// Which of the two times ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Request,
    Max,
}

/// The clock of one call. It stands still while a person is asked.
#[derive(Debug)]
pub(super) struct Deadline {
    patience: Patience,
    begun: Instant,
    /// The start, or the newest progress.
    alive: Instant,
    /// How many wait for a person, and since when there is any.
    pauses: usize,
    paused: Option<Instant>,
}

impl Deadline {
    pub(super) fn new(patience: Patience, now: Instant) -> Self {
        Deadline { patience, begun: now, alive: now, pauses: 0, paused: None }
    }

    /// When the time is up and by which limit; none while it stands still or where there is no limit. A limit
    /// too far away for the clock is none.
    pub(super) fn due(&self) -> Option<(Instant, Limit)> {
        if self.paused.is_some() {
            return None;
        }
        let after = |start: Instant, limit: Option<Duration>| start.checked_add(limit?);
        let request = after(self.alive, self.patience.request).map(|at| (at, Limit::Request));
        let max = after(self.begun, self.patience.max).map(|at| (at, Limit::Max));
        request.into_iter().chain(max).min_by_key(|(at, _)| *at)
    }

    pub(super) fn progress(&mut self, now: Instant) {
        self.alive = now;
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
            let stood = now.saturating_duration_since(since);
            self.begun += stood;
            self.alive = (self.alive + stood).min(now);
        }
    }
}

/// A deadline that the caller waits for while the conversation moves it.
#[derive(Debug)]
pub(super) struct Clock {
    deadline: Mutex<Deadline>,
    resumed: Notify,
}

impl Clock {
    pub(super) fn start(patience: Patience) -> Arc<Self> {
        Arc::new(Clock {
            deadline: Mutex::new(Deadline::new(patience, Instant::now())),
            resumed: Notify::new(),
        })
    }

    /// Waits until the time is up.
    pub(super) async fn ran_out(&self) -> Limit {
        loop {
            let Some(due) = self.due() else {
                self.resumed.notified().await;
                continue;
            };
            tokio::time::sleep_until(due.0).await;
            // It may have moved while we waited.
            if self.due() == Some(due) {
                return due.1;
            }
        }
    }

    pub(super) fn progress(&self) {
        self.with(Deadline::progress);
    }

    pub(super) fn pause(&self) {
        self.with(Deadline::pause);
    }

    pub(super) fn resume(&self) {
        self.with(Deadline::resume);
        self.resumed.notify_one();
    }

    fn due(&self) -> Option<(Instant, Limit)> {
        self.deadline().due()
    }

    fn with(&self, act: impl FnOnce(&mut Deadline, Instant)) {
        act(&mut self.deadline(), Instant::now());
    }

    fn deadline(&self) -> MutexGuard<'_, Deadline> {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    type Happens = fn(&mut Deadline, Instant);

    /// Events at seconds from the start; when the time is up, in seconds from the start.
    fn check(request: u64, max: u64, events: &[(u64, Happens)], due: Option<(u64, Limit)>) {
        let limit = |count| (count > 0).then_some(secs(count));
        let patience = Patience { request: limit(request), max: limit(max) };
        let start = Instant::now();
        let mut deadline = Deadline::new(patience, start);
        for (at, event) in events {
            event(&mut deadline, start + secs(*at));
        }
        let found = deadline.due().map(|(at, limit)| ((at - start).as_secs(), limit));
        assert_eq!(found, due);
    }

    #[test]
    fn dkr_39_progress_extends_up_to_the_cap() {
        use Limit::{Max, Request};
        check(60, 600, &[], Some((60, Request)));
        check(60, 600, &[(50, Deadline::progress)], Some((110, Request)));
        check(60, 600, &[(590, Deadline::progress)], Some((600, Max)));
        check(0, 600, &[], Some((600, Max)));
        check(60, 0, &[(1000, Deadline::progress)], Some((1060, Request)));
        check(0, 0, &[], None);
    }

    #[test]
    fn the_clock_stands_still_while_a_person_is_asked() {
        use Limit::{Max, Request};
        let (pause, resume): (Happens, Happens) = (Deadline::pause, Deadline::resume);
        check(60, 600, &[(10, pause)], None);
        check(60, 600, &[(10, pause), (1010, resume)], Some((1060, Request)));
        check(0, 600, &[(10, pause), (1010, resume)], Some((1600, Max)));
        check(60, 0, &[(10, pause), (20, pause), (30, resume)], None);
        check(60, 0, &[(10, pause), (20, pause), (30, resume), (40, resume)], Some((90, Request)));
        check(60, 0, &[(10, pause), (20, Deadline::progress), (30, resume)], Some((90, Request)));
    }
}

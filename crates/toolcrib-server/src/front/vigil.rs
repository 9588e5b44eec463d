//! A thread that waits for what will come at once does not sleep yet: to be woken takes longer than what is quick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::yield_now;

/// What comes within this time is quick, and nobody stays awake for longer.
const QUICK: Duration = Duration::from_micros(200);

/// Keeps one thread awake while somebody on it waits for something quick. Clones keep the same thread.
#[derive(Clone, Debug)]
pub(super) struct Vigil(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    began: Instant,
    /// Until when, in nanoseconds since it began.
    until: AtomicU64,
    wanted: Notify,
}

/// One who waits again and again, and expects what he saw the last time.
#[derive(Debug, Default)]
pub(super) struct Watch {
    vigil: Option<Vigil>,
    since: Option<Instant>,
    was_quick: bool,
}

impl Default for Vigil {
    fn default() -> Self {
        let (until, wanted) = (AtomicU64::new(0), Notify::new());
        Vigil(Arc::new(Shared { began: Instant::now(), until, wanted }))
    }
}

impl Vigil {
    /// Stays awake whenever that is wanted. Never ends itself: whoever runs the thread does.
    pub(super) async fn keep(&self) {
        loop {
            self.0.wanted.notified().await;
            while self.until() > self.now() {
                // The scheduler looks what has come before this goes on.
                yield_now().await;
            }
        }
    }

    fn want(&self) {
        let now = self.now();
        let before = self.0.until.swap(now + nanos(QUICK), Ordering::Relaxed);
        if before <= now {
            self.0.wanted.notify_one();
        }
    }

    fn until(&self) -> u64 {
        self.0.until.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        nanos(self.0.began.elapsed())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

impl Watch {
    /// Without a vigil nothing is expected.
    pub(super) fn of(vigil: Option<Vigil>) -> Self {
        Watch { vigil, ..Watch::default() }
    }

    /// A wait begins, unless it has.
    pub(super) fn begin(&mut self) {
        let Some(vigil) = self.vigil.as_ref().filter(|_| self.since.is_none()) else { return };
        self.since = Some(Instant::now());
        if self.was_quick {
            vigil.want();
        }
    }

    /// It is over, if there was one.
    pub(super) fn end(&mut self) {
        if let Some(since) = self.since.take() {
            self.was_quick = since.elapsed() <= QUICK;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::JoinSet;

    use super::*;

    fn is_wanted(vigil: &Vigil) -> bool {
        vigil.0.wanted.notified().now_or_never().is_some()
    }

    #[tokio::test]
    async fn only_who_was_answered_quickly_keeps_a_thread_awake() {
        let vigil = Vigil::default();
        let mut watch = Watch::of(Some(vigil.clone()));
        watch.begin();
        assert!(!is_wanted(&vigil), "nothing is known yet");
        watch.end();
        watch.was_quick = true;
        watch.begin();
        assert!(is_wanted(&vigil));
        watch.begin();
        assert!(!is_wanted(&vigil), "it is the same wait");
        std::thread::sleep(QUICK * 2);
        watch.end();
        watch.begin();
        assert!(!is_wanted(&vigil), "the last wait was long");
    }

    #[tokio::test]
    async fn who_has_no_vigil_waits_as_ever() {
        let mut watch = Watch::of(None);
        watch.begin();
        watch.end();
        assert!(watch.since.is_none() && !watch.was_quick);
    }

    #[tokio::test]
    async fn a_vigil_ends_with_its_time_and_begins_again() {
        let vigil = Vigil::default();
        let (keeper, mut keeping) = (vigil.clone(), JoinSet::new());
        keeping.spawn(async move { keeper.keep().await });
        for _ in 0..2 {
            vigil.want();
            let wanted_until = vigil.until();
            while vigil.now() < wanted_until {
                yield_now().await;
            }
            yield_now().await;
            assert!(!is_wanted(&vigil), "whoever keeps it has heard of it");
        }
    }
}

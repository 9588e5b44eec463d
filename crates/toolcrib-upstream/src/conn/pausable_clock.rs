//! Clock that pauses while a server's tokens are fetched, so that waiting callers do not time out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use toolcrib_config::SecretString;
use url::Url;

use crate::transport::{BoxFuture, Denial, HttpFault, TokenError, TokenProvider};

/// Clock for everyone that waits for a session of one server.
#[derive(Debug, Default)]
pub struct PausableClock {
    pause_state: watch::Sender<PauseState>,
    /// Total of the finished pauses in nanoseconds. Outside of the watch channel, because every call reads it.
    paused: AtomicU64,
}

#[derive(Debug, Default)]
struct PauseState {
    holders: usize,
    since: Option<Instant>,
}

/// A deadline on a [`PausableClock`].
#[derive(Clone, Copy, Debug)]
pub struct PausableDeadline {
    /// `None` if the instant is not representable.
    at: Option<Instant>,
    /// Total paused time when the deadline was made.
    paused_before: Duration,
}

/// Keeps the clock paused until dropped.
struct ClockPause<'a>(&'a PausableClock);

impl PausableClock {
    /// Total of the finished pauses.
    pub fn total_paused(&self) -> Duration {
        Duration::from_nanos(self.paused.load(Ordering::Relaxed))
    }

    /// Returns a deadline that later pauses postpone.
    pub fn deadline_at(&self, at: Instant) -> PausableDeadline {
        PausableDeadline { at: Some(at), paused_before: self.total_paused() }
    }

    /// Returns a deadline after `time`, which later pauses postpone.
    pub fn deadline_after(&self, time: Duration) -> PausableDeadline {
        PausableDeadline {
            at: Instant::now().checked_add(time),
            paused_before: self.total_paused(),
        }
    }

    /// Waits for the deadline.
    pub async fn wait_until(&self, deadline: PausableDeadline) {
        let mut pause_state = self.pause_state.subscribe();
        loop {
            // `self` owns the sender, so this cannot fail.
            let _ = pause_state.wait_for(|pause_state| pause_state.holders == 0).await;
            let paused = self.total_paused().saturating_sub(deadline.paused_before);
            let at = deadline.at.and_then(|at| at.checked_add(paused));
            let Some(at) = at else { return std::future::pending().await };
            if Instant::now() >= at {
                return;
            }
            sleep_until(at).await;
        }
    }

    /// Runs `work` until the deadline. Returns `None` if the deadline comes first.
    pub async fn run_until<T>(
        &self,
        deadline: PausableDeadline,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.wait_until(deadline) => None,
        }
    }

    fn pause(&self) -> ClockPause<'_> {
        self.pause_state.send_modify(|pause_state| {
            pause_state.holders += 1;
            pause_state.since.get_or_insert_with(Instant::now);
        });
        ClockPause(self)
    }
}

impl Drop for ClockPause<'_> {
    fn drop(&mut self) {
        self.0.pause_state.send_modify(|pause_state| {
            pause_state.holders -= 1;
            let since = pause_state.since.take_if(|_| pause_state.holders == 0);
            let paused = since.map(|since| since.elapsed().as_nanos()).unwrap_or_default();
            let paused = u64::try_from(paused).unwrap_or(u64::MAX);
            self.0.paused.fetch_add(paused, Ordering::Relaxed);
        });
    }
}

/// Token provider that pauses a clock while a token is fetched.
#[derive(Debug)]
pub(super) struct ClockPausingTokens {
    pub(super) tokens: Arc<dyn TokenProvider>,
    pub(super) clock: Arc<PausableClock>,
}

impl TokenProvider for ClockPausingTokens {
    fn cached_token(&self) -> Option<Option<SecretString>> {
        self.tokens.cached_token()
    }

    fn fetch_token(&self) -> BoxFuture<'_, Result<Option<SecretString>, TokenError>> {
        Box::pin(async {
            let _pause = self.clock.pause();
            self.tokens.fetch_token().await
        })
    }

    fn replacement_token<'a>(
        &'a self,
        used: Option<&'a SecretString>,
        denial: &'a Denial,
    ) -> BoxFuture<'a, Result<Option<SecretString>, TokenError>> {
        Box::pin(async move {
            let _pause = self.clock.pause();
            self.tokens.replacement_token(used, denial).await
        })
    }

    fn insert_header(
        &self,
        headers: &mut HeaderMap,
        token: &SecretString,
    ) -> Result<(), HttpFault> {
        self.tokens.insert_header(headers, token)
    }

    fn current_url(&self) -> Option<Url> {
        self.tokens.current_url()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn deadline_moves_by_the_paused_time() {
        let clock = PausableClock::default();
        drop(clock.pause());
        // A pause before the deadline was made does not count.
        let before = clock.pause();
        advance(5 * SECOND).await;
        drop(before);
        let started_at = Instant::now();
        let deadline = clock.deadline_at(started_at + 2 * SECOND);
        let pause_state = async {
            sleep(SECOND).await;
            let one = clock.pause();
            sleep(3 * SECOND).await;
            let other = clock.pause();
            drop(one);
            sleep(SECOND).await;
            drop(other);
        };
        tokio::join!(clock.wait_until(deadline), pause_state);
        assert_eq!(started_at.elapsed(), 6 * SECOND);
        clock.wait_until(deadline).await;
        assert_eq!(started_at.elapsed(), 6 * SECOND, "an expired deadline returns at once");
        assert_eq!(
            clock.run_until(deadline, async { 1 }).await,
            Some(1),
            "finished work wins over an expired deadline"
        );
        let later = clock.deadline_at(started_at + 7 * SECOND);
        assert_eq!(clock.run_until(later, sleep(2 * SECOND)).await, None);
        assert_eq!(started_at.elapsed(), 7 * SECOND);
        let never = clock.deadline_after(Duration::MAX);
        assert_eq!(clock.run_until(never, sleep(SECOND)).await, Some(()));
    }
}

//! Time that counts for nobody: while the tokens of a server are being renewed, whoever waits for a session of it is
//! not late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use toolcrib_config::Hidden;
use url::Url;

use crate::transport::{Coming, Denial, HttpFault, NoToken, Tokens};

/// The clock of all who wait for a server's sessions.
#[derive(Debug, Default)]
pub struct Standstill {
    standing: watch::Sender<Standing>,
    /// What is over, in nanoseconds; beside the rest, because every call looks at it.
    stood: AtomicU64,
}

#[derive(Debug, Default)]
struct Standing {
    holders: usize,
    since: Option<Instant>,
}

/// When something is late by that clock.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    /// None where that is too far away for the clock.
    at: Option<Instant>,
    /// For how long the clock had stood when it was said.
    stood: Duration,
}

/// While it lives the clock stands.
struct Hold<'a>(&'a Standstill);

impl Standstill {
    /// For how long it has stood, as far as that is over.
    pub fn stood(&self) -> Duration {
        Duration::from_nanos(self.stood.load(Ordering::Relaxed))
    }

    /// A deadline that is later by as long as the clock stands from now on.
    pub fn late(&self, at: Instant) -> Late {
        Late { at: Some(at), stood: self.stood() }
    }

    /// The same, some time from now.
    pub fn late_after(&self, time: Duration) -> Late {
        Late { at: Instant::now().checked_add(time), stood: self.stood() }
    }

    /// Waits until it is late.
    pub async fn until(&self, late: Late) {
        let mut standing = self.standing.subscribe();
        loop {
            // The sender is here, so that this cannot fail.
            let _ = standing.wait_for(|standing| standing.holders == 0).await;
            let stood = self.stood().saturating_sub(late.stood);
            let at = late.at.and_then(|at| at.checked_add(stood));
            let Some(at) = at else { return std::future::pending().await };
            if Instant::now() >= at {
                return;
            }
            sleep_until(at).await;
        }
    }

    /// What work gives before it is late.
    pub async fn by<T>(&self, late: Late, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.until(late) => None,
        }
    }

    fn hold(&self) -> Hold<'_> {
        self.standing.send_modify(|standing| {
            standing.holders += 1;
            standing.since.get_or_insert_with(Instant::now);
        });
        Hold(self)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.standing.send_modify(|standing| {
            standing.holders -= 1;
            let since = standing.since.take_if(|_| standing.holders == 0);
            let stood = since.map(|since| since.elapsed().as_nanos()).unwrap_or_default();
            let stood = u64::try_from(stood).unwrap_or(u64::MAX);
            self.0.stood.fetch_add(stood, Ordering::Relaxed);
        });
    }
}

/// Tokens for which a clock stands while they are waited for.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) tokens: Arc<dyn Tokens>,
    pub(super) clock: Arc<Standstill>,
}

impl Tokens for Timed {
    fn at_hand(&self) -> Option<Option<Hidden>> {
        self.tokens.at_hand()
    }

    fn token(&self) -> Coming<'_, Result<Option<Hidden>, NoToken>> {
        Box::pin(async {
            let _hold = self.clock.hold();
            self.tokens.token().await
        })
    }

    fn instead<'a>(
        &'a self,
        used: Option<&'a Hidden>,
        denial: &'a Denial,
    ) -> Coming<'a, Result<Option<Hidden>, NoToken>> {
        Box::pin(async move {
            let _hold = self.clock.hold();
            self.tokens.instead(used, denial).await
        })
    }

    fn put(&self, headers: &mut HeaderMap, token: &Hidden) -> Result<(), HttpFault> {
        self.tokens.put(headers, token)
    }

    fn address(&self) -> Option<Url> {
        self.tokens.address()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_deadline_moves_on_by_as_long_as_the_clock_stood() {
        let clock = Standstill::default();
        drop(clock.hold());
        // What stood before nobody waited is nobody's.
        let before = clock.hold();
        advance(5 * SECOND).await;
        drop(before);
        let begun = Instant::now();
        let late = clock.late(begun + 2 * SECOND);
        let standing = async {
            sleep(SECOND).await;
            let one = clock.hold();
            sleep(3 * SECOND).await;
            let other = clock.hold();
            drop(one);
            sleep(SECOND).await;
            drop(other);
        };
        tokio::join!(clock.until(late), standing);
        assert_eq!(begun.elapsed(), 6 * SECOND);
        clock.until(late).await;
        assert_eq!(begun.elapsed(), 6 * SECOND, "whoever waits on has waited already");
        assert_eq!(clock.by(late, async { 1 }).await, Some(1), "what is there is there");
        let later = clock.late(begun + 7 * SECOND);
        assert_eq!(clock.by(later, sleep(2 * SECOND)).await, None);
        assert_eq!(begun.elapsed(), 7 * SECOND);
        let never = clock.late_after(Duration::MAX);
        assert_eq!(clock.by(never, sleep(SECOND)).await, Some(()));
    }
}

//! So many requests in a second, for each principal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Principals that are counted at a time; those that are quiet are forgotten first.
const MOST: usize = 10_000;

/// What is left of each principal's share.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<Arc<str>, Bucket>>);

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    /// Whether one more request is within the rate. A second's worth may come at once.
    pub(super) fn admits(&self, who: &Arc<str>, rate: u32) -> bool {
        let (now, most) = (Instant::now(), f64::from(rate));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, bucket| bucket.now(now, most) < most);
        }
        let bucket = all.entry(Arc::clone(who)).or_insert(Bucket { left: most, at: now });
        (bucket.left, bucket.at) = (bucket.now(now, most), now);
        let admitted = bucket.left >= 1.0;
        if admitted {
            bucket.left -= 1.0;
        }
        admitted
    }
}

impl Bucket {
    fn now(&self, now: Instant, most: f64) -> f64 {
        (self.left + now.duration_since(self.at).as_secs_f64() * most).min(most)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_has_a_share_that_comes_back() {
        let rates = Rates::default();
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        assert!((0..5).all(|_| rates.admits(&one, 5)));
        assert!(!rates.admits(&one, 5) && rates.admits(&other, 5));
        tokio::time::advance(Duration::from_millis(400)).await;
        assert!(rates.admits(&one, 5) && rates.admits(&one, 5) && !rates.admits(&one, 5));
    }
}

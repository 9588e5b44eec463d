//! So much in some time, for each of many.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How many are counted at a time; those that are quiet are forgotten first.
const MOST: usize = 10_000;

/// What is left of each one's share.
#[derive(Debug)]
pub(super) struct Rates<K>(Mutex<HashMap<K, Bucket>>);

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl<K: Clone + Eq + Hash> Rates<K> {
    /// Counts one more where it is within `most` in `per`; else how long it is until one is. All of that may come at
    /// once.
    pub(super) fn count(&self, who: &K, most: u32, per: Duration) -> Result<(), Duration> {
        let (now, most) = (Instant::now(), f64::from(most));
        let mut all = self.all();
        if all.len() >= MOST && !all.contains_key(who) {
            make_room(&mut all, now, most, per);
        }
        let bucket = all.entry(who.clone()).or_insert(Bucket { left: most, at: now });
        (bucket.left, bucket.at) = (bucket.now(now, most, per), now);
        if bucket.left < 1.0 {
            return Err(per.mul_f64((1.0 - bucket.left) / most.max(1.0)));
        }
        bucket.left -= 1.0;
        Ok(())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<K, Bucket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Rates(Mutex::default())
    }
}

/// Where nobody is quiet, whoever has the most left goes: he loses the least by it.
fn make_room<K: Clone + Eq + Hash>(
    all: &mut HashMap<K, Bucket>,
    now: Instant,
    most: f64,
    per: Duration,
) {
    all.retain(|_, bucket| bucket.now(now, most, per) < most);
    if all.len() < MOST {
        return;
    }
    let left = |bucket: &Bucket| bucket.now(now, most, per);
    let first = all.iter().max_by(|a, b| left(a.1).total_cmp(&left(b.1)));
    if let Some(first) = first.map(|(who, _)| who.clone()) {
        all.remove(&first);
    }
}

impl Bucket {
    fn now(&self, now: Instant, most: f64, per: Duration) -> f64 {
        let back = now.duration_since(self.at).as_secs_f64() / per.as_secs_f64();
        (self.left + back * most).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn each_has_a_share_that_comes_back() {
        let rates = Rates::default();
        assert!((0..5).all(|_| rates.count(&"one", 5, SECOND).is_ok()));
        let early = rates.count(&"one", 5, SECOND).unwrap_err();
        assert_eq!((early, rates.count(&"other", 5, SECOND)), (SECOND / 5, Ok(())));
        tokio::time::advance(early).await;
        assert_eq!(rates.count(&"one", 5, SECOND), Ok(()));
        assert!(rates.count(&"one", 5, SECOND).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_only_so_many_and_whoever_is_over_his_share_stays() {
        let rates = Rates::default();
        for who in [0, 0].into_iter().chain(1..MOST + 100) {
            assert_eq!(rates.count(&who, 2, SECOND), Ok(()));
        }
        assert_eq!(rates.all().len(), MOST);
        assert!(rates.count(&0, 2, SECOND).is_err());
        tokio::time::advance(SECOND).await;
        assert_eq!(rates.count(&(MOST * 2), 2, SECOND), Ok(()));
        assert_eq!(rates.all().len(), 1, "the others are quiet");
    }
}

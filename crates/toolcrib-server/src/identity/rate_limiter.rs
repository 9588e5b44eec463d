//! A token bucket rate limiter with one bucket per key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of buckets; full ones are removed first.
const MAX_KEYS: usize = 10_000;

/// Token buckets by key.
#[derive(Debug)]
pub(super) struct RateLimiter<K>(Mutex<HashMap<K, Bucket>>);

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl<K: Clone + Eq + Hash> RateLimiter<K> {
    /// Takes one token, at `limit` tokens per `per` with bursts up to `limit`. Otherwise returns the time until the
    /// next token.
    pub(super) fn try_acquire(&self, key: &K, limit: u32, per: Duration) -> Result<(), Duration> {
        let (now, limit) = (Instant::now(), f64::from(limit));
        let mut all = self.lock();
        if all.len() >= MAX_KEYS && !all.contains_key(key) {
            evict(&mut all, now, limit, per);
        }
        let bucket = all.entry(key.clone()).or_insert(Bucket { tokens: limit, at: now });
        (bucket.tokens, bucket.at) = (bucket.tokens_at(now, limit, per), now);
        if bucket.tokens < 1.0 {
            return Err(per.mul_f64((1.0 - bucket.tokens) / limit.max(1.0)));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Bucket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Default for RateLimiter<K> {
    fn default() -> Self {
        RateLimiter(Mutex::default())
    }
}

/// Removes full buckets, or else the fullest one, whose key loses the least.
fn evict<K: Clone + Eq + Hash>(
    all: &mut HashMap<K, Bucket>,
    now: Instant,
    limit: f64,
    per: Duration,
) {
    all.retain(|_, bucket| bucket.tokens_at(now, limit, per) < limit);
    if all.len() < MAX_KEYS {
        return;
    }
    let tokens = |bucket: &Bucket| bucket.tokens_at(now, limit, per);
    let first = all.iter().max_by(|a, b| tokens(a.1).total_cmp(&tokens(b.1)));
    if let Some(first) = first.map(|(key, _)| key.clone()) {
        all.remove(&first);
    }
}

impl Bucket {
    fn tokens_at(&self, now: Instant, limit: f64, per: Duration) -> f64 {
        let refilled = now.duration_since(self.at).as_secs_f64() / per.as_secs_f64();
        (self.tokens + refilled * limit).min(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn tokens_refill_over_time_per_key() {
        let limiter = RateLimiter::default();
        assert!((0..5).all(|_| limiter.try_acquire(&"one", 5, SECOND).is_ok()));
        let early = limiter.try_acquire(&"one", 5, SECOND).unwrap_err();
        assert_eq!((early, limiter.try_acquire(&"other", 5, SECOND)), (SECOND / 5, Ok(())));
        tokio::time::advance(early).await;
        assert_eq!(limiter.try_acquire(&"one", 5, SECOND), Ok(()));
        assert!(limiter.try_acquire(&"one", 5, SECOND).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn key_count_is_bounded_and_exhausted_keys_are_kept() {
        let limiter = RateLimiter::default();
        for key in [0, 0].into_iter().chain(1..MAX_KEYS + 100) {
            assert_eq!(limiter.try_acquire(&key, 2, SECOND), Ok(()));
        }
        assert_eq!(limiter.lock().len(), MAX_KEYS);
        assert!(limiter.try_acquire(&0, 2, SECOND).is_err());
        tokio::time::advance(SECOND).await;
        assert_eq!(limiter.try_acquire(&(MAX_KEYS * 2), 2, SECOND), Ok(()));
        assert_eq!(limiter.lock().len(), 1, "full buckets are evicted");
    }
}

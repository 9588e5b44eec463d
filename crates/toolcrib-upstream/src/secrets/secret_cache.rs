//! Cache of secrets from slow stores, with one concurrent lookup per secret.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;
use toolcrib_config::SecretString;

use super::secret_error::SecretErrorReason;

/// Cached secrets by store and path.
#[derive(Debug, Default)]
pub(super) struct SecretCache(Mutex<HashMap<(String, String), Arc<CacheCell>>>);

type CacheCell = OnceCell<(Instant, SecretString)>;

impl SecretCache {
    /// Returns the cached secret or awaits `fetch`. Concurrent callers share one lookup. Failures are not
    /// cached.
    pub(super) async fn get(
        &self,
        store: &str,
        path: &str,
        max_age: Duration,
        fetch: impl Future<Output = Result<SecretString, SecretErrorReason>>,
    ) -> Result<SecretString, SecretErrorReason> {
        if max_age.is_zero() {
            return fetch.await;
        }
        let cell = self.cell(store, path, max_age);
        let fetched = cell.get_or_try_init(|| async { Ok((Instant::now(), fetch.await?)) }).await;
        fetched.map(|(_, value)| value.clone())
    }

    pub(super) fn clear(&self) {
        self.cells().clear();
    }

    pub(super) fn remove(&self, store: &str, path: &str) {
        self.cells().remove(&(store.to_owned(), path.to_owned()));
    }

    fn cell(&self, store: &str, path: &str, max_age: Duration) -> Arc<CacheCell> {
        let mut cells = self.cells();
        let cell = cells.entry((store.to_owned(), path.to_owned())).or_default();
        if cell.get().is_some_and(|(at, _)| at.elapsed() >= max_age) {
            *cell = Arc::default();
        }
        Arc::clone(cell)
    }

    fn cells(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<CacheCell>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::secret_error::MissingSecret;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_share_one_fetch_until_expiry() {
        let (cached, fetches) = (SecretCache::default(), AtomicU32::new(0));
        let minute = Duration::from_secs(60);
        let get = |max_age| {
            cached.get("s", "p", max_age, async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                match fetches.fetch_add(1, Ordering::Relaxed) {
                    0 => Err(SecretErrorReason::Missing(MissingSecret::Name)),
                    n => Ok(SecretString::new(n.to_string())),
                }
            })
        };
        assert!(matches!(get(minute).await, Err(SecretErrorReason::Missing(MissingSecret::Name))));
        let (one, other) = tokio::join!(get(minute), get(minute));
        assert_eq!((one.unwrap().reveal(), other.unwrap().reveal()), ("1", "1"));
        tokio::time::advance(minute).await;
        assert_eq!(get(minute).await.unwrap().reveal(), "2");
        assert_eq!(get(Duration::ZERO).await.unwrap().reveal(), "3");
        cached.clear();
        assert_eq!(get(minute).await.unwrap().reveal(), "4");
        cached.remove("s", "other");
        assert_eq!(get(minute).await.unwrap().reveal(), "4");
        cached.remove("s", "p");
        assert_eq!(get(minute).await.unwrap().reveal(), "5");
    }
}

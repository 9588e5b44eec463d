//! Answers of slow stores: each asked for once at a time, and kept for a while.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;
use toolcrib_config::Hidden;

use super::unresolved::Why;

/// By store and path.
#[derive(Debug, Default)]
pub(super) struct Cached(Mutex<HashMap<(String, String), Arc<Cell>>>);

type Cell = OnceCell<(Instant, Hidden)>;

impl Cached {
    /// What is known, or else what is asked. Who comes meanwhile waits for the same answer; a failure is nobody
    /// else's.
    pub(super) async fn get(
        &self,
        store: &str,
        path: &str,
        keep: Duration,
        ask: impl Future<Output = Result<Hidden, Why>>,
    ) -> Result<Hidden, Why> {
        if keep.is_zero() {
            return ask.await;
        }
        let cell = self.cell(store, path, keep);
        let asked = cell.get_or_try_init(|| async { Ok((Instant::now(), ask.await?)) }).await;
        asked.map(|(_, value)| value.clone())
    }

    pub(super) fn forget(&self) {
        self.cells().clear();
    }

    pub(super) fn forget_one(&self, store: &str, path: &str) {
        self.cells().remove(&(store.to_owned(), path.to_owned()));
    }

    fn cell(&self, store: &str, path: &str, keep: Duration) -> Arc<Cell> {
        let mut cells = self.cells();
        let cell = cells.entry((store.to_owned(), path.to_owned())).or_default();
        if cell.get().is_some_and(|(at, _)| at.elapsed() >= keep) {
            *cell = Arc::default();
        }
        Arc::clone(cell)
    }

    fn cells(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<Cell>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::unresolved::Gap;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_asked_once_for_all_until_it_is_old() {
        let (cached, asked) = (Cached::default(), AtomicU32::new(0));
        let minute = Duration::from_secs(60);
        let get = |keep| {
            cached.get("s", "p", keep, async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                match asked.fetch_add(1, Ordering::Relaxed) {
                    0 => Err(Why::Missing(Gap::Name)),
                    n => Ok(Hidden::new(n.to_string())),
                }
            })
        };
        assert!(matches!(get(minute).await, Err(Why::Missing(Gap::Name))));
        let (one, other) = tokio::join!(get(minute), get(minute));
        assert_eq!((one.unwrap().reveal(), other.unwrap().reveal()), ("1", "1"));
        tokio::time::advance(minute).await;
        assert_eq!(get(minute).await.unwrap().reveal(), "2");
        assert_eq!(get(Duration::ZERO).await.unwrap().reveal(), "3");
        cached.forget();
        assert_eq!(get(minute).await.unwrap().reveal(), "4");
        cached.forget_one("s", "other");
        assert_eq!(get(minute).await.unwrap().reveal(), "4");
        cached.forget_one("s", "p");
        assert_eq!(get(minute).await.unwrap().reveal(), "5");
    }
}

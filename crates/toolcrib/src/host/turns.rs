//! Which snapshots are still being read: a server that was removed goes on for the turns that began before.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The snapshots that are being read, or may be, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    read: Read,
    /// Whoever comes next reads it.
    newest: Arc<Mutex<Option<Arc<Reading>>>>,
}

type Read = Arc<watch::Sender<BTreeSet<u64>>>;

/// That a snapshot is being read. All its turns have the same one, so that only the last of them tells.
#[derive(Debug)]
pub(super) struct Reading {
    read: Read,
    version: u64,
}

impl Turns {
    /// A snapshot that is to be read from now on, by whoever has a part of this.
    pub(super) fn begin(&self, version: u64) -> Arc<Reading> {
        self.read.send_modify(|read| {
            read.insert(version);
        });
        Arc::new(Reading { read: Arc::clone(&self.read), version })
    }

    /// It is the newest one, and stays until another is. The one before is read only by who reads it already.
    pub(super) fn keep(&self, newest: Arc<Reading>) {
        let mut kept = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.replace(newest);
        drop(kept);
        drop(before);
    }

    /// Waits until nobody reads a snapshot older than this one, at most so long.
    pub(super) async fn over_before(&self, version: u64, limit: Duration) {
        let mut read = self.read.subscribe();
        let over = read.wait_for(|read| read.first().is_none_or(|first| *first >= version));
        // The sender is in `self`, so only the time can run out.
        let _ = timeout(limit, over).await;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.read.send_modify(|read| {
            read.remove(&self.version);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    impl Turns {
        fn newest(&self) -> Arc<Reading> {
            self.newest.lock().unwrap().clone().unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_older_turns_are_waited_for() {
        let turns = Turns::default();
        turns.keep(turns.begin(3));
        let first = turns.newest();
        let again = Arc::clone(&first);
        turns.keep(turns.begin(4));
        let newer = turns.newest();
        let waits = turns.over_before(4, LONG);
        tokio::pin!(waits);
        assert!(timeout(Duration::from_secs(1), &mut waits).await.is_err());
        drop(first);
        assert!(timeout(Duration::from_secs(1), &mut waits).await.is_err());
        drop(again);
        timeout(Duration::from_secs(1), waits).await.unwrap();
        drop(newer);
        assert_eq!(*turns.read.borrow(), BTreeSet::from([4]), "whoever comes next reads it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_without_end_is_not_waited_for_without_end() {
        let turns = Turns::default();
        let _endless = turns.begin(1);
        timeout(LONG, turns.over_before(2, Duration::from_secs(5))).await.unwrap();
    }

    #[test]
    fn what_is_kept_goes_with_who_keeps_it() {
        let turns = Turns::default();
        turns.keep(turns.begin(1));
        let newest = Arc::downgrade(&turns.newest());
        drop(turns);
        assert!(newest.upgrade().is_none());
    }
}

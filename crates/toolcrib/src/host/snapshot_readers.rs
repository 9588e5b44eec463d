//! Tracks which snapshots are still read: a removed server runs on until the older turns have
//! ended.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The numbers of the snapshots that are read or may be read.
#[derive(Clone, Debug, Default)]
pub(super) struct SnapshotReaders {
    read: ReadVersions,
    /// Keeps the newest snapshot registered between turns.
    newest: Arc<Mutex<Option<Arc<SnapshotReader>>>>,
}

type ReadVersions = Arc<watch::Sender<BTreeSet<u64>>>;

/// Registers one snapshot as being read. All turns of a snapshot share one value, so that only the
/// last turn deregisters the snapshot.
#[derive(Debug)]
pub(super) struct SnapshotReader {
    read: ReadVersions,
    version: u64,
}

impl SnapshotReaders {
    /// Registers a snapshot until the returned value is dropped.
    pub(super) fn register(&self, version: u64) -> Arc<SnapshotReader> {
        self.read.send_modify(|read| {
            read.insert(version);
        });
        Arc::new(SnapshotReader { read: Arc::clone(&self.read), version })
    }

    /// Keeps this snapshot registered until there is a newer one. The previous snapshot stays
    /// registered only while turns read it.
    pub(super) fn set_newest(&self, newest: Arc<SnapshotReader>) {
        let mut kept = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.replace(newest);
        drop(kept);
        drop(before);
    }

    /// Waits until no snapshot older than `version` is read, up to the limit.
    pub(super) async fn wait_for_older(&self, version: u64, limit: Duration) {
        let mut read = self.read.subscribe();
        let over = read.wait_for(|read| read.first().is_none_or(|first| *first >= version));
        // `self` holds the sender, so only the timeout can fail.
        let _ = timeout(limit, over).await;
    }
}

impl Drop for SnapshotReader {
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

    impl SnapshotReaders {
        fn newest(&self) -> Arc<SnapshotReader> {
            self.newest.lock().unwrap().clone().unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wait_ignores_newer_readers() {
        let readers = SnapshotReaders::default();
        readers.set_newest(readers.register(3));
        let first = readers.newest();
        let again = Arc::clone(&first);
        readers.set_newest(readers.register(4));
        let newer = readers.newest();
        let waits = readers.wait_for_older(4, LONG);
        tokio::pin!(waits);
        assert!(timeout(Duration::from_secs(1), &mut waits).await.is_err());
        drop(first);
        assert!(timeout(Duration::from_secs(1), &mut waits).await.is_err());
        drop(again);
        timeout(Duration::from_secs(1), waits).await.unwrap();
        drop(newer);
        assert_eq!(
            *readers.read.borrow(),
            BTreeSet::from([4]),
            "the newest snapshot stays registered"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_an_endless_reader_times_out() {
        let readers = SnapshotReaders::default();
        let _endless = readers.register(1);
        timeout(LONG, readers.wait_for_older(2, Duration::from_secs(5))).await.unwrap();
    }

    #[test]
    fn newest_reader_is_dropped_with_its_owner() {
        let readers = SnapshotReaders::default();
        readers.set_newest(readers.register(1));
        let newest = Arc::downgrade(&readers.newest());
        drop(readers);
        assert!(newest.upgrade().is_none());
    }
}

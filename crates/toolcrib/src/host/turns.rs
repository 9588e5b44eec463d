//! Which snapshots are still being read: a server that was removed goes on for the turns that began before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How many turns read each snapshot, by its number.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<watch::Sender<BTreeMap<u64, usize>>>);

/// One turn that reads a snapshot.
#[derive(Debug)]
pub(super) struct Reading {
    turns: Turns,
    version: u64,
}

impl Turns {
    pub(super) fn begin(&self, version: u64) -> Reading {
        // Nobody waits for one more.
        self.0.send_if_modified(|turns| {
            *turns.entry(version).or_default() += 1;
            false
        });
        Reading { turns: self.clone(), version }
    }

    /// Waits until nobody reads a snapshot older than this one, at most so long.
    pub(super) async fn over_before(&self, version: u64, limit: Duration) {
        let mut turns = self.0.subscribe();
        let over =
            turns.wait_for(|turns| turns.keys().next().is_none_or(|first| *first >= version));
        // The sender is in `self`, so only the time can run out.
        let _ = timeout(limit, over).await;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let turns = &self.turns.0;
        turns.send_if_modified(|reading| {
            let Some(count) = reading.get_mut(&self.version) else { return false };
            *count -= 1;
            let is_last = *count == 0;
            if is_last {
                reading.remove(&self.version);
            }
            // Mostly nobody waits. Who comes after this sees what it has left.
            is_last && turns.receiver_count() > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn only_older_turns_are_waited_for() {
        let turns = Turns::default();
        let (first, again, newer) = (turns.begin(3), turns.begin(3), turns.begin(4));
        let waits = turns.over_before(4, LONG);
        tokio::pin!(waits);
        assert!(timeout(Duration::from_secs(1), &mut waits).await.is_err());
        drop(first);
        assert!(timeout(Duration::from_secs(1), &mut waits).await.is_err());
        drop(again);
        timeout(Duration::from_secs(1), waits).await.unwrap();
        drop(newer);
        assert!(turns.0.borrow().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_without_end_is_not_waited_for_without_end() {
        let turns = Turns::default();
        let _endless = turns.begin(1);
        timeout(LONG, turns.over_before(2, Duration::from_secs(5))).await.unwrap();
    }
}

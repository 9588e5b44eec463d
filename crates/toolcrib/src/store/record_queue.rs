//! Bounded queue of call records. Adding a record never blocks a call.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::call_records::CallRecord;

#[derive(Debug)]
pub(super) struct RecordQueue {
    capacity: usize,
    queued: Mutex<QueuedRecords>,
    /// Notified when the queue is no longer empty, and when it is half full.
    pub(super) wakeup: Notify,
}

#[derive(Debug, Default)]
struct QueuedRecords {
    calls: VecDeque<CallRecord>,
    dropped: u64,
}

impl RecordQueue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), queued: Mutex::default(), wakeup: Notify::new() }
    }

    pub(super) fn push(&self, call: CallRecord) {
        let mut queued = self.lock();
        queued.calls.push_back(call);
        let count = queued.calls.len();
        self.drop_oldest(&mut queued);
        drop(queued);
        if count == 1 || count == self.half_capacity() {
            self.wakeup.notify_one();
        }
    }

    pub(super) fn drain(&self) -> Vec<CallRecord> {
        self.lock().calls.drain(..).collect()
    }

    /// Puts unwritten records back, before newer ones.
    pub(super) fn restore(&self, calls: Vec<CallRecord>) {
        let mut queued = self.lock();
        for call in calls.into_iter().rev() {
            queued.calls.push_front(call);
        }
        self.drop_oldest(&mut queued);
    }

    /// Returns whether the queue should be written without waiting for more records.
    pub(super) fn is_half_full(&self) -> bool {
        self.lock().calls.len() >= self.half_capacity()
    }

    /// Returns the number of records that were dropped because they came faster than they were written.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn half_capacity(&self) -> usize {
        self.capacity.div_ceil(2)
    }

    fn drop_oldest(&self, queued: &mut QueuedRecords) {
        let over = queued.calls.len().saturating_sub(self.capacity);
        queued.calls.drain(..over);
        queued.dropped += over as u64;
    }

    fn lock(&self) -> MutexGuard<'_, QueuedRecords> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn call(tool: u32) -> CallRecord {
        CallRecord {
            agent: "default".into(),
            dialog: None,
            server: None,
            tool: tool.to_string().into(),
            started: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            ended: "ok".into(),
            arguments: None,
            request_id: None,
        }
    }

    fn tools(calls: &[CallRecord]) -> Vec<&str> {
        calls.iter().map(|call| &*call.tool).collect()
    }

    #[test]
    fn full_queue_drops_the_oldest_records_and_counts_them() {
        let queue = RecordQueue::new(3);
        (1..=5).for_each(|tool| queue.push(call(tool)));
        assert_eq!((tools(&queue.drain()), queue.dropped()), (vec!["3", "4", "5"], 2));
        assert!(queue.drain().is_empty());
    }

    #[test]
    fn restored_records_come_before_newer_ones() {
        let queue = RecordQueue::new(3);
        (1..=2).for_each(|tool| queue.push(call(tool)));
        let unwritten = queue.drain();
        (3..=4).for_each(|tool| queue.push(call(tool)));
        queue.restore(unwritten);
        assert_eq!((tools(&queue.drain()), queue.dropped()), (vec!["2", "3", "4"], 1));
    }

    #[test]
    fn half_full_queue_is_written_early() {
        let queue = RecordQueue::new(4);
        queue.push(call(1));
        assert!(!queue.is_half_full());
        queue.push(call(2));
        assert!(queue.is_half_full());
    }
}

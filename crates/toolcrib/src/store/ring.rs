//! The ring in which records wait to be written: no call waits for it, and it never grows beyond its size.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::calls::CallRecord;

#[derive(Debug)]
pub(super) struct Ring {
    size: usize,
    waiting: Mutex<Waiting>,
    /// Rung when there is something to write, and when half of the ring is full.
    pub(super) bell: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: VecDeque<CallRecord>,
    dropped: u64,
}

impl Ring {
    pub(super) fn new(size: usize) -> Self {
        Self { size: size.max(1), waiting: Mutex::default(), bell: Notify::new() }
    }

    pub(super) fn push(&self, call: CallRecord) {
        let mut waiting = self.lock();
        waiting.calls.push_back(call);
        let count = waiting.calls.len();
        self.cut(&mut waiting);
        drop(waiting);
        if count == 1 || count == self.half() {
            self.bell.notify_one();
        }
    }

    pub(super) fn drain(&self) -> Vec<CallRecord> {
        self.lock().calls.drain(..).collect()
    }

    /// Puts back what could not be written, before what came since.
    pub(super) fn restore(&self, calls: Vec<CallRecord>) {
        let mut waiting = self.lock();
        for call in calls.into_iter().rev() {
            waiting.calls.push_front(call);
        }
        self.cut(&mut waiting);
    }

    /// Whether it should be written without waiting for more.
    pub(super) fn is_urgent(&self) -> bool {
        self.lock().calls.len() >= self.half()
    }

    /// How many records were dropped because they came faster than they could be written.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn half(&self) -> usize {
        self.size.div_ceil(2)
    }

    fn cut(&self, waiting: &mut Waiting) {
        let over = waiting.calls.len().saturating_sub(self.size);
        waiting.calls.drain(..over);
        waiting.dropped += over as u64;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_full_ring_loses_its_oldest_and_counts_them() {
        let ring = Ring::new(3);
        (1..=5).for_each(|tool| ring.push(call(tool)));
        assert_eq!((tools(&ring.drain()), ring.dropped()), (vec!["3", "4", "5"], 2));
        assert!(ring.drain().is_empty());
    }

    #[test]
    fn what_could_not_be_written_comes_before_what_came_since() {
        let ring = Ring::new(3);
        (1..=2).for_each(|tool| ring.push(call(tool)));
        let unwritten = ring.drain();
        (3..=4).for_each(|tool| ring.push(call(tool)));
        ring.restore(unwritten);
        assert_eq!((tools(&ring.drain()), ring.dropped()), (vec!["2", "3", "4"], 1));
    }

    #[test]
    fn half_a_ring_is_not_kept_waiting() {
        let ring = Ring::new(4);
        ring.push(call(1));
        assert!(!ring.is_urgent());
        ring.push(call(2));
        assert!(ring.is_urgent());
    }
}

//! A queue bounded in items and bytes whose sender never waits: the oldest is dropped and counted.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The sending half. When its last clone is dropped, the receiver sees the end after what is queued.
pub struct Sender<T>(Arc<Shared<T>>);

/// The receiving half. Dropping it makes sending a matter of nothing.
pub struct Receiver<T>(Arc<Shared<T>>);

/// Bytes that are queued at most, but for the newest item, which may be larger.
const BYTES: usize = 4 << 20;

pub fn mailbox<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        senders: AtomicUsize::new(1),
        queue: Mutex::new(Queue {
            items: VecDeque::new(),
            capacity,
            bytes: 0,
            lost: 0,
            closed: false,
            waiter: None,
        }),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    /// `bytes` is what the item weighs.
    pub fn push(&self, item: T, bytes: usize) {
        self.0.push(Item { item, bytes, keep: false });
    }

    /// For items of a few kinds, of which one tells as much as many: nothing is added where `same` finds one,
    /// and what is added is not dropped.
    pub fn push_once(&self, item: T, same: impl Fn(&T) -> bool) {
        let known = self.0.queue().items.iter().any(|queued| same(&queued.item));
        if !known {
            self.0.push(Item { item, bytes: 0, keep: true });
        }
    }
}

impl<T> Receiver<T> {
    /// The next item; none when the sender has gone and everything was taken.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut queue = self.0.queue();
        let item = queue.pop();
        if item.is_none() && !queue.closed {
            queue.waiter.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
            return Poll::Pending;
        }
        Poll::Ready(item)
    }

    /// The next item if there is one now.
    pub fn try_next(&mut self) -> Option<T> {
        self.0.queue().pop()
    }

    /// How many were dropped because nobody took them in time.
    pub fn lost(&self) -> u64 {
        self.0.queue().lost
    }
}

struct Shared<T> {
    senders: AtomicUsize,
    queue: Mutex<Queue<T>>,
}

struct Queue<T> {
    items: VecDeque<Item<T>>,
    capacity: usize,
    bytes: usize,
    lost: u64,
    /// Either half has gone.
    closed: bool,
    /// Whoever receives, while there is nothing for him.
    waiter: Option<Waker>,
}

struct Item<T> {
    item: T,
    bytes: usize,
    keep: bool,
}

impl<T> Shared<T> {
    fn push(&self, item: Item<T>) {
        let mut queue = self.queue();
        if queue.closed {
            return;
        }
        while queue.is_full_for(&item) && queue.drop_oldest() {}
        queue.bytes += item.bytes;
        queue.items.push_back(item);
        self.wake(queue);
    }

    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        self.wake(queue);
    }

    /// Outside of the lock: who is woken may take it at once.
    fn wake(&self, mut queue: MutexGuard<'_, Queue<T>>) {
        let waiter = queue.waiter.take();
        drop(queue);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

impl<T> Queue<T> {
    fn pop(&mut self) -> Option<T> {
        let queued = self.items.pop_front()?;
        self.bytes -= queued.bytes;
        Some(queued.item)
    }

    fn is_full_for(&self, item: &Item<T>) -> bool {
        self.items.len() >= self.capacity || self.bytes + item.bytes > BYTES
    }

    /// False if there is nothing that may be dropped.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.items.iter().position(|queued| !queued.keep);
        let Some(dropped) = oldest.and_then(|place| self.items.remove(place)) else {
            return false;
        };
        self.bytes -= dropped.bytes;
        self.lost += 1;
        true
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // What others have pushed before is under the lock, so that nothing else has to be in order.
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.close();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.closed = true;
        // Nobody waits any more.
        let waiter = queue.waiter.take();
        drop(queue);
        drop(waiter);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    fn drained(receiver: &mut Receiver<u32>) -> Vec<u32> {
        std::iter::from_fn(|| receiver.try_next()).collect()
    }

    #[test]
    fn the_oldest_is_dropped_and_counted() {
        let (sender, mut receiver) = mailbox(3);
        (0..5).for_each(|item| sender.push(item, 1));
        assert_eq!((drained(&mut receiver), receiver.lost()), (vec![2, 3, 4], 2));
    }

    #[test]
    fn what_is_said_once_is_neither_repeated_nor_dropped() {
        let (sender, mut receiver) = mailbox(2);
        for item in [7, 1, 7, 2, 3] {
            if item == 7 {
                sender.push_once(7, |queued| *queued == 7);
            } else {
                sender.push(item, 1);
            }
        }
        assert_eq!((drained(&mut receiver), receiver.lost()), (vec![7, 3], 2));
    }

    #[test]
    fn a_few_large_items_count_as_many_small_ones() {
        let (sender, mut receiver) = mailbox(100);
        for (item, bytes) in [(1, BYTES / 2), (2, BYTES / 2), (3, 1), (4, BYTES * 2)] {
            sender.push(item, bytes);
            assert!(receiver.0.queue().bytes <= BYTES * 2);
        }
        assert_eq!((drained(&mut receiver), receiver.lost()), (vec![4], 3));
        sender.push(5, BYTES);
        assert_eq!(drained(&mut receiver), [5]);
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_what_comes_and_by_the_end() {
        let (sender, mut receiver) = mailbox(3);
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { [receiver.next().await, receiver.next().await] });
        yield_now().await;
        sender.push(1, 1);
        yield_now().await;
        assert!(waiting.try_join_next().is_none());
        let other = sender.clone();
        drop(sender);
        yield_now().await;
        assert!(waiting.try_join_next().is_none(), "there is one more who could send");
        drop(other);
        assert_eq!(waiting.join_next().await.unwrap().unwrap(), [Some(1), None]);
    }

    #[tokio::test]
    async fn the_end_comes_after_what_is_queued() {
        let (sender, mut receiver) = mailbox(3);
        sender.push(1, 1);
        drop(sender);
        assert_eq!((receiver.next().await, receiver.next().await), (Some(1), None));
    }
}

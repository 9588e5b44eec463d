//! Queue bounded by items and bytes. It drops the oldest items instead of blocking the sender.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Sending half. When the last clone drops, the receiver gets the queued items and then the end.
pub struct MailboxSender<T>(Arc<MailboxState<T>>);

/// Receiving half. After it drops, sent items are discarded.
pub struct MailboxReceiver<T>(Arc<MailboxState<T>>);

/// Byte limit of the queue. The newest item alone may exceed it.
const MAX_BYTES: usize = 4 << 20;

/// Creates a mailbox for `capacity` items.
pub fn mailbox<T>(capacity: usize) -> (MailboxSender<T>, MailboxReceiver<T>) {
    let shared = Arc::new(MailboxState {
        senders: AtomicUsize::new(1),
        queue: Mutex::new(Queue {
            items: VecDeque::new(),
            capacity,
            bytes: 0,
            dropped: 0,
            closed: false,
            waiter: None,
        }),
    });
    (MailboxSender(Arc::clone(&shared)), MailboxReceiver(shared))
}

impl<T> MailboxSender<T> {
    /// Adds an item. `bytes` is its size.
    pub fn push(&self, item: T, bytes: usize) {
        self.0.push(QueuedItem { item, bytes, is_sticky: false });
    }

    /// Adds an item unless `is_same` matches a queued one. The item is never dropped. Use it for few kinds of items
    /// where one is as good as many.
    pub fn push_once(&self, item: T, is_same: impl Fn(&T) -> bool) {
        let known = self.0.queue().items.iter().any(|queued| is_same(&queued.item));
        if !known {
            self.0.push(QueuedItem { item, bytes: 0, is_sticky: true });
        }
    }
}

impl<T> MailboxReceiver<T> {
    /// Returns the next item, or `None` when all senders have dropped and the queue is empty.
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

    /// Returns the next item without waiting.
    pub fn try_next(&mut self) -> Option<T> {
        self.0.queue().pop()
    }

    /// Number of items that were dropped because the receiver was too slow.
    pub fn dropped(&self) -> u64 {
        self.0.queue().dropped
    }
}

struct MailboxState<T> {
    senders: AtomicUsize,
    queue: Mutex<Queue<T>>,
}

struct Queue<T> {
    items: VecDeque<QueuedItem<T>>,
    capacity: usize,
    bytes: usize,
    dropped: u64,
    /// Either half has dropped.
    closed: bool,
    /// Waker of the waiting receiver.
    waiter: Option<Waker>,
}

struct QueuedItem<T> {
    item: T,
    bytes: usize,
    is_sticky: bool,
}

impl<T> MailboxState<T> {
    fn push(&self, item: QueuedItem<T>) {
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

    /// Wakes after unlocking, because the woken task may lock at once.
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

    fn is_full_for(&self, item: &QueuedItem<T>) -> bool {
        self.items.len() >= self.capacity || self.bytes + item.bytes > MAX_BYTES
    }

    /// Returns false if no item may be dropped.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.items.iter().position(|queued| !queued.is_sticky);
        let Some(dropped) = oldest.and_then(|place| self.items.remove(place)) else {
            return false;
        };
        self.bytes -= dropped.bytes;
        self.dropped += 1;
        true
    }
}

impl<T> Clone for MailboxSender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        MailboxSender(Arc::clone(&self.0))
    }
}

impl<T> Drop for MailboxSender<T> {
    fn drop(&mut self) {
        // The queue lock orders the items; the counter needs no stronger ordering.
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.close();
        }
    }
}

impl<T> Drop for MailboxReceiver<T> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.closed = true;
        // The receiver is gone, so its waker is obsolete.
        let waiter = queue.waiter.take();
        drop(queue);
        drop(waiter);
    }
}

impl<T> fmt::Debug for MailboxSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailboxSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for MailboxReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailboxReceiver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    fn drained(receiver: &mut MailboxReceiver<u32>) -> Vec<u32> {
        std::iter::from_fn(|| receiver.try_next()).collect()
    }

    #[test]
    fn oldest_item_is_dropped_and_counted() {
        let (sender, mut receiver) = mailbox(3);
        (0..5).for_each(|item| sender.push(item, 1));
        assert_eq!((drained(&mut receiver), receiver.dropped()), (vec![2, 3, 4], 2));
    }

    #[test]
    fn sticky_items_are_neither_repeated_nor_dropped() {
        let (sender, mut receiver) = mailbox(2);
        for item in [7, 1, 7, 2, 3] {
            if item == 7 {
                sender.push_once(7, |queued| *queued == 7);
            } else {
                sender.push(item, 1);
            }
        }
        assert_eq!((drained(&mut receiver), receiver.dropped()), (vec![7, 3], 2));
    }

    #[test]
    fn byte_limit_drops_old_items_for_large_ones() {
        let (sender, mut receiver) = mailbox(100);
        for (item, bytes) in [(1, MAX_BYTES / 2), (2, MAX_BYTES / 2), (3, 1), (4, MAX_BYTES * 2)] {
            sender.push(item, bytes);
            assert!(receiver.0.queue().bytes <= MAX_BYTES * 2);
        }
        assert_eq!((drained(&mut receiver), receiver.dropped()), (vec![4], 3));
        sender.push(5, MAX_BYTES);
        assert_eq!(drained(&mut receiver), [5]);
    }

    #[tokio::test]
    async fn receiver_wakes_on_items_and_on_close() {
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
        assert!(waiting.try_join_next().is_none(), "one sender is left");
        drop(other);
        assert_eq!(waiting.join_next().await.unwrap().unwrap(), [Some(1), None]);
    }

    #[tokio::test]
    async fn receiver_drains_the_queue_before_the_end() {
        let (sender, mut receiver) = mailbox(3);
        sender.push(1, 1);
        drop(sender);
        assert_eq!((receiver.next().await, receiver.next().await), (Some(1), None));
    }
}

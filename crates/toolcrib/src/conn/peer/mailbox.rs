//! A bounded queue whose sender never waits: when nobody takes, the oldest is dropped and counted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The sending half. Dropping it lets the receiver see the end after what is queued.
pub struct Sender<T>(Arc<Shared<T>>);

/// The receiving half. Dropping it makes sending a matter of nothing.
pub struct Receiver<T>(Arc<Shared<T>>);

pub fn mailbox<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        queue: Mutex::new(Queue {
            items: VecDeque::new(),
            capacity,
            lost: 0,
            closed: false,
        }),
        arrived: Notify::new(),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    pub fn push(&self, item: T) {
        self.0.push(Item { item, keep: false });
    }

    /// For items of a few kinds, of which one tells as much as many: nothing is added where `same` finds one,
    /// and what is added is not dropped.
    pub fn push_once(&self, item: T, same: impl Fn(&T) -> bool) {
        let known = self.0.queue().items.iter().any(|queued| same(&queued.item));
        if !known {
            self.0.push(Item { item, keep: true });
        }
    }
}

impl<T> Receiver<T> {
    /// The next item; none when the sender has gone and everything was taken.
    pub async fn next(&mut self) -> Option<T> {
        loop {
            {
                let mut queue = self.0.queue();
                if let Some(Item { item, .. }) = queue.items.pop_front() {
                    return Some(item);
                }
                if queue.closed {
                    return None;
                }
            }
            self.0.arrived.notified().await;
        }
    }

    /// The next item if there is one now.
    pub fn try_next(&mut self) -> Option<T> {
        self.0.queue().items.pop_front().map(|queued| queued.item)
    }

    /// How many were dropped because nobody took them in time.
    pub fn lost(&self) -> u64 {
        self.0.queue().lost
    }
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    arrived: Notify,
}

struct Queue<T> {
    items: VecDeque<Item<T>>,
    capacity: usize,
    lost: u64,
    /// Either half has gone.
    closed: bool,
}

struct Item<T> {
    item: T,
    keep: bool,
}

impl<T> Shared<T> {
    fn push(&self, item: Item<T>) {
        let mut queue = self.queue();
        if queue.closed {
            return;
        }
        if queue.items.len() >= queue.capacity {
            queue.make_room();
        }
        queue.items.push_back(item);
        drop(queue);
        self.arrived.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.queue().closed = true;
        self.arrived.notify_one();
    }
}

impl<T> Queue<T> {
    fn make_room(&mut self) {
        let oldest = self.items.iter().position(|queued| !queued.keep);
        if oldest.and_then(|place| self.items.remove(place)).is_some() {
            self.lost += 1;
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.close();
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
    use super::*;

    fn drained(receiver: &mut Receiver<u32>) -> Vec<u32> {
        std::iter::from_fn(|| receiver.try_next()).collect()
    }

    #[test]
    fn the_oldest_is_dropped_and_counted() {
        let (sender, mut receiver) = mailbox(3);
        (0..5).for_each(|item| sender.push(item));
        assert_eq!(
            (drained(&mut receiver), receiver.lost()),
            (vec![2, 3, 4], 2)
        );
    }

    #[test]
    fn what_is_said_once_is_neither_repeated_nor_dropped() {
        let (sender, mut receiver) = mailbox(2);
        for item in [7, 1, 7, 2, 3] {
            if item == 7 {
                sender.push_once(7, |queued| *queued == 7);
            } else {
                sender.push(item);
            }
        }
        assert_eq!((drained(&mut receiver), receiver.lost()), (vec![7, 3], 2));
    }

    #[tokio::test]
    async fn the_end_comes_after_what_is_queued() {
        let (sender, mut receiver) = mailbox(3);
        sender.push(1);
        drop(sender);
        assert_eq!(
            (receiver.next().await, receiver.next().await),
            (Some(1), None)
        );
    }
}

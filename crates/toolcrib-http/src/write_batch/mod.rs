//! Batches the socket writes of one event-loop tick into one system call.
//!
//! Each write wakes the reader on the other end, which may preempt the writing thread at the end of the system call.
//! One call for all sockets interrupts the thread once.

mod batch_sender;
mod batched_stream;
mod socket_writer;

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use batch_sender::BatchSender;
pub use batched_stream::{BatchWrite, BatchedStream, Socket};
use socket_writer::Slot;
pub use socket_writer::{SocketWriter, Unwritten};

thread_local! {
    /// The current batch of the thread, like the current runtime of tokio: code that opens sockets deep in the call
    /// tree needs no parameter.
    static CURRENT: RefCell<Option<WriteBatch>> = const { RefCell::new(None) };
}

/// The queued writes of one thread. Clones share the queue.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch(Arc<BatchQueue>);

#[derive(Debug, Default)]
struct BatchQueue {
    state: Mutex<QueueState>,
    flush_requested: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    slots: Vec<Arc<Slot>>,
    is_closed: bool,
}

/// Keeps a batch current for its thread. Sockets opened meanwhile write through the batch. Must be dropped on the same
/// thread.
#[derive(Debug)]
pub struct CurrentBatchGuard {
    previous: Option<WriteBatch>,
}

impl WriteBatch {
    /// The current batch of this thread.
    fn current() -> Option<WriteBatch> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// True if this thread has a current batch.
    pub fn has_current() -> bool {
        CURRENT.with_borrow(Option::is_some)
    }

    /// Makes this batch the current one of the thread.
    #[must_use]
    pub fn set_current(&self) -> CurrentBatchGuard {
        CurrentBatchGuard { previous: CURRENT.replace(Some(self.clone())) }
    }

    /// Writes queued bytes until it is dropped. The task runs after all tasks that were ready before it was woken.
    pub fn run(self) -> impl Future<Output = ()> + Send {
        let mut running = RunningBatch { shared: self.0, slots: Vec::new() };
        async move {
            let mut sender = BatchSender::default();
            loop {
                running.shared.flush_requested.notified().await;
                mem::swap(&mut running.slots, &mut running.shared.state().slots);
                sender.send_all(&running.slots);
                running.slots.clear();
            }
        }
    }

    /// Queues a slot. Returns false when the batch has ended.
    fn enqueue(&self, slot: &Arc<Slot>) -> bool {
        let mut state = self.0.state();
        if state.is_closed {
            return false;
        }
        state.slots.push(Arc::clone(slot));
        let is_first = state.slots.len() == 1;
        drop(state);
        if is_first {
            self.0.flush_requested.notify_one();
        }
        true
    }
}

impl BatchQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running batch. Dropping it ends the batch.
struct RunningBatch {
    shared: Arc<BatchQueue>,
    /// The slots being written.
    slots: Vec<Arc<Slot>>,
}

impl Drop for RunningBatch {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_closed = true;
        let slots = mem::take(&mut state.slots);
        drop(state);
        // The owners of the remaining bytes write them themselves.
        for slot in self.slots.drain(..).chain(slots) {
            let mut state = slot.state();
            if state.start_write() {
                state.record_result(Ok(0));
            }
        }
    }
}

impl Drop for CurrentBatchGuard {
    fn drop(&mut self) {
        CURRENT.set(self.previous.take());
    }
}

#[cfg(test)]
mod tests;

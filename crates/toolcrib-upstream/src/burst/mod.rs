//! What one thread has to write to many sockets, written together at the end of its turn. Each write wakes whoever reads
//! it, and whoever is woken takes the processor at the end of that call of the system: with one call for all of them
//! the thread is interrupted once.

mod outlet;
mod ring;

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use outlet::Slot;
pub use outlet::{Left, Outlet};
use ring::Ring;

thread_local! {
    /// Whoever opens a socket deep below has it served by the thread that it is on, as with the runtime itself.
    static HERE: RefCell<Option<Burst>> = const { RefCell::new(None) };
}

/// The writes of one thread. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Burst(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    slots: Vec<Arc<Slot>>,
    is_over: bool,
}

/// While it lives, what is opened on this thread writes in its burst. It has to be dropped there.
#[derive(Debug)]
pub struct Settled {
    before: Option<Burst>,
}

impl Burst {
    /// That of this thread, if it has one.
    fn here() -> Option<Burst> {
        HERE.with_borrow(Clone::clone)
    }

    /// Whether this thread has one.
    pub fn is_here() -> bool {
        HERE.with_borrow(Option::is_some)
    }

    /// Makes it that of this thread.
    #[must_use]
    pub fn settle(&self) -> Settled {
        Settled { before: HERE.replace(Some(self.clone())) }
    }

    /// Writes what is put into outlets, until it is dropped. A task of the thread that does this comes after all that
    /// were ready before it was woken.
    pub fn run(self) -> impl Future<Output = ()> + Send {
        let mut running = Running { shared: self.0, slots: Vec::new() };
        async move {
            let mut ring = Ring::default();
            loop {
                running.shared.wanted.notified().await;
                mem::swap(&mut running.slots, &mut running.shared.waiting().slots);
                ring.write(&running.slots);
                running.slots.clear();
            }
        }
    }

    /// False where nobody writes any more.
    fn add(&self, slot: &Arc<Slot>) -> bool {
        let mut waiting = self.0.waiting();
        if waiting.is_over {
            return false;
        }
        waiting.slots.push(Arc::clone(slot));
        let is_first = waiting.slots.len() == 1;
        drop(waiting);
        if is_first {
            self.0.wanted.notify_one();
        }
        true
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it lives, somebody writes.
struct Running {
    shared: Arc<Shared>,
    /// Those that are being written.
    slots: Vec<Arc<Slot>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        waiting.is_over = true;
        let slots = mem::take(&mut waiting.slots);
        drop(waiting);
        // Whoever has put something writes it himself.
        for slot in self.slots.drain(..).chain(slots) {
            let mut state = slot.state();
            if state.has_something() {
                state.wrote(Ok(0));
            }
        }
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        HERE.set(self.before.take());
    }
}

#[cfg(test)]
mod tests;

//! Further threads for connections, each with a scheduler of its own. All that is done for a connection stays on one
//! thread, so that no call has to wake another.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The threads that serve connections: the one that listens, and these.
#[derive(Debug, Default)]
pub struct Loops {
    /// How many connections the thread that listens has.
    own: Load,
    others: Vec<Loop>,
}

#[derive(Debug)]
struct Loop {
    handle: Handle,
    load: Load,
    /// Told to end by being dropped.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How many connections a thread has.
#[derive(Clone, Debug, Default)]
struct Load(Arc<AtomicUsize>);

/// A connection's place on a thread, which is taken for as long as this lives.
#[derive(Debug)]
pub(super) struct Seat(Load);

impl Loops {
    /// So many threads besides.
    pub fn start(besides: usize) -> io::Result<Self> {
        let others = (0..besides).map(|_| Loop::start()).collect::<io::Result<_>>()?;
        Ok(Loops { own: Load::default(), others })
    }

    /// A place where there are the fewest; on which thread that is, unless it is the one that listens. That one is
    /// preferred: it is where servers on standard streams are spoken to.
    pub(super) fn seat(&self) -> (Seat, Option<&Handle>) {
        let others = self.others.iter().map(|it| (&it.load, Some(&it.handle)));
        let least = others.fold((&self.own, None), |least, other| {
            if other.0.count() < least.0.count() { other } else { least }
        });
        (least.0.take(), least.1)
    }
}

impl Loop {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let run = move || {
            // Nothing is ever sent.
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("toolcrib-loop".to_owned()).spawn(run)?;
        Ok(Loop { handle, load: Load::default(), end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // One that has fallen has ended as well.
            let _ = thread.join();
        }
    }
}

impl Load {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn take(&self) -> Seat {
        self.0.fetch_add(1, Ordering::Relaxed);
        Seat(self.clone())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of threads, the listening one first.
    fn taken(loops: &Loops) -> Vec<usize> {
        let others = loops.others.iter().map(|it| it.load.count());
        [loops.own.count()].into_iter().chain(others).collect()
    }

    #[test]
    fn connections_are_spread_over_threads_and_the_first_is_where_it_was_accepted() {
        let loops = Loops::start(2).unwrap();
        let mut seats = Vec::new();
        for expected in [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1], [2, 2, 1]] {
            seats.push(loops.seat().0);
            assert_eq!(taken(&loops), expected);
        }
        seats.remove(2);
        seats.remove(0);
        assert_eq!(taken(&loops), [1, 2, 0]);
        let (_seat, thread) = loops.seat();
        assert_eq!(thread.map(Handle::id), Some(loops.others[1].handle.id()));
    }

    #[test]
    fn without_further_threads_everything_is_done_where_it_is_accepted() {
        let loops = Loops::default();
        let seats: Vec<Seat> = (0..3)
            .map(|_| loops.seat())
            .map(|(seat, thread)| {
                assert!(thread.is_none());
                seat
            })
            .collect();
        assert_eq!(taken(&loops), [seats.len()]);
    }

    #[test]
    fn a_thread_ends_with_its_owner_although_something_is_still_done_on_it() {
        let loops = Loops::start(1).unwrap();
        let task = loops.others[0].handle.spawn(std::future::pending::<()>());
        drop(loops);
        let waiting = Builder::new_current_thread().build().unwrap();
        assert!(waiting.block_on(task).unwrap_err().is_cancelled());
    }
}

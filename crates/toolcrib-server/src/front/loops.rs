//! Further threads for connections, each with a scheduler of its own. All that is done for a connection stays on one
//! thread, so that no call has to wake another.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use toolcrib_upstream::burst::Burst;

use super::vigil::Vigil;

/// The threads that serve connections: the one that listens, and these.
#[derive(Debug, Default)]
pub struct Loops {
    /// How many connections the thread that listens has.
    own: Load,
    vigil: Vigil,
    others: Vec<Loop>,
}

#[derive(Debug)]
struct Loop {
    handle: Handle,
    load: Load,
    vigil: Vigil,
    /// Told to end by being dropped.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How many connections a thread has.
#[derive(Clone, Debug, Default)]
struct Load(Arc<AtomicUsize>);

/// A connection's place on a thread, which is taken for as long as this lives.
#[derive(Debug)]
pub(super) struct Seat {
    load: Load,
    /// What keeps the thread awake, where there are others that can go on meanwhile.
    pub(super) vigil: Option<Vigil>,
}

impl Loops {
    /// So many threads besides.
    pub fn start(besides: usize) -> io::Result<Self> {
        let others = (0..besides).map(|_| Loop::start()).collect::<io::Result<_>>()?;
        Ok(Loops { others, ..Loops::default() })
    }

    /// Keeps the thread that listens awake while that is wanted, and writes what its connections say. Never ends itself.
    pub(super) async fn keep(&self) {
        keep(&self.vigil).await;
    }

    /// A place where there are the fewest; on which thread that is, unless it is the one that listens. That one is
    /// preferred: it is where servers on standard streams are spoken to.
    pub(super) fn seat(&self) -> (Seat, Option<&Handle>) {
        let others = self.others.iter().map(|it| (&it.load, &it.vigil, Some(&it.handle)));
        let (load, vigil, thread) = others.fold((&self.own, &self.vigil, None), |least, other| {
            if other.0.count() < least.0.count() { other } else { least }
        });
        // On the only thread, whoever stayed awake would keep others from what he waits for.
        let vigil = Some(vigil.clone()).filter(|_| !self.others.is_empty());
        (Seat { load: load.taken(), vigil }, thread)
    }
}

impl Loop {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let vigil = Vigil::default();
        let keeper = vigil.clone();
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    // Nothing is ever sent.
                    _ = ended => {}
                    () = keep(&keeper) => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("toolcrib-loop".to_owned()).spawn(run)?;
        let (load, end, thread) = (Load::default(), Some(end), Some(thread));
        Ok(Loop { handle, load, vigil, end, thread })
    }
}

/// What a thread that serves connections has besides: it stays awake while that is wanted, and what its connections and
/// those to servers say goes out together.
async fn keep(vigil: &Vigil) {
    let (burst, mut writing) = (Burst::default(), JoinSet::new());
    let _settled = burst.settle();
    writing.spawn(burst.run());
    vigil.keep().await;
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

    fn taken(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.load.0.fetch_sub(1, Ordering::Relaxed);
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
        let (seat, thread) = loops.seat();
        assert_eq!(thread.map(Handle::id), Some(loops.others[1].handle.id()));
        assert!(seat.vigil.is_some());
    }

    #[test]
    fn without_further_threads_everything_is_done_where_it_is_accepted() {
        let loops = Loops::default();
        let seats: Vec<Seat> = (0..3)
            .map(|_| loops.seat())
            .map(|(seat, thread)| {
                assert!(thread.is_none() && seat.vigil.is_none());
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

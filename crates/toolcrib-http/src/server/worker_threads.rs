//! Worker threads for connections, each with a single-threaded runtime. All work for a connection stays on one thread,
//! so that no call wakes another thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use crate::write_batch::WriteBatch;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::busy_poll::BusyPoll;

/// The main thread, which accepts connections, and the worker threads.
#[derive(Debug, Default)]
pub struct WorkerThreads {
    /// Number of connections on the main thread.
    main_connections: ConnectionCount,
    busy_poll: BusyPoll,
    workers: Vec<WorkerThread>,
}

#[derive(Debug)]
struct WorkerThread {
    handle: Handle,
    connections: ConnectionCount,
    busy_poll: BusyPoll,
    /// Dropping the sender stops the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Number of connections on a thread.
#[derive(Clone, Debug, Default)]
struct ConnectionCount(Arc<AtomicUsize>);

/// The place of a connection on a thread, until it is dropped.
#[derive(Debug)]
pub struct ThreadSlot {
    connections: ConnectionCount,
    /// Keeps the thread awake, if other threads can run meanwhile.
    pub busy_poll: Option<BusyPoll>,
}

impl WorkerThreads {
    /// Starts `additional` worker threads.
    pub fn start(additional: usize) -> io::Result<Self> {
        let workers = (0..additional).map(|_| WorkerThread::start()).collect::<io::Result<_>>()?;
        Ok(WorkerThreads { workers, ..WorkerThreads::default() })
    }

    /// Runs busy polling and batched writes of the main thread. Never returns.
    pub async fn run_main(&self) {
        run_io(&self.busy_poll).await;
    }

    /// Assigns a connection to the least loaded thread; `None` is the main thread. The main thread is preferred,
    /// because it serves the servers on standard streams.
    pub fn assign_connection(&self) -> (ThreadSlot, Option<&Handle>) {
        let workers =
            self.workers.iter().map(|it| (&it.connections, &it.busy_poll, Some(&it.handle)));
        let (connections, busy_poll, thread) =
            workers.fold((&self.main_connections, &self.busy_poll, None), |least, other| {
                if other.0.count() < least.0.count() { other } else { least }
            });
        // With a single thread, busy polling would delay the work that it waits for.
        let busy_poll = Some(busy_poll.clone()).filter(|_| !self.workers.is_empty());
        (ThreadSlot { connections: connections.increment(), busy_poll }, thread)
    }
}

impl WorkerThread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let busy_poll = BusyPoll::default();
        let poller = busy_poll.clone();
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    // The channel carries no message; its sender is dropped.
                    _ = stopped => {}
                    () = run_io(&poller) => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("toolcrib-loop".to_owned()).spawn(run)?;
        let (connections, stop, thread) = (ConnectionCount::default(), Some(stop), Some(thread));
        Ok(WorkerThread { handle, connections, busy_poll, stop, thread })
    }
}

/// Runs busy polling and the batched writes of clients and servers on one thread.
async fn run_io(busy_poll: &BusyPoll) {
    let (batch, mut writing) = (WriteBatch::default(), JoinSet::new());
    let _guard = batch.set_current();
    writing.spawn(batch.run());
    busy_poll.run().await;
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panicked thread has ended, too.
            let _ = thread.join();
        }
    }
}

impl ConnectionCount {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn increment(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.clone()
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.connections.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections per thread, the main thread first.
    fn counts(threads: &WorkerThreads) -> Vec<usize> {
        let workers = threads.workers.iter().map(|it| it.connections.count());
        [threads.main_connections.count()].into_iter().chain(workers).collect()
    }

    #[test]
    fn connections_go_to_the_least_loaded_thread() {
        let threads = WorkerThreads::start(2).unwrap();
        let mut slots = Vec::new();
        for expected in [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1], [2, 2, 1]] {
            slots.push(threads.assign_connection().0);
            assert_eq!(counts(&threads), expected);
        }
        slots.remove(2);
        slots.remove(0);
        assert_eq!(counts(&threads), [1, 2, 0]);
        let (assign_connection, thread) = threads.assign_connection();
        assert_eq!(thread.map(Handle::id), Some(threads.workers[1].handle.id()));
        assert!(assign_connection.busy_poll.is_some());
    }

    #[test]
    fn without_workers_connections_stay_on_the_main_thread() {
        let threads = WorkerThreads::default();
        let slots: Vec<ThreadSlot> = (0..3)
            .map(|_| threads.assign_connection())
            .map(|(assign_connection, thread)| {
                assert!(thread.is_none() && assign_connection.busy_poll.is_none());
                assign_connection
            })
            .collect();
        assert_eq!(counts(&threads), [slots.len()]);
    }

    #[test]
    fn worker_thread_stops_on_drop_with_pending_tasks() {
        let threads = WorkerThreads::start(1).unwrap();
        let task = threads.workers[0].handle.spawn(std::future::pending::<()>());
        drop(threads);
        let waiting = Builder::new_current_thread().build().unwrap();
        assert!(waiting.block_on(task).unwrap_err().is_cancelled());
    }
}

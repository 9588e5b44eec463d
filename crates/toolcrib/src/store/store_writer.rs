//! The store's thread, which owns the connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rusqlite::Connection;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use toolcrib_config::Problem;
use tracing::warn;

use super::call_records;
use super::error::{StoreError, StoreOpenError, UNWRITABLE};
use super::limits::StoreLimits;
use super::record_queue::RecordQueue;
use super::schema;
use super::store_file::{StoreFile, is_damage};

pub(super) type Job = Box<dyn FnOnce(&mut StoreWriter) + Send>;

#[derive(Debug)]
pub(super) struct StoreWriter {
    /// `None` for a store in memory.
    file: Option<StoreFile>,
    /// `None` while a damaged file is not replaced yet. Each use tries again.
    db: Option<Connection>,
    damaged: bool,
    limits: StoreLimits,
    shared: Arc<StoreShared>,
}

/// State shared by the thread and the handles.
#[derive(Debug)]
pub(super) struct StoreShared {
    pub(super) queue: RecordQueue,
    pub(super) shutdown: Notify,
    problems: Mutex<BTreeMap<String, Problem>>,
}

impl StoreShared {
    pub(super) fn new(limits: &StoreLimits) -> Self {
        let queue = RecordQueue::new(limits.max_queued_calls);
        Self { queue, shutdown: Notify::new(), problems: Mutex::default() }
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.values().cloned().collect()
    }

    fn report_problem(&self, problem: Problem) {
        let (code, text) = (problem.code.clone(), problem.text.clone());
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        // A repeated problem is logged once.
        if problems.insert(problem.id.clone(), problem).is_none() {
            warn!(%code, problem = %text, "store problem");
        }
    }

    fn clear_problem(&self, code: &str) {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).remove(code);
    }
}

impl StoreWriter {
    /// Opens the file, or memory if there is none. Blocks.
    pub(super) fn open(
        file: Option<StoreFile>,
        limits: StoreLimits,
        shared: Arc<StoreShared>,
    ) -> Result<Self, StoreOpenError> {
        let mut writer = Self { file, db: None, damaged: false, limits, shared };
        writer.connect()?;
        Ok(writer)
    }

    /// Runs until the store closes or all handles are dropped. Finishes the queued jobs first.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut due: Option<Instant> = None;
        loop {
            tokio::select! {
                job = jobs.recv() => match job {
                    Some(job) => job(&mut self),
                    None => break,
                },
                () = self.shared.shutdown.notified() => break,
                () = self.shared.queue.wakeup.notified() => due = self.next_write_time(due),
                // A failed write is reported as a problem and retried.
                () = wait_until(due) => due = self.write_calls().err().and_then(|_| self.batch_deadline()),
            }
        }
        jobs.close();
        while let Some(job) = jobs.recv().await {
            job(&mut self);
        }
        // The last attempt. Its failure has been reported, and no caller is left.
        drop(self.write_calls());
    }

    /// Runs the work. If the file proves to be damaged, replaces it and runs the work once more.
    pub(super) fn run_with_recovery<T>(
        &mut self,
        doing: &'static str,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let damaged = |cause| StoreError::Damaged { doing, cause };
        let done = work(self.connect().map_err(damaged)?);
        let done = match done {
            Err(error) if is_damage(&error) => {
                (self.db, self.damaged) = (None, true);
                work(self.connect().map_err(damaged)?)
            }
            done => done,
        };
        done.map_err(|cause| StoreError::Sql { doing, cause })
    }

    /// Writes the queued records. Records that cannot be written return to the queue, as far as there is room.
    pub(super) fn write_calls(&mut self) -> Result<(), StoreError> {
        let calls = self.shared.queue.drain();
        if calls.is_empty() {
            return Ok(());
        }
        let (limits, now) = (self.limits, SystemTime::now());
        let written = self.run_with_recovery("write call records", |db| {
            call_records::write(db, &calls, &limits, now)
        });
        match &written {
            Ok(()) => self.shared.clear_problem(WRITE_PROBLEM),
            Err(error) => {
                self.shared.queue.restore(calls);
                self.shared.report_problem(write_problem(error));
            }
        }
        written
    }

    /// Returns the time of the next write: now if the queue is half full, otherwise after the batch delay.
    fn next_write_time(&self, due: Option<Instant>) -> Option<Instant> {
        if self.shared.queue.is_half_full() {
            Some(Instant::now())
        } else {
            due.or_else(|| self.batch_deadline())
        }
    }

    fn batch_deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.limits.batch)
    }

    fn connect(&mut self) -> Result<&Connection, StoreOpenError> {
        let db = match (self.db.take(), &self.file) {
            (Some(db), _) => db,
            (None, None) => open_in_memory()?,
            (None, Some(file)) => {
                let (db, problem) = if self.damaged { file.replace() } else { file.connect() }?;
                problem.into_iter().for_each(|problem| self.shared.report_problem(problem));
                db
            }
        };
        self.damaged = false;
        Ok(self.db.insert(db))
    }
}

const WRITE_PROBLEM: &str = "store.write";

fn open_in_memory() -> Result<Connection, StoreOpenError> {
    let failed = |cause| StoreOpenError::File { path: ":memory:".into(), cause };
    let mut db = Connection::open_in_memory().map_err(failed)?;
    schema::migrate(&mut db, 0).map_err(failed)?;
    Ok(db)
}

fn write_problem(error: &StoreError) -> Problem {
    let text = match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    Problem::warning(WRITE_PROBLEM, text).fix(UNWRITABLE)
}

async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

//! The thread of the store: the only one that has the connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rusqlite::Connection;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use toolcrib_config::Problem;
use tracing::warn;

use super::calls;
use super::error::{OpenError, StoreError, UNWRITABLE};
use super::file::{StoreFile, is_damage};
use super::limits::Limits;
use super::ring::Ring;
use super::schema;

pub(super) type Job = Box<dyn FnOnce(&mut Writer) + Send>;

#[derive(Debug)]
pub(super) struct Writer {
    /// None where it is all in memory.
    file: Option<StoreFile>,
    /// None where the file turned out to be damaged and could not be replaced yet; each use tries again.
    db: Option<Connection>,
    damaged: bool,
    limits: Limits,
    shared: Arc<Shared>,
}

/// What the thread and the handles share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) ring: Ring,
    pub(super) closing: Notify,
    problems: Mutex<BTreeMap<String, Problem>>,
}

impl Shared {
    pub(super) fn new(limits: &Limits) -> Self {
        let ring = Ring::new(limits.ring);
        Self { ring, closing: Notify::new(), problems: Mutex::default() }
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.values().cloned().collect()
    }

    fn tell(&self, problem: Problem) {
        let (code, text) = (problem.code.clone(), problem.text.clone());
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        // What goes wrong again and again is logged once.
        if problems.insert(problem.id.clone(), problem).is_none() {
            warn!(%code, problem = %text, "the store is not well");
        }
    }

    fn is_well(&self, code: &str) {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).remove(code);
    }
}

impl Writer {
    /// Opens the file, or memory where there is none. Blocks.
    pub(super) fn open(
        file: Option<StoreFile>,
        limits: Limits,
        shared: Arc<Shared>,
    ) -> Result<Self, OpenError> {
        let mut writer = Self { file, db: None, damaged: false, limits, shared };
        writer.connect()?;
        Ok(writer)
    }

    /// Until it is told to close, or nobody is left who could ask for anything. What was asked for is done before.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut due: Option<Instant> = None;
        loop {
            tokio::select! {
                job = jobs.recv() => match job {
                    Some(job) => job(&mut self),
                    None => break,
                },
                () = self.shared.closing.notified() => break,
                () = self.shared.ring.bell.notified() => due = self.ripe(due),
                // A failure is told as a problem, and tried again.
                () = reached(due) => due = self.write_calls().err().and_then(|_| self.later()),
            }
        }
        jobs.close();
        while let Some(job) = jobs.recv().await {
            job(&mut self);
        }
        // The last try; its failure has been told, and nobody is left to hear of it.
        drop(self.write_calls());
    }

    /// Does something twice at most: a second time after a damaged file was replaced by a new one.
    pub(super) fn run_on<T>(
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

    /// Writes what waits in the ring. What cannot be written waits on, as far as there is room.
    pub(super) fn write_calls(&mut self) -> Result<(), StoreError> {
        let calls = self.shared.ring.drain();
        if calls.is_empty() {
            return Ok(());
        }
        let (limits, now) = (self.limits, SystemTime::now());
        let written =
            self.run_on("write records of calls", |db| calls::write(db, &calls, &limits, now));
        match &written {
            Ok(()) => self.shared.is_well(WRITE),
            Err(error) => {
                self.shared.ring.restore(calls);
                self.shared.tell(unwritten(error));
            }
        }
        written
    }

    /// When to write next: at once where the ring fills up, else when there was time for a batch.
    fn ripe(&self, due: Option<Instant>) -> Option<Instant> {
        if self.shared.ring.is_urgent() {
            Some(Instant::now())
        } else {
            due.or_else(|| self.later())
        }
    }

    fn later(&self) -> Option<Instant> {
        Instant::now().checked_add(self.limits.batch)
    }

    fn connect(&mut self) -> Result<&Connection, OpenError> {
        let db = match (self.db.take(), &self.file) {
            (Some(db), _) => db,
            (None, None) => in_memory()?,
            (None, Some(file)) => {
                let (db, problem) = if self.damaged { file.replace() } else { file.connect() }?;
                problem.into_iter().for_each(|problem| self.shared.tell(problem));
                db
            }
        };
        self.damaged = false;
        Ok(self.db.insert(db))
    }
}

const WRITE: &str = "store.write";

fn in_memory() -> Result<Connection, OpenError> {
    let failed = |cause| OpenError::File { path: ":memory:".into(), cause };
    let mut db = Connection::open_in_memory().map_err(failed)?;
    schema::migrate(&mut db, 0).map_err(failed)?;
    Ok(db)
}

fn unwritten(error: &StoreError) -> Problem {
    let text = match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    Problem::warning(WRITE, text).fix(UNWRITABLE)
}

async fn reached(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

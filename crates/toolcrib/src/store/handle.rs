//! The handle of the store.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind::BrokenPipe;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use toolcrib_config::{ConfigHash, Problem};
use toolcrib_upstream::conn::{ServerTraits, TraitStore};
use tracing::debug;

use super::call_records::{self, CallRecord, StoredCall};
use super::catalog::{self, StoredCatalog};
use super::error::{StoreError, StoreOpenError};
use super::limits::StoreLimits;
use super::pins::{self, Pin, PinnedServer};
use super::server_traits;
use super::settings::{self, ServerOverride};
use super::store_file::{self, StoreFile};
use super::store_writer::{Job, StoreShared, StoreWriter};

/// Maximum jobs in the writer's queue. Further callers wait.
const MAX_QUEUED_JOBS: usize = 64;

/// The host's persistent state. Clones share it. When the last clone is dropped, queued records are written and the
/// store closes.
#[derive(Debug, Clone)]
pub struct Store {
    jobs: mpsc::Sender<Job>,
    shared: Arc<StoreShared>,
    limits: StoreLimits,
    thread: Arc<Mutex<Option<StoreThread>>>,
}

#[derive(Debug)]
struct StoreThread {
    handle: JoinHandle<()>,
    /// Disconnected when the thread is about to end.
    finished: Receiver<()>,
}

impl Store {
    /// Returns whether a state folder has a store, without creating one.
    pub fn exists_in(folder: &Path) -> bool {
        store_file::exists_in(folder)
    }

    /// Opens or creates the store in a state folder. A damaged file is moved aside and reported as a problem. A file
    /// of a newer version is an error.
    pub async fn open(folder: &Path, limits: StoreLimits) -> Result<Self, StoreOpenError> {
        let folder = folder.to_owned();
        Self::start(limits, move || StoreFile::new(&folder).map(Some)).await
    }

    /// Opens a store in memory, for programs without persistent state.
    pub async fn in_memory(limits: StoreLimits) -> Result<Self, StoreOpenError> {
        Self::start(limits, || Ok(None)).await
    }

    /// Returns the current problems of the store.
    pub fn problems(&self) -> Vec<Problem> {
        self.shared.problems()
    }

    /// Returns the servers that a dialog has switched on or off, by key.
    pub async fn switches(&self, dialog: &str) -> Result<Vec<(String, bool)>, StoreError> {
        let dialog = dialog.to_owned();
        self.query("read a dialog's switches", move |db| settings::switches(db, &dialog)).await
    }

    /// Stores a dialog's switch of a server.
    pub async fn set_switch(&self, dialog: &str, server: &str, on: bool) -> Result<(), StoreError> {
        let (dialog, server) = (dialog.to_owned(), server.to_owned());
        self.query("store a switch", move |db| settings::set_switch(db, &dialog, &server, on)).await
    }

    /// Deletes everything about a dialog except its call records.
    pub async fn forget_dialog(&self, dialog: &str) -> Result<(), StoreError> {
        let dialog = dialog.to_owned();
        self.query("delete a dialog's switches", move |db| settings::forget_dialog(db, &dialog))
            .await
    }

    /// Returns the servers that a person has enabled or disabled, by key.
    pub async fn overrides(&self) -> Result<BTreeMap<String, ServerOverride>, StoreError> {
        self.query("read overrides", settings::overrides).await
    }

    /// Stores an override of a server.
    pub async fn set_override(&self, server: &str, to: ServerOverride) -> Result<(), StoreError> {
        let server = server.to_owned();
        self.query("store an override", move |db| settings::set_override(db, &server, &to)).await
    }

    /// Removes an override, so the server's file decides again.
    pub async fn clear_override(&self, server: &str) -> Result<(), StoreError> {
        let server = server.to_owned();
        self.query("clear an override", move |db| settings::clear_override(db, &server)).await
    }

    /// Queues a call record. Never waits and never fails. If records come faster than they are written, the oldest
    /// are dropped.
    pub fn record(&self, call: CallRecord) {
        self.shared.queue.push(call);
    }

    /// Returns the number of records that were dropped unwritten.
    pub fn dropped_records(&self) -> u64 {
        self.shared.queue.dropped()
    }

    /// Returns call records, newest first, below a number if one is given. Writes queued records first.
    pub async fn calls(
        &self,
        below: Option<u64>,
        limit: u32,
    ) -> Result<Vec<StoredCall>, StoreError> {
        self.flush().await?;
        self.query("read call records", move |db| call_records::read(db, below, limit)).await
    }

    /// Writes queued records.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.run_on_writer("write call records", StoreWriter::write_calls).await
    }

    /// Returns the stored catalog of a server, by its key and the hash of its definition.
    pub async fn catalog(
        &self,
        server: &str,
        hash: &str,
    ) -> Result<Option<StoredCatalog>, StoreError> {
        let (server, hash) = (server.to_owned(), hash.to_owned());
        self.query("read a catalog", move |db| catalog::read(db, &server, &hash)).await
    }

    /// Stores the catalog of a server.
    pub async fn set_catalog(
        &self,
        server: &str,
        hash: &str,
        catalog: StoredCatalog,
    ) -> Result<(), StoreError> {
        let (server, hash, limit) = (server.to_owned(), hash.to_owned(), self.limits.catalog_bytes);
        let write = move |db: &Connection| catalog::write(db, &server, &hash, &catalog, limit);
        self.query("store a catalog", write).await
    }

    /// Returns the pinned definitions of each server's tools, with their hashes only.
    pub async fn pins(&self, servers: Vec<PinnedServer>) -> Result<Vec<Vec<Pin>>, StoreError> {
        let read =
            move |db: &Connection| servers.iter().map(|server| pins::read(db, server)).collect();
        self.query("read pinned tool definitions", read).await
    }

    /// Returns the stored texts of some pinned definitions.
    pub async fn pinned_definitions(
        &self,
        server: &PinnedServer,
        tools: Vec<String>,
    ) -> Result<HashMap<String, String>, StoreError> {
        let server = server.clone();
        let read = move |db: &Connection| pins::definitions(db, &server, &tools);
        self.query("read pinned tool definitions", read).await
    }

    /// Stores pins for these tools, at most `limit` per server.
    pub async fn set_pins(
        &self,
        server: &PinnedServer,
        pins: Arc<[Pin]>,
        limit: usize,
    ) -> Result<(), StoreError> {
        let (server, now) = (server.clone(), SystemTime::now());
        let write = move |db: &Connection| pins::write(db, &server, &pins, limit, now);
        self.query("store pinned tool definitions", write).await
    }

    /// Returns the server traits from earlier hosts, by the hashes of server definitions.
    pub async fn server_traits(&self) -> Result<Vec<(ConfigHash, ServerTraits)>, StoreError> {
        self.query("read server traits", server_traits::read).await
    }

    /// Writes queued records and closes the store for all clones. Returns false if this takes longer than `wait`; the
    /// writer then continues.
    pub async fn close(&self, wait: Duration) -> bool {
        self.shared.shutdown.notify_one();
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return true;
        };
        // Waits in real time, because a paused clock must not end this wait.
        let ended = spawn_blocking(move || {
            let late = thread.finished.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
            !late && thread.handle.join().is_ok()
        });
        ended.await.unwrap_or(false)
    }

    async fn start(
        limits: StoreLimits,
        file: impl FnOnce() -> Result<Option<StoreFile>, StoreOpenError> + Send + 'static,
    ) -> Result<Self, StoreOpenError> {
        let shared = Arc::new(StoreShared::new(&limits));
        let (jobs, inbox) = mpsc::channel(MAX_QUEUED_JOBS);
        let (ready, opened) = oneshot::channel();
        let (running, finished) = sync_channel(0);
        let thread_shared = shared.clone();
        let run = move || {
            run_thread(|| StoreWriter::open(file()?, limits, thread_shared), inbox, ready);
            drop(running);
        };
        let handle = thread::Builder::new()
            .name("toolcrib-store".to_owned())
            .spawn(run)
            .map_err(StoreOpenError::Thread)?;
        opened.await.unwrap_or_else(|_| Err(StoreOpenError::Thread(BrokenPipe.into())))?;
        let thread = Arc::new(Mutex::new(Some(StoreThread { handle, finished })));
        Ok(Self { jobs, shared, limits, thread })
    }

    async fn query<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_on_writer(doing, move |writer| writer.run_with_recovery(doing, work)).await
    }

    fn enqueue_job(
        &self,
        doing: &'static str,
        work: impl Fn(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) {
        let job: Job = Box::new(move |writer| {
            if let Err(error) = writer.run_with_recovery(doing, work) {
                debug!(%error, "server traits were not written");
            }
        });
        if self.jobs.try_send(job).is_err() {
            debug!(doing, "server traits were dropped because the store's queue is full");
        }
    }

    async fn run_on_writer<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&mut StoreWriter) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |writer| {
            // The caller may have gone; the job is done nevertheless.
            let _ = reply.send(work(writer));
        });
        self.jobs.send(job).await.map_err(|_| StoreError::Closed { doing })?;
        answer.await.map_err(|_| StoreError::Closed { doing })?
    }
}

/// Both methods ignore errors, because the next host detects unwritten traits again.
impl TraitStore for Store {
    fn insert(&self, hash: ConfigHash, traits: ServerTraits) {
        let now = SystemTime::now();
        let doing = "store server traits";
        self.enqueue_job(doing, move |db| server_traits::write(db, hash, traits, now));
    }

    fn remove(&self, hash: ConfigHash) {
        self.enqueue_job("delete server traits", move |db| server_traits::delete(db, hash));
    }
}

fn run_thread(
    open: impl FnOnce() -> Result<StoreWriter, StoreOpenError>,
    inbox: mpsc::Receiver<Job>,
    ready: oneshot::Sender<Result<(), StoreOpenError>>,
) {
    let runtime =
        Builder::new_current_thread().enable_time().build().map_err(StoreOpenError::Thread);
    let opened = runtime.and_then(|runtime| Ok((runtime, open()?)));
    let (notified, parts) = match opened {
        Ok((runtime, writer)) => (ready.send(Ok(())), Some((runtime, writer))),
        Err(error) => (ready.send(Err(error)), None),
    };
    // The caller may have gone.
    if let (Ok(()), Some((runtime, writer))) = (notified, parts) {
        runtime.block_on(writer.run(inbox));
    }
}

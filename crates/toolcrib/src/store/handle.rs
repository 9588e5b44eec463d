//! The store as everybody else uses it.

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
use toolcrib_config::{Hash, Problem};
use toolcrib_upstream::conn::{Learned, LearnedStore};
use tracing::debug;

use super::calls::{self, CallRecord, Recorded};
use super::catalog::{self, Remembered};
use super::error::{OpenError, StoreError};
use super::file::{self, StoreFile};
use super::learned;
use super::limits::Limits;
use super::pins::{self, Pin, PinnedServer};
use super::settings::{self, Override};
use super::writer::{Job, Shared, Writer};

/// Work that waits for the thread at one time; more waits in its callers.
const QUEUE: usize = 64;

/// What the host remembers. Clones share it; when the last one is dropped, what is left is written and it closes.
#[derive(Debug, Clone)]
pub struct Store {
    jobs: mpsc::Sender<Job>,
    shared: Arc<Shared>,
    limits: Limits,
    thread: Arc<Mutex<Option<Thread>>>,
}

#[derive(Debug)]
struct Thread {
    handle: JoinHandle<()>,
    /// Disconnected when the thread is about to end.
    finished: Receiver<()>,
}

impl Store {
    /// Whether a state folder has one, for whoever only wants to look and must not begin it.
    pub fn is_in(folder: &Path) -> bool {
        file::is_in(folder)
    }

    /// Opens the store in a state folder, or begins one. A damaged file is moved aside, which is a problem and no
    /// error; one of a newer version is refused.
    pub async fn open(folder: &Path, limits: Limits) -> Result<Self, OpenError> {
        let folder = folder.to_owned();
        Self::start(limits, move || StoreFile::new(&folder).map(Some)).await
    }

    /// A store that ends with the program, for programs that keep no state.
    pub async fn in_memory(limits: Limits) -> Result<Self, OpenError> {
        Self::start(limits, || Ok(None)).await
    }

    /// What is wrong with it now.
    pub fn problems(&self) -> Vec<Problem> {
        self.shared.problems()
    }

    /// The servers that a dialog has switched on or off, by key.
    pub async fn switches(&self, dialog: &str) -> Result<Vec<(String, bool)>, StoreError> {
        let dialog = dialog.to_owned();
        self.ask("read a dialog's switches", move |db| settings::switches(db, &dialog)).await
    }

    pub async fn set_switch(&self, dialog: &str, server: &str, on: bool) -> Result<(), StoreError> {
        let (dialog, server) = (dialog.to_owned(), server.to_owned());
        self.ask("keep a switch", move |db| settings::set_switch(db, &dialog, &server, on)).await
    }

    /// Nothing of a dialog is kept but the records of its calls.
    pub async fn forget_dialog(&self, dialog: &str) -> Result<(), StoreError> {
        let dialog = dialog.to_owned();
        self.ask("forget a dialog", move |db| settings::forget_dialog(db, &dialog)).await
    }

    /// The servers that somebody has enabled or disabled, by key.
    pub async fn overrides(&self) -> Result<BTreeMap<String, Override>, StoreError> {
        self.ask("read overrides", settings::overrides).await
    }

    pub async fn set_override(&self, server: &str, to: Override) -> Result<(), StoreError> {
        let server = server.to_owned();
        self.ask("keep an override", move |db| settings::set_override(db, &server, &to)).await
    }

    /// The server's file decides again.
    pub async fn clear_override(&self, server: &str) -> Result<(), StoreError> {
        let server = server.to_owned();
        self.ask("clear an override", move |db| settings::clear_override(db, &server)).await
    }

    /// Notes a call. It neither waits nor fails; if records come faster than they can be written, the oldest go.
    pub fn record(&self, call: CallRecord) {
        self.shared.ring.push(call);
    }

    /// How many records were dropped unwritten.
    pub fn dropped_records(&self) -> u64 {
        self.shared.ring.dropped()
    }

    /// Records of calls, the newest first, from below a number where one is given. What still waited to be
    /// written is written first.
    pub async fn calls(&self, below: Option<u64>, limit: u32) -> Result<Vec<Recorded>, StoreError> {
        self.flush().await?;
        self.ask("read records of calls", move |db| calls::read(db, below, limit)).await
    }

    /// Writes what waits to be written.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.on_thread("write records of calls", Writer::write_calls).await
    }

    /// What is remembered of a server, by its key and the hash of its definition.
    pub async fn catalog(
        &self,
        server: &str,
        hash: &str,
    ) -> Result<Option<Remembered>, StoreError> {
        let (server, hash) = (server.to_owned(), hash.to_owned());
        self.ask("read a catalogue", move |db| catalog::read(db, &server, &hash)).await
    }

    pub async fn set_catalog(
        &self,
        server: &str,
        hash: &str,
        what: Remembered,
    ) -> Result<(), StoreError> {
        let (server, hash, limit) = (server.to_owned(), hash.to_owned(), self.limits.catalog_bytes);
        let write = move |db: &Connection| catalog::write(db, &server, &hash, &what, limit);
        self.ask("keep a catalogue", write).await
    }

    /// The definitions of each server's tools as they were first seen or last accepted, by their hashes only.
    pub async fn pins(&self, servers: Vec<PinnedServer>) -> Result<Vec<Vec<Pin>>, StoreError> {
        let read =
            move |db: &Connection| servers.iter().map(|server| pins::read(db, server)).collect();
        self.ask("read the known definitions of tools", read).await
    }

    /// What some of these definitions say, as far as that was kept.
    pub async fn pinned_definitions(
        &self,
        server: &PinnedServer,
        tools: Vec<String>,
    ) -> Result<HashMap<String, String>, StoreError> {
        let server = server.clone();
        let read = move |db: &Connection| pins::definitions(db, &server, &tools);
        self.ask("read the known definitions of tools", read).await
    }

    /// From now on these tools are known so; of one server at most `limit`.
    pub async fn set_pins(
        &self,
        server: &PinnedServer,
        pins: Arc<[Pin]>,
        limit: usize,
    ) -> Result<(), StoreError> {
        let (server, now) = (server.clone(), SystemTime::now());
        let write = move |db: &Connection| pins::write(db, &server, &pins, limit, now);
        self.ask("keep the definitions of tools", write).await
    }

    /// What earlier hosts learned of servers, by the hashes of their definitions.
    pub async fn learned(&self) -> Result<Vec<(Hash, Learned)>, StoreError> {
        self.ask("read what is known of servers", learned::read).await
    }

    /// Writes what is left and closes, for all clones. False if that takes longer than `wait`; it goes on then.
    pub async fn close(&self, wait: Duration) -> bool {
        self.shared.closing.notify_one();
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return true;
        };
        // In real time: a clock that stands still must not end this wait.
        let ended = spawn_blocking(move || {
            let late = thread.finished.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
            !late && thread.handle.join().is_ok()
        });
        ended.await.unwrap_or(false)
    }

    async fn start(
        limits: Limits,
        file: impl FnOnce() -> Result<Option<StoreFile>, OpenError> + Send + 'static,
    ) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::new(&limits));
        let (jobs, inbox) = mpsc::channel(QUEUE);
        let (ready, opened) = oneshot::channel();
        let (running, finished) = sync_channel(0);
        let of_thread = shared.clone();
        let serve = move || {
            serve(|| Writer::open(file()?, limits, of_thread), inbox, ready);
            drop(running);
        };
        let handle = thread::Builder::new()
            .name("toolcrib-store".to_owned())
            .spawn(serve)
            .map_err(OpenError::Thread)?;
        opened.await.unwrap_or_else(|_| Err(OpenError::Thread(BrokenPipe.into())))?;
        let thread = Arc::new(Mutex::new(Some(Thread { handle, finished })));
        Ok(Self { jobs, shared, limits, thread })
    }

    async fn ask<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.on_thread(doing, move |writer| writer.run_on(doing, work)).await
    }

    fn do_later(
        &self,
        doing: &'static str,
        work: impl Fn(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) {
        let job: Job = Box::new(move |writer| {
            if let Err(error) = writer.run_on(doing, work) {
                debug!(%error, "the store lost a word");
            }
        });
        if self.jobs.try_send(job).is_err() {
            debug!(doing, "the store has too much to do");
        }
    }

    async fn on_thread<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |writer| {
            // Whoever asked may have gone; what was asked for is done all the same.
            let _ = reply.send(work(writer));
        });
        self.jobs.send(job).await.map_err(|_| StoreError::Closed { doing })?;
        answer.await.map_err(|_| StoreError::Closed { doing })?
    }
}

/// Neither method fails: the next host finds out again what was not written.
impl LearnedStore for Store {
    fn insert(&self, hash: Hash, what: Learned) {
        let now = SystemTime::now();
        let doing = "keep what a server speaks";
        self.do_later(doing, move |db| learned::write(db, hash, what, now));
    }

    fn remove(&self, hash: Hash) {
        self.do_later("forget what a server speaks", move |db| learned::forget(db, hash));
    }
}

fn serve(
    open: impl FnOnce() -> Result<Writer, OpenError>,
    inbox: mpsc::Receiver<Job>,
    ready: oneshot::Sender<Result<(), OpenError>>,
) {
    let runtime = Builder::new_current_thread().enable_time().build().map_err(OpenError::Thread);
    let opened = runtime.and_then(|runtime| Ok((runtime, open()?)));
    let (told, serving) = match opened {
        Ok((runtime, writer)) => (ready.send(Ok(())), Some((runtime, writer))),
        Err(error) => (ready.send(Err(error)), None),
    };
    // Whoever opened it may have gone meanwhile.
    if let (Ok(()), Some((runtime, writer))) = (told, serving) {
        runtime.block_on(writer.run(inbox));
    }
}

//! One run of the host as far as children are concerned: start it, spawn through it, close it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};

use super::child::Child;
use super::containment::{Containment, Held};
use super::error::SpawnError;
use super::guest::{Ending, Home, Lodging};
use super::keeper::{Keeper, Newborn, Request, Tools};
use super::launch::Launch;
use super::ledger::Ledger;
use super::mark::InstanceId;
use super::sys::{self, Cgroup};

/// Spawns that wait for the keeper at one time; more wait in their callers.
const QUEUE: usize = 32;

/// Looks at the process table run beside the keeper, so that a spawn does not wait for them.
const LOOKERS: usize = 2;

/// Starts children and answers for their end. Clones share it; when the last one is dropped, all children are
/// killed.
#[derive(Clone, Debug)]
pub struct Instance {
    id: InstanceId,
    requests: mpsc::Sender<Request>,
    /// Closed when the keeper's thread is about to end.
    finished: watch::Receiver<()>,
    held: watch::Receiver<Held>,
    keeper: Arc<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot create a ledger of children in `{}`", state.display())]
    Ledger {
        state: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot start the thread that keeps the children")]
    Keeper(#[source] io::Error),
}

impl Instance {
    /// Creates this run's ledger in the state folder, and the folder if need be. Blocks for a moment.
    pub fn open(state: &Path) -> Result<Self, OpenError> {
        Self::open_with(state, &Containment::default())
    }

    /// The same with a say in how the children are held.
    pub fn open_with(state: &Path, containment: &Containment) -> Result<Self, OpenError> {
        let parent = containment.cgroup.folder();
        let host = sys::identity(std::process::id());
        let cgroups = parent.as_deref().ok();
        let ledger = host.and_then(|host| Ledger::create(state, host, cgroups));
        let ledger =
            ledger.map_err(|cause| OpenError::Ledger { state: state.to_owned(), cause })?;
        let id = ledger.instance();
        let cgroup = parent.and_then(|_| match ledger.cgroup() {
            Some(path) => Cgroup::create(path),
            None => Err(io::Error::other("the cgroup's path is no text")),
        });
        let (hold, held) = watch::channel(Held::by(cgroup.as_ref(), containment.adopt_orphans));
        let (requests, inbox) = mpsc::channel(QUEUE);
        let (running, finished) = watch::channel(());
        let (ready, started) = sync_channel(1);
        let tools = Tools { ledger, cgroup: cgroup.ok(), hold, adopts: containment.adopt_orphans };
        let keep = move || {
            keep(tools, inbox, &ready);
            drop(running);
        };
        let thread = thread::Builder::new()
            .name("toolcrib-keeper".to_owned())
            .spawn(keep)
            .map_err(OpenError::Keeper)?;
        let keeper = Arc::new(Mutex::new(Some(thread)));
        started
            .recv()
            .unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
            .map_err(OpenError::Keeper)?;
        Ok(Self { id, requests, finished, held, keeper })
    }

    pub fn id(&self) -> InstanceId {
        self.id
    }

    /// What is certain to end with a server, as far as is known now.
    pub fn held(&self) -> Held {
        self.held.borrow().clone()
    }

    /// Starts a child. Its pipes belong to the runtime that this is called on.
    pub async fn spawn(&self, launch: Launch) -> Result<Child, SpawnError> {
        let program = launch.name();
        let (reply, answer) = oneshot::channel();
        let closed = || SpawnError::Closed { program: program.clone() };
        self.requests.send(Request::Spawn { launch, reply }).await.map_err(|_| closed())?;
        let newborn = answer.await.map_err(|_| closed())??;
        adopt(newborn).map_err(|cause| SpawnError::Other { program, cause })
    }

    /// Notes something that is about to begin in a container, and how it is ended.
    pub(crate) async fn lodge(
        &self,
        engine: &str,
        home: Home,
        ending: Ending,
    ) -> Result<Lodging, SpawnError> {
        let (reply, answer) = oneshot::channel();
        let closed = || SpawnError::Closed { program: engine.to_owned() };
        let desk = self.requests.downgrade();
        let request = Request::Lodge { engine: engine.to_owned(), home, ending, desk, reply };
        self.requests.send(request).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?.map_err(SpawnError::Ledger)
    }

    /// Kills what still lives, waits for its end, removes the ledger. Stop the children before, one by one, if
    /// they are to end gently.
    pub async fn close(&self) {
        // It fails only if the keeper is closing already.
        let _ = self.requests.send(Request::Close).await;
        // An error is the very news: the other end has gone.
        let _ = self.finished.clone().changed().await;
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = keeper {
            let _ = thread.join();
        }
    }
}

fn keep(tools: Tools, inbox: mpsc::Receiver<Request>, ready: &SyncSender<io::Result<()>>) {
    let runtime =
        match Builder::new_current_thread().enable_all().max_blocking_threads(LOOKERS).build() {
            Ok(runtime) => runtime,
            Err(error) => return answer(ready, Err(error)),
        };
    runtime.block_on(async {
        match Keeper::new(tools, inbox) {
            Ok(keeper) => {
                answer(ready, Ok(()));
                keeper.run().await;
            }
            Err(error) => answer(ready, Err(error)),
        }
    });
    // A look at the table can hang on a process that hangs in the kernel.
    runtime.shutdown_timeout(Duration::from_secs(1));
}

fn answer(ready: &SyncSender<io::Result<()>>, result: io::Result<()>) {
    // Nobody has stopped listening: `open` waits for exactly this.
    let _ = ready.send(result);
}

fn adopt(Newborn { mut child, stdin, stdout }: Newborn) -> io::Result<Child> {
    child.stdin = Some(ChildStdin::from_std(stdin)?);
    child.stdout = Some(ChildStdout::from_std(stdout)?);
    Ok(child)
}

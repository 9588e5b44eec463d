//! The entry point for child processes: opens the ledger, starts children, and closes.

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
use super::child_thread::{ChildRequest, ChildThread, ChildThreadConfig, StartedChild};
use super::containment::{Containment, ContainmentStatus};
use super::error::SpawnError;
use super::launch::LaunchSpec;
use super::ledger::Ledger;
use super::owner_mark::HostInstanceId;
use super::remote_process::{ContainerBinding, RemoteProcessHandle, RemoteStopFn};
use super::sys::{self, Cgroup};

/// Requests that may wait for the child thread. Further requests wait in their callers.
const REQUEST_QUEUE: usize = 32;

/// Scans of the process table run on blocking threads, so that a spawn does not wait for them.
const MAX_BLOCKING_THREADS: usize = 2;

/// Starts children and guarantees that they end. Clones share one child thread; dropping the last clone kills
/// all children.
#[derive(Clone, Debug)]
pub struct Instance {
    id: HostInstanceId,
    requests: mpsc::Sender<ChildRequest>,
    /// Closes when the child thread is about to end.
    finished: watch::Receiver<()>,
    containment: watch::Receiver<ContainmentStatus>,
    child_thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// Error of opening an instance.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    #[error("cannot create the ledger of child processes in `{}`", state.display())]
    Ledger {
        state: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot start the child thread")]
    ChildThread(#[source] io::Error),
}

impl Instance {
    /// Opens an instance with default containment. Creates the ledger in the state folder, and the folder if
    /// it is missing. Blocks briefly.
    pub fn open(state: &Path) -> Result<Self, InstanceError> {
        Self::open_with(state, &Containment::default())
    }

    /// Opens an instance with the given containment.
    pub fn open_with(state: &Path, containment: &Containment) -> Result<Self, InstanceError> {
        let parent = containment.cgroup.folder();
        let host = sys::identity(std::process::id());
        let cgroups = parent.as_deref().ok();
        let ledger = host.and_then(|host| Ledger::create(state, host, cgroups));
        let ledger =
            ledger.map_err(|cause| InstanceError::Ledger { state: state.to_owned(), cause })?;
        let id = ledger.instance();
        let cgroup = parent.and_then(|_| match ledger.cgroup() {
            Some(path) => Cgroup::create(path),
            None => Err(io::Error::other("the cgroup's path is not valid UTF-8")),
        });
        let (sender, containment_status) =
            watch::channel(ContainmentStatus::new(cgroup.as_ref(), containment.adopt_orphans));
        let (requests, inbox) = mpsc::channel(REQUEST_QUEUE);
        let (running, finished) = watch::channel(());
        let (ready, started) = sync_channel(1);
        let config = ChildThreadConfig {
            ledger,
            cgroup: cgroup.ok(),
            containment: sender,
            adopts: containment.adopt_orphans,
        };
        let run = move || {
            run_child_thread(config, inbox, &ready);
            drop(running);
        };
        let thread = thread::Builder::new()
            .name("toolcrib-children".to_owned())
            .spawn(run)
            .map_err(InstanceError::ChildThread)?;
        let child_thread = Arc::new(Mutex::new(Some(thread)));
        started
            .recv()
            .unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
            .map_err(InstanceError::ChildThread)?;
        Ok(Self { id, requests, finished, containment: containment_status, child_thread })
    }

    /// Returns the id of this run of the host.
    pub fn id(&self) -> HostInstanceId {
        self.id
    }

    /// Returns which processes are certain to end with a server at the moment.
    pub fn containment(&self) -> ContainmentStatus {
        self.containment.borrow().clone()
    }

    /// Starts a child. The child's pipes belong to the calling runtime.
    pub async fn spawn(&self, launch: LaunchSpec) -> Result<Child, SpawnError> {
        let program = launch.name();
        let (reply, response) = oneshot::channel();
        let closed = || SpawnError::Closed { program: program.clone() };
        self.requests.send(ChildRequest::Spawn { launch, reply }).await.map_err(|_| closed())?;
        let started = response.await.map_err(|_| closed())??;
        bind_pipes(started).map_err(|cause| SpawnError::Other { program, cause })
    }

    /// Records a process that is about to start in a container, and the function that stops it.
    pub(crate) async fn register_remote(
        &self,
        engine: &str,
        binding: ContainerBinding,
        stop_fn: RemoteStopFn,
    ) -> Result<RemoteProcessHandle, SpawnError> {
        let (reply, response) = oneshot::channel();
        let closed = || SpawnError::Closed { program: engine.to_owned() };
        let updates = self.requests.downgrade();
        let request = ChildRequest::RegisterRemote {
            engine: engine.to_owned(),
            binding,
            stop_fn,
            updates,
            reply,
        };
        self.requests.send(request).await.map_err(|_| closed())?;
        response.await.map_err(|_| closed())?.map_err(SpawnError::Ledger)
    }

    /// Kills all remaining children, waits for their exit and removes the ledger. For a graceful shutdown
    /// stop each child first.
    pub async fn close(&self) {
        // Sending fails only if the child thread is already closing.
        let _ = self.requests.send(ChildRequest::Close).await;
        // `changed` returns an error when the child thread has dropped its sender, which is the expected
        // signal.
        let _ = self.finished.clone().changed().await;
        let child_thread = self.child_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = child_thread {
            let _ = thread.join();
        }
    }
}

fn run_child_thread(
    config: ChildThreadConfig,
    inbox: mpsc::Receiver<ChildRequest>,
    ready: &SyncSender<io::Result<()>>,
) {
    let runtime = match Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return report_start(ready, Err(error)),
    };
    runtime.block_on(async {
        match ChildThread::new(config, inbox) {
            Ok(child_thread) => {
                report_start(ready, Ok(()));
                child_thread.run().await;
            }
            Err(error) => report_start(ready, Err(error)),
        }
    });
    // A scan of the process table can hang on a process that hangs in the kernel.
    runtime.shutdown_timeout(Duration::from_secs(1));
}

fn report_start(ready: &SyncSender<io::Result<()>>, result: io::Result<()>) {
    // `open` waits for exactly this message.
    let _ = ready.send(result);
}

fn bind_pipes(StartedChild { mut child, stdin, stdout }: StartedChild) -> io::Result<Child> {
    child.stdin = Some(ChildStdin::from_std(stdin)?);
    child.stdout = Some(ChildStdout::from_std(stdout)?);
    Ok(child)
}

//! Processes that run in containers, out of reach of this host's signals.
//!
//! The child thread records each remote process in the ledger before the process can exist, and ends the
//! process even if its handle is dropped. The transport passes in the function that stops the process,
//! because this module knows no container engine.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::sync::{mpsc, oneshot, watch};

use super::child_monitor::MonitorOutcome;
use super::child_thread::ChildRequest;
use super::error::SpawnError;
use super::launch::GracePeriods;
use super::ledger::ClaimedLedger;
use super::owner_mark::{HostInstanceId, OwnerMark};

/// A process in a container, as recorded in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteProcess {
    /// Owner mark of the process.
    pub mark: OwnerMark,
    /// Address of the engine that runs the container.
    pub engine: String,
    /// The container of the process.
    pub binding: ContainerBinding,
}

/// The container of a remote process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerBinding {
    /// A container made for this process and removed with it.
    Dedicated {
        /// `None` until the engine has returned the id.
        container: Option<String>,
        exec: Option<String>,
    },
    /// A container of another owner, or one that is kept. Only the process ends, not the container.
    Shared {
        container: String,
        /// `None` until a process could have been started.
        exec: Option<String>,
    },
}

/// Way of stopping a remote process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// Close its input, then wait for these grace periods.
    Graceful(GracePeriods),
    Immediate,
}

/// Stops a remote process; returns whether nothing of it is left. It runs on the child thread, so it opens
/// its own connection to the engine.
pub(crate) type RemoteStopFn =
    fn(RemoteProcess, StopMode) -> Pin<Box<dyn Future<Output = bool> + Send>>;

/// Handle to a remote process. Dropping it stops the process at once, in the background.
pub(crate) struct RemoteProcessHandle {
    process: watch::Sender<RemoteProcess>,
    child_thread: mpsc::WeakSender<ChildRequest>,
    release: Option<oneshot::Sender<ReleaseRequest>>,
    stopped: oneshot::Receiver<bool>,
}

/// Remote processes that a dead host left behind. Its ledger stays locked while this value exists, and stays
/// on disk until `remove_ledger`.
#[derive(Debug)]
pub struct RemoteLeftovers {
    pub(crate) ledger: ClaimedLedger,
    /// No local process needs the ledger any more.
    pub(crate) may_remove_ledger: bool,
}

pub(crate) enum ReleaseRequest {
    Ended,
    Stop(StopMode),
}

/// The child thread's side of a [`RemoteProcessHandle`].
pub(crate) struct RemoteProcessMonitor {
    process: watch::Receiver<RemoteProcess>,
    release: oneshot::Receiver<ReleaseRequest>,
    stopped: oneshot::Sender<bool>,
    stop_fn: RemoteStopFn,
    closing: watch::Receiver<bool>,
}

impl RemoteProcessHandle {
    pub(crate) fn new(
        process: RemoteProcess,
        child_thread: mpsc::WeakSender<ChildRequest>,
        stop_fn: RemoteStopFn,
        closing: watch::Receiver<bool>,
    ) -> (Self, RemoteProcessMonitor) {
        let (process, process_receiver) = watch::channel(process);
        let (release, release_requested) = oneshot::channel();
        let (stopped, stop_result) = oneshot::channel();
        let monitor = RemoteProcessMonitor {
            process: process_receiver,
            release: release_requested,
            stopped,
            stop_fn,
            closing,
        };
        (Self { process, child_thread, release: Some(release), stopped: stop_result }, monitor)
    }

    pub(crate) fn mark(&self) -> OwnerMark {
        self.process.borrow().mark
    }

    pub(crate) fn binding(&self) -> ContainerBinding {
        self.process.borrow().binding.clone()
    }

    /// Records the container in the ledger. The entry is on disk when this returns.
    pub(crate) async fn record_container(
        &self,
        binding: ContainerBinding,
    ) -> Result<(), SpawnError> {
        self.process.send_modify(|process| process.binding = binding);
        let process = self.process.borrow().clone();
        let (reply, recorded) = oneshot::channel();
        let closed = || SpawnError::Closed { program: process.engine.clone() };
        let child_thread = self.child_thread.upgrade().ok_or_else(closed)?;
        let request = ChildRequest::UpdateRemote { process: process.clone(), reply };
        child_thread.send(request).await.map_err(|_| closed())?;
        recorded.await.map_err(|_| closed())?.map_err(SpawnError::Ledger)
    }

    /// Releases a process that never started or has already exited.
    pub(crate) fn release(mut self) {
        self.send_release(ReleaseRequest::Ended);
    }

    /// Stops the process and waits; returns whether nothing of it is left. Otherwise the next start tries
    /// again. If the future is dropped, the process is stopped at once.
    pub(crate) async fn stop(mut self, mode: StopMode) -> bool {
        self.send_release(ReleaseRequest::Stop(mode));
        (&mut self.stopped).await.unwrap_or(false)
    }

    fn send_release(&mut self, request: ReleaseRequest) {
        if let Some(release) = self.release.take() {
            // The receiver is gone only when the child thread closes, and then the thread stops the process.
            let _ = release.send(request);
        }
    }
}

impl RemoteProcessMonitor {
    pub(crate) async fn run(mut self) -> MonitorOutcome {
        let request = tokio::select! {
            request = &mut self.release => request.unwrap_or(ReleaseRequest::Stop(StopMode::Immediate)),
            // A receive error also means that the child thread has ended.
            _ = self.closing.wait_for(|closing| *closing) => ReleaseRequest::Stop(StopMode::Immediate),
        };
        let process = self.process.borrow().clone();
        let mark = process.mark;
        let all_exited = match request {
            ReleaseRequest::Ended => true,
            ReleaseRequest::Stop(mode) => self.stop_process(process, mode).await,
        };
        if !all_exited {
            tracing::warn!(%mark, "a process in a container did not exit; the next start tries again");
        }
        // The caller may have stopped waiting.
        let _ = self.stopped.send(all_exited);
        MonitorOutcome { mark, all_exited }
    }

    /// The grace periods end early when no caller waits any more or when the host closes.
    async fn stop_process(&mut self, process: RemoteProcess, mode: StopMode) -> bool {
        if mode != StopMode::Immediate {
            tokio::select! {
                all_exited = (self.stop_fn)(process.clone(), mode) => return all_exited,
                () = self.stopped.closed() => {}
                _ = self.closing.wait_for(|closing| *closing) => {}
            }
        }
        (self.stop_fn)(process, StopMode::Immediate).await
    }
}

impl RemoteLeftovers {
    /// The dead instance.
    pub fn instance(&self) -> HostInstanceId {
        self.ledger.instance
    }

    /// Returns the remote processes that the dead host left behind.
    pub fn processes(&self) -> &[RemoteProcess] {
        &self.ledger.contents.remotes
    }

    /// Removes the ledger after all remote processes have ended, unless local processes still need it.
    pub(crate) fn remove_ledger(self) -> io::Result<()> {
        if self.may_remove_ledger { self.ledger.remove() } else { Ok(()) }
    }
}

impl ContainerBinding {
    pub(crate) fn exec_id(&self) -> Option<&str> {
        let (Self::Dedicated { exec, .. } | Self::Shared { exec, .. }) = self;
        exec.as_deref()
    }

    pub(crate) fn with_exec(self, exec: String) -> Self {
        let exec = Some(exec);
        match self {
            Self::Dedicated { container, .. } => Self::Dedicated { container, exec },
            Self::Shared { container, .. } => Self::Shared { container, exec },
        }
    }
}

impl fmt::Debug for RemoteProcessHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteProcessHandle")
            .field("process", &*self.process.borrow())
            .finish_non_exhaustive()
    }
}

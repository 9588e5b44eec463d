//! The child thread: starts all children of an instance, writes its ledger and reaps the children.
//!
//! The kernel delivers the parent-death signal when the *thread* that started a child ends. A worker thread
//! of an async runtime may end at any time, so a dedicated thread starts all children.

use std::collections::BTreeMap;
use std::io;
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal as Kill, WaitOptions, getpgrp, waitpid};
use tokio::process::ChildStderr;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::adopted_orphans::{filter_adopted, is_ownerless};
use super::child::{Child, ChildState};
use super::child_monitor::{ChildMonitor, MonitorOutcome};
use super::containment::{ContainmentStatus, Guarantee};
use super::error::SpawnError;
use super::launch::LaunchSpec;
use super::ledger::{ChildEntry, Ledger};
use super::owner_mark::OwnerMark;
use super::process_group::ProcessGroup;
use super::process_tree::ProcessTree;
use super::remote_process::{ContainerBinding, RemoteProcess, RemoteProcessHandle, RemoteStopFn};
use super::spawn::spawn;
use super::stderr::StderrTail;
use super::sys::{self, Cgroup, ProcessInfo, SpawnedProcess};

/// Time that closing waits for killed children. Children that take longer stay in the ledger.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between checks, while closing, that killed processes have exited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) enum ChildRequest {
    Spawn {
        launch: LaunchSpec,
        reply: oneshot::Sender<Result<StartedChild, SpawnError>>,
    },
    RegisterRemote {
        engine: String,
        binding: ContainerBinding,
        stop_fn: RemoteStopFn,
        /// Sender for later updates from the handle. Weak, because a handle must not keep the instance open.
        updates: mpsc::WeakSender<ChildRequest>,
        reply: oneshot::Sender<io::Result<RemoteProcessHandle>>,
    },
    UpdateRemote {
        process: RemoteProcess,
        reply: oneshot::Sender<io::Result<()>>,
    },
    Close,
}

/// A started child whose pipes are not yet registered with the caller's runtime.
#[derive(Debug)]
pub(crate) struct StartedChild {
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

/// Inputs of the child thread.
#[derive(Debug)]
pub(crate) struct ChildThreadConfig {
    pub(crate) ledger: Ledger,
    /// The instance's cgroup.
    pub(crate) cgroup: Option<Cgroup>,
    /// Publishes the current guarantee.
    pub(crate) containment: watch::Sender<ContainmentStatus>,
    /// True if to adopt orphans if there is no cgroup.
    pub(crate) adopts: bool,
}

/// A child that has a monitor.
#[derive(Debug)]
struct LiveChild {
    group: Arc<ProcessGroup>,
    pid: u32,
    start: u64,
}

#[derive(Debug)]
pub(crate) struct ChildThread {
    ledger: Ledger,
    cgroup: Option<Cgroup>,
    containment: watch::Sender<ContainmentStatus>,
    adopts: bool,
    requests: mpsc::Receiver<ChildRequest>,
    next_session: u64,
    children: BTreeMap<OwnerMark, LiveChild>,
    /// Start time of the first child. No orphan is older.
    first_start: Option<u64>,
    /// The running scan for adopted orphans; `rescan` says whether another one must follow.
    orphan_scans: JoinSet<io::Result<Vec<ProcessInfo>>>,
    rescan: bool,
    monitors: JoinSet<MonitorOutcome>,
    sigchld: Signal,
    /// Forwards SIGCHLD to every monitor.
    child_exits: watch::Sender<()>,
    /// Tells the monitors of remote processes that the host closes.
    closing: watch::Sender<bool>,
}

impl ChildThread {
    /// Must be called, and run, on the child thread.
    pub(crate) fn new(
        config: ChildThreadConfig,
        requests: mpsc::Receiver<ChildRequest>,
    ) -> io::Result<Self> {
        let ChildThreadConfig { ledger, cgroup, containment, adopts } = config;
        Ok(Self {
            ledger,
            cgroup,
            containment,
            adopts,
            requests,
            next_session: 1,
            children: BTreeMap::new(),
            first_start: None,
            orphan_scans: JoinSet::new(),
            rescan: false,
            monitors: JoinSet::new(),
            sigchld: signal(SignalKind::child())?,
            child_exits: watch::Sender::new(()),
            closing: watch::Sender::new(false),
        })
    }

    /// Serves requests until `Close`, or until the last sender is dropped. Then ends all remaining children.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(ChildRequest::Spawn { launch, reply }) => {
                        // If the caller is gone, dropping the reply drops the child, which kills it.
                        let _ = reply.send(self.spawn(&launch));
                    }
                    Some(ChildRequest::RegisterRemote { engine, binding, stop_fn, updates, reply }) => {
                        // If the caller is gone, dropping the handle ends the ledger entry.
                        let _ = reply.send(self.register_remote(engine, binding, stop_fn, updates));
                    }
                    Some(ChildRequest::UpdateRemote { process, reply }) => {
                        let _ = reply.send(self.ledger.record_remote(process));
                    }
                    Some(ChildRequest::Close) | None => break,
                },
                () = next_child_exit(&mut self.sigchld, &self.child_exits) => self.start_orphan_scan(),
                Some(outcome) = self.monitors.join_next() => self.finish_monitor(outcome),
                Some(table) = self.orphan_scans.join_next() => self.finish_orphan_scan(table),
            }
        }
        self.requests.close();
        self.children.values().for_each(|child| child.group.abandon());
        self.closing.send_replace(true);
        let _ = timeout(CLOSE_TIMEOUT, self.join_monitors()).await;
        let _ = timeout(CLOSE_TIMEOUT, self.kill_all_orphans()).await;
        if timeout(CLOSE_TIMEOUT, self.remove_cgroup()).await.is_err() {
            return warn!("some processes did not exit; the next start tries again");
        }
        if let Err(error) = self.ledger.close() {
            warn!(%error, "cannot remove the ledger of child processes");
        }
    }

    async fn join_monitors(&mut self) {
        while !self.monitors.is_empty() {
            tokio::select! {
                () = next_child_exit(&mut self.sigchld, &self.child_exits) => {}
                Some(outcome) = self.monitors.join_next() => self.finish_monitor(outcome),
            }
        }
    }

    /// Kills the remaining members of the instance's cgroup and removes it.
    async fn remove_cgroup(&mut self) {
        let Some(cgroup) = self.cgroup.take() else { return };
        while let Err(error) = cgroup.kill().and_then(|()| cgroup.remove()) {
            debug!(%error, "the host's cgroup is still there");
            sleep(POLL_INTERVAL).await;
        }
    }

    fn adopts_orphans(&self) -> bool {
        self.containment.borrow().guarantee == Guarantee::Subreaper
    }

    /// Starts a background scan for adopted orphans, one at a time.
    fn start_orphan_scan(&mut self) {
        let Some(start) = self.first_start.filter(|_| self.adopts_orphans()) else { return };
        self.rescan = !self.orphan_scans.is_empty();
        if !self.rescan {
            self.orphan_scans.spawn_blocking(move || sys::list_processes(start));
        }
    }

    fn finish_orphan_scan(&mut self, table: Result<io::Result<Vec<ProcessInfo>>, JoinError>) {
        if let Ok(Ok(table)) = table {
            let living: Vec<u64> = self.children.values().map(|child| child.start).collect();
            self.kill_ownerless(table, &living);
        }
        if std::mem::take(&mut self.rescan) {
            self.start_orphan_scan();
        }
    }

    /// Kills adopted orphans that no child in `living` can have started, and reaps zombies; returns the
    /// number of kills. Reads the list of children now, not when the table was read: only this thread starts
    /// children, so the list is complete.
    fn kill_ownerless(&self, table: Vec<ProcessInfo>, living: &[u64]) -> usize {
        let leaders: Vec<u32> = self.children.values().map(|child| child.pid).collect();
        let mut killed = 0;
        for orphan in filter_adopted(table, std::process::id(), sys::raw_pid(getpgrp()), &leaders) {
            if orphan.zombie {
                let pid = i32::try_from(orphan.pid).ok().and_then(Pid::from_raw);
                // `waitpid` fails only if other code has reaped the zombie already.
                let _ = pid.map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
            } else if is_ownerless(&orphan, living) {
                killed += 1;
                // A process that this user may not signal appears again in the next scan.
                let _ = sys::signal_process(&orphan, Kill::KILL);
            }
        }
        killed
    }

    /// Kills all adopted orphans, whichever child started them.
    async fn kill_all_orphans(&mut self) {
        let Some(start) = self.first_start.filter(|_| self.adopts_orphans()) else { return };
        loop {
            let table = tokio::task::spawn_blocking(move || sys::list_processes(start)).await;
            if let Ok(Ok(table)) = table
                && self.kill_ownerless(table, &[]) == 0
            {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Records the child in the ledger before it exists. If the host is killed in between, the owner mark in
    /// the child's environment identifies it.
    fn spawn(&mut self, launch: &LaunchSpec) -> Result<StartedChild, SpawnError> {
        let mark = self.next_mark();
        let entry = ChildEntry { mark, program: launch.name(), leader: None };
        self.ledger.record_child(entry.clone()).map_err(SpawnError::Ledger)?;
        let cgroup = self.create_child_cgroup(mark);
        let process = spawn(launch, mark, cgroup.as_ref()).inspect_err(|_| {
            self.record_end(mark);
            cgroup.as_ref().map(Cgroup::remove);
        })?;
        let cgroup = self.confirm_cgroup(cgroup, &process);
        // The process entry exists: the child is not reaped yet.
        let leader =
            sys::identity_in_scope(self.ledger.pid_scope().clone(), sys::raw_pid(process.pid));
        let start = leader.as_ref().map_or(0, |leader| leader.start);
        let recorded = leader.and_then(|leader| {
            self.ledger.record_child(ChildEntry { leader: Some(leader), ..entry })
        });
        if let Err(error) = recorded {
            warn!(%mark, %error, "cannot record a child's pid; only its owner mark identifies it");
        }
        self.first_start.get_or_insert(start);
        self.monitor_child(process, start, mark, cgroup, launch)
    }

    fn create_child_cgroup(&self, mark: OwnerMark) -> Option<Cgroup> {
        let made = self.cgroup.as_ref()?.create_child(mark.session);
        made.inspect_err(|error| warn!(%mark, %error, "cannot create a cgroup for a child")).ok()
    }

    /// Returns the child's cgroup if the child has joined it. A child outside of a cgroup lowers the
    /// guarantee.
    fn confirm_cgroup(
        &mut self,
        cgroup: Option<Cgroup>,
        process: &SpawnedProcess,
    ) -> Option<Cgroup> {
        if process.is_in_cgroup {
            return cgroup;
        }
        if let Some(Err(error)) = cgroup.as_ref().map(Cgroup::remove) {
            debug!(%error, "an empty cgroup stays until the host ends");
        }
        if self.containment.borrow().guarantee == Guarantee::Cgroup {
            let why = "a child could not join its cgroup".to_owned();
            self.containment.send_replace(ContainmentStatus::without_cgroup(why, self.adopts));
        }
        None
    }

    /// Starts a monitor for the new process and creates its handle. On failure the handle is dropped, which
    /// kills the process, and the monitor reaps it.
    fn monitor_child(
        &mut self,
        process: SpawnedProcess,
        start: u64,
        mark: OwnerMark,
        cgroup: Option<Cgroup>,
        launch: &LaunchSpec,
    ) -> Result<StartedChild, SpawnError> {
        let group = Arc::new(ProcessGroup::new(process.pid));
        let (stop, stop_receiver) = oneshot::channel();
        let (state, state_receiver) = watch::channel(ChildState::Running);
        let tail = StderrTail::new(launch.stderr_limit);
        let started = StartedChild {
            stdin: process.stdin,
            stdout: process.stdout,
            child: Child::new(
                sys::raw_pid(process.pid),
                mark,
                tail.clone(),
                Arc::clone(&group),
                stop,
                state_receiver,
            ),
        };
        let mut stderr = JoinSet::new();
        let piped = ChildStderr::from_std(process.stderr);
        let drained = piped.map(|pipe| stderr.spawn(tail.drain(pipe)));

        let tree = ProcessTree {
            leader: process.pid,
            mark,
            start,
            group: Arc::clone(&group),
            cgroup,
            child_exits: self.child_exits.subscribe(),
        };
        let monitor =
            ChildMonitor { tree, graces: launch.graces, stop: stop_receiver, state, stderr };
        self.monitors.spawn(monitor.run());
        self.children.insert(mark, LiveChild { group, pid: sys::raw_pid(process.pid), start });
        match drained {
            Ok(_) => Ok(started),
            Err(cause) => Err(SpawnError::Other { program: launch.name(), cause }),
        }
    }

    /// Records the remote process in the ledger before it can exist.
    fn register_remote(
        &mut self,
        engine: String,
        binding: ContainerBinding,
        stop_fn: RemoteStopFn,
        updates: mpsc::WeakSender<ChildRequest>,
    ) -> io::Result<RemoteProcessHandle> {
        let process = RemoteProcess { mark: self.next_mark(), engine, binding };
        self.ledger.record_remote(process.clone())?;
        let (handle, monitor) =
            RemoteProcessHandle::new(process, updates, stop_fn, self.closing.subscribe());
        self.monitors.spawn(monitor.run());
        Ok(handle)
    }

    fn next_mark(&mut self) -> OwnerMark {
        let mark = OwnerMark { instance: self.ledger.instance(), session: self.next_session };
        self.next_session += 1;
        mark
    }

    fn finish_monitor(&mut self, outcome: Result<MonitorOutcome, JoinError>) {
        let Ok(MonitorOutcome { mark, all_exited }) = outcome else {
            return;
        };
        self.children.remove(&mark);
        if all_exited {
            self.record_end(mark);
        }
        self.start_orphan_scan();
    }

    fn record_end(&mut self, mark: OwnerMark) {
        if let Err(error) = self.ledger.record_end(mark) {
            warn!(%mark, %error, "cannot record a child's exit");
        }
    }
}

async fn next_child_exit(sigchld: &mut Signal, child_exits: &watch::Sender<()>) {
    sigchld.recv().await;
    child_exits.send_replace(());
}

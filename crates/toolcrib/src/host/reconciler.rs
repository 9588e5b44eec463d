//! The task that makes the running servers match the configuration: one path for start, reload and
//! repair.
//!
//! The task is level-triggered. Events only wake it; it then compares the actual state with the
//! desired state and corrects the difference.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use toolcrib_config::model::policy::{Connect, ReloadTrigger};
use toolcrib_config::{ChangeAction, Config, ServerSpec, diff};

use super::catalog_store;
use super::core::{Core, log_problem};
use super::dialog_lists::ListOverlay;
use super::events::HostEvent;
use super::file_watcher::FileWatcher;
use super::folder::Folder;
use super::pinning::ChangedDefinition;
use super::reload::{Reload, ReloadOutcome, ReloadedServer};
use super::running_server::RunningServer;
use super::server_operations::ServerOperationError;
use super::slot::ServerSlot;
use crate::registry::Scope;
use crate::store::StoreError;

/// Maximum delay of a reload while files keep changing.
const MAX_DEBOUNCE: Duration = Duration::from_secs(2);

/// A request to the reconciler, with a channel for the reply.
pub(super) enum ReconcilerCommand {
    /// Reads the files again. Replies after the started servers have settled.
    Reload(oneshot::Sender<Arc<Reload>>),
    /// Reads the files again if one has changed. Replies after the started servers have settled; no
    /// file change drops the reply.
    ReloadIfChanged(oneshot::Sender<Arc<Reload>>),
    /// Reconciles the servers and publishes changes.
    Reconcile(oneshot::Sender<()>),
    /// A dialog enters this folder. Replies after the folder's servers are added.
    EnterFolder(PathBuf, oneshot::Sender<()>),
    /// Adds a server that is in no file, until the host closes.
    AddServer(Arc<ServerSpec>, oneshot::Sender<Result<(), ServerOperationError>>),
    /// Removes the server with this key, if it is in no file.
    RemoveServer(Arc<str>, oneshot::Sender<bool>),
    /// Enables or disables the server with this key.
    SetEnabled(Arc<str>, bool, oneshot::Sender<()>),
    /// Lists the tools with changed definitions, of all servers.
    ListChangedDefinitions(oneshot::Sender<Vec<ChangedDefinition>>),
    /// Accepts the changed definitions of tools with this name, or of all tools.
    AcceptDefinitions(Option<String>, oneshot::Sender<Result<Vec<ChangedDefinition>, StoreError>>),
    /// Finds the failed successor of the server with this key.
    FindSuccessor(Arc<str>, oneshot::Sender<Option<Arc<RunningServer>>>),
}

/// Why files are read again, with the channel for the outcome.
enum ReloadRequest {
    /// A caller or SIGHUP requested the reload.
    Requested(Option<oneshot::Sender<Arc<Reload>>>),
    /// A file has changed.
    FileChanged(Option<oneshot::Sender<Arc<Reload>>>),
}

pub(super) struct Reconciler {
    pub(super) core: Arc<Core>,
    commands: mpsc::Receiver<ReconcilerCommand>,
    /// Notified when a file may have changed.
    changed: Arc<Notify>,
    /// When the first unhandled file change was detected, and when the reload is due.
    pending_reload: Option<(Instant, Instant)>,
    watcher: FileWatcher,
    /// Watched files that may be the program of a failed server.
    programs: BTreeSet<PathBuf>,
    /// SIGHUP, if it reloads the configuration.
    hangups: Option<Signal>,
    /// The root comes first.
    pub(super) folders: Vec<Folder>,
    /// Servers that were added at run time.
    pub(super) added: Vec<ServerSlot>,
    /// Replaced or removed servers that retire after the next snapshot.
    pub(super) retiring: Vec<Arc<RunningServer>>,
    /// The dialogs that see other lists than the shared ones, with their lists.
    pub(super) overlays: HashMap<Arc<str>, Arc<ListOverlay>>,
    /// When the lists of recently opened sessions are due.
    lists_due: Option<Instant>,
    /// Tasks that wait for a reload's servers to settle, or for the end of a server that is
    /// replaced with `stop_first`; the latter return its key.
    pub(super) tasks: JoinSet<Option<Arc<str>>>,
}

type StartedStep = (ReloadedServer, Option<Arc<RunningServer>>);

impl Reconciler {
    pub(super) fn new(
        core: Arc<Core>,
        commands: mpsc::Receiver<ReconcilerCommand>,
        hangups: Option<Signal>,
    ) -> Self {
        let root = Folder::new(core.root());
        let changed = Arc::new(Notify::new());
        Reconciler {
            core,
            commands,
            watcher: FileWatcher::start(Arc::clone(&changed)),
            changed,
            programs: BTreeSet::new(),
            pending_reload: None,
            hangups,
            folders: vec![root],
            added: Vec::new(),
            retiring: Vec::new(),
            overlays: HashMap::new(),
            lists_due: None,
            tasks: JoinSet::new(),
        }
    }

    pub(super) async fn run(mut self) {
        self.reload(ReloadRequest::Requested(None)).await;
        loop {
            let wake = self.reconcile().await;
            let due = self.pending_reload.map(|(_, due)| due);
            let connection_events = Arc::clone(&self.core.connection_events);
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    None => return,
                },
                () = connection_events.wakeup.notified() => {}
                () = self.changed.notified() => self.schedule_reload(),
                () = sleep_until_due(due), if due.is_some() => self.reload(ReloadRequest::FileChanged(None)).await,
                () = wait_for_hangup(&mut self.hangups) => self.reload(ReloadRequest::Requested(None)).await,
                Some(done) = self.tasks.join_next() => self.mark_predecessor_ended(done.ok().flatten()),
                () = sleep_until_due(wake) => {}
            }
        }
    }

    async fn handle_command(&mut self, command: ReconcilerCommand) {
        match command {
            ReconcilerCommand::Reload(reply) => {
                self.reload(ReloadRequest::Requested(Some(reply))).await
            }
            ReconcilerCommand::ReloadIfChanged(reply) => {
                if self.watcher.has_changed() {
                    self.reload(ReloadRequest::FileChanged(Some(reply))).await;
                }
            }
            ReconcilerCommand::Reconcile(reply) => {
                self.reconcile().await;
                // The receiver may be gone. The same holds for all replies below.
                let _ = reply.send(());
            }
            ReconcilerCommand::EnterFolder(path, reply) => {
                self.enter_folder(path.clone()).await;
                if reply.send(()).is_err() {
                    self.leave_folder(&path).await;
                }
            }
            ReconcilerCommand::AddServer(spec, reply) => {
                let _ = reply.send(self.add_server(spec).await);
            }
            ReconcilerCommand::RemoveServer(key, reply) => {
                let gone = self.added.iter().position(|slot| slot.key == key);
                if let Some(index) = gone {
                    let slot = self.added.remove(index);
                    self.retire_slot(slot);
                    self.publish_snapshot(true).await;
                }
                let _ = reply.send(gone.is_some());
            }
            ReconcilerCommand::SetEnabled(key, enabled, reply) => {
                let all = slots(&self.folders, &self.added);
                for slot in all.filter(|slot| slot.key == key) {
                    slot.set_enabled(enabled && !slot.spec.is_withheld()).await;
                }
                self.reconcile().await;
                let _ = reply.send(());
            }
            ReconcilerCommand::ListChangedDefinitions(reply) => {
                let _ = reply.send(self.changed_definitions());
            }
            ReconcilerCommand::AcceptDefinitions(tool, reply) => {
                let accepted = self.accept_definitions(tool.as_deref()).await;
                self.reconcile().await;
                let _ = reply.send(accepted);
            }
            ReconcilerCommand::FindSuccessor(key, reply) => {
                let mut all = slots(&self.folders, &self.added);
                let successor =
                    all.find(|slot| slot.key == key).and_then(|slot| slot.successor.clone());
                let _ = reply.send(successor);
            }
        }
    }

    async fn add_server(&mut self, spec: Arc<ServerSpec>) -> Result<(), ServerOperationError> {
        if slots(&self.folders, &self.added).any(|slot| slot.spec.id == spec.id) {
            return Err(ServerOperationError::AlreadyConnected(spec.id.clone()));
        }
        let root = self.core.root();
        let running = self.start_server(&self.with_override(&spec), &root, Arc::default()).await;
        self.added.push(ServerSlot::new(Scope::Global, spec, running));
        self.publish_snapshot(true).await;
        Ok(())
    }

    /// Schedules a reload for when the file changes pause, but no later than [`MAX_DEBOUNCE`] after
    /// the first one.
    fn schedule_reload(&mut self) {
        let settings = &self.root_folder().config.host.reload;
        if settings.mode != ReloadTrigger::Watch {
            return;
        }
        let now = Instant::now();
        let since = self.pending_reload.map_or(now, |(since, _)| since);
        let due = (now + settings.debounce.0).min(since + MAX_DEBOUNCE);
        self.pending_reload = Some((since, due));
    }

    /// Reads the configuration, compares it, starts new servers beside the old ones and swaps them.
    /// A server with a catalog runs until its successor is ready, unless its policy is `stop_first` or the
    /// new definition disables it.
    async fn reload(&mut self, request: ReloadRequest) {
        let started_at = Instant::now();
        self.pending_reload = None;
        // Before the files are read: later changes must count as changes.
        self.watcher.refresh_stamps();
        let mut steps = Vec::new();
        let (mut problems, mut logged) = (Vec::new(), Vec::new());
        let mut is_good = true;
        for index in 0..self.folders.len() {
            let Some(folder) = self.folders.get(index) else { break };
            let is_file_change = matches!(request, ReloadRequest::FileChanged(_));
            let config = folder.load_config(&self.core, is_file_change).await;
            let problem_group = folder.problem_group();
            is_good &= !config.keeps_last_good();
            problems.extend(config.problems.iter().cloned());
            logged.extend(self.core.set_reload_problems(&problem_group, &config.problems));
            if index == 0 {
                self.core.apply_host_settings(&config);
            }
            steps.extend(self.apply_config(index, config).await);
        }
        for slot in &self.added {
            slot.retry_failed().await;
        }
        self.watch_files();
        logged.iter().for_each(log_problem);
        let changes = steps.iter().any(|(step, _)| !is_kept(step.action));
        let version = self.publish_snapshot(is_good || changes).await;
        let core = Arc::clone(&self.core);
        self.tasks.spawn(async move {
            let eager = steps.iter().filter_map(|(_, running)| running.as_ref());
            let eager = eager.filter(|it| it.spec().policy.lifecycle.connect == Connect::Eager);
            futures_util::future::join_all(eager.map(|running| running.wait_until_settled())).await;
            core.publish_pending_lists().await;
            core.first_load.send_replace(true);
            let steps = wait_for_steps(steps).await;
            // Publishes the lists of settled servers before the reload is reported.
            core.publish_pending_lists().await;
            let reload = Arc::new(Reload { version, steps, problems, took: started_at.elapsed() });
            tracing::info!(version, took = ?reload.took, "configuration loaded");
            core.reloads.fetch_add(1, Ordering::Relaxed);
            core.last_reload.store(Some(Arc::clone(&reload)));
            core.events.publish(HostEvent::Reloaded(Arc::clone(&reload)));
            let (ReloadRequest::Requested(reply) | ReloadRequest::FileChanged(reply)) = request;
            if let Some(reply) = reply {
                let _ = reply.send(reload);
            }
            None
        });
    }

    /// Makes a folder's servers match its new configuration.
    async fn apply_config(&mut self, index: usize, config: Arc<Config>) -> Vec<StartedStep> {
        let Some(folder) = self.folders.get_mut(index) else { return Vec::new() };
        let config_diff = diff(&folder.config, &config);
        let path = folder.path.clone();
        folder.config = Arc::clone(&config);
        let mut done = Vec::with_capacity(config_diff.changes.len());
        for change in config_diff.changes {
            // Every slot has a step, which moves it from its old position to the end of the list.
            // All slots therefore stay in the list all the time.
            let before =
                self.folders.get_mut(index).and_then(|folder| folder.remove_slot(&change.key));
            let now =
                config.servers.iter().find(|spec| spec.key() == change.key).cloned().map(Arc::new);
            let (slot, watched) = self.apply_change(change.action, before, now, &path).await;
            let is_late = slot.as_ref().is_some_and(|slot| slot.waits_for_predecessor);
            if let Some(folder) = self.folders.get_mut(index) {
                folder.slots.extend(slot);
            }
            let outcome = if is_late { ReloadOutcome::Coming } else { ReloadOutcome::Done };
            done.push((
                ReloadedServer { server: change.key.into(), action: change.action, outcome },
                watched,
            ));
        }
        if let Some(folder) = self.folders.get_mut(index) {
            // An unreadable entry keeps its server. The next comparison needs that server's
            // definition.
            let kept = folder.slots.iter().filter(|slot| config.server(&slot.key).is_none());
            let kept: Vec<ServerSpec> = kept.map(|slot| (*slot.spec).clone()).collect();
            if !kept.is_empty() {
                Arc::make_mut(&mut folder.config).servers.extend(kept);
            }
        }
        done
    }

    /// Reconciles the servers: promotes successors that are ready, publishes changes and reports
    /// problems. Returns when the next pass is due without a wake-up.
    async fn reconcile(&mut self) -> Option<Instant> {
        for path in self.core.take_left_folders() {
            self.leave_folder(&path).await;
        }
        self.start_waiting_servers().await;
        self.retry_limited_servers();
        let before = self.retiring.len();
        let mut kept = Vec::new();
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            if slot.is_successor_ready() {
                self.retiring.extend(slot.promote_successor());
            }
            kept.extend(
                slot.take_unsaved_catalog()
                    .map(|catalog| (Arc::clone(slot.running.spec()), catalog)),
            );
        }
        for (spec, catalog) in kept {
            let store = self.core.store.clone();
            self.core.spawn_task(async move {
                catalog_store::save_catalog(&store, &spec, &catalog).await
            });
        }
        self.publish_snapshot(self.retiring.len() > before).await;
        if self.programs_of_failed() != self.programs {
            self.watch_files();
        }
        // After publishing, so that a listener that sees a problem end finds the new state.
        for slot in slots(&self.folders, &self.added) {
            self.core.set_problems(&slot.problem_group(), slot.problems());
        }
        let now = Instant::now();
        let slots = slots_mut(&mut self.folders, &mut self.added);
        slots.filter_map(|slot| slot.grace_deadline(now)).chain(self.lists_due).min()
    }

    /// Publishes a snapshot if it would differ from the newest one, or if `in_any_case` is set.
    /// Servers that are not in the new snapshot are retired once no older turn reads them. Returns
    /// the number of the newest snapshot.
    async fn publish_snapshot(&mut self, in_any_case: bool) -> u64 {
        self.check_definitions().await;
        let core = Arc::clone(&self.core);
        let config = Arc::clone(&self.root_folder().config);
        let mut slots: Vec<&mut ServerSlot> =
            slots_mut(&mut self.folders, &mut self.added).collect();
        let in_any_case = in_any_case || !self.retiring.is_empty();
        let version = core.publish_snapshot(&mut slots, &config, in_any_case);
        for running in self.retiring.drain(..) {
            core.retire_server(running, version);
        }
        self.lists_due = self.update_dialog_lists().await;
        self.report_changed_definitions();
        version
    }

    /// Removes a slot: clears its problems and retires its servers.
    pub(super) fn retire_slot(&mut self, slot: ServerSlot) {
        self.core.clear_problems(&slot.problem_group());
        self.retiring.extend(slot.into_servers());
    }

    /// Watches the configuration files and the programs of failed servers.
    fn watch_files(&mut self) {
        let read = self.folders.iter().flat_map(|folder| &folder.config.depends);
        let trust = self.core.trust.file().map(Path::to_owned);
        let programs = self.programs_of_failed();
        let files = read.cloned().chain(trust).chain(programs.iter().cloned());
        let files: BTreeSet<PathBuf> = files.collect();
        self.programs = programs;
        let settings = &self.root_folder().config.host.reload;
        let poll = (settings.mode == ReloadTrigger::Watch).then_some(settings.poll.0);
        self.watcher.watch_files(&files, poll);
    }

    /// The files that may be the program of a failed server.
    fn programs_of_failed(&self) -> BTreeSet<PathBuf> {
        let all = slots(&self.folders, &self.added);
        all.flat_map(|slot| slot.failed_programs(&self.core.conn_context.env)).collect()
    }

    async fn enter_folder(&mut self, path: PathBuf) {
        if let Some(folder) = self.folders.iter_mut().find(|folder| folder.path == path) {
            folder.users += 1;
            return;
        }
        let folder = Folder::new(path);
        let config = folder.load_config(&self.core, false).await;
        self.core.set_problems(&folder.problem_group(), config.problems.clone());
        self.folders.push(folder);
        self.apply_config(self.folders.len() - 1, config).await;
        self.watch_files();
        self.publish_snapshot(true).await;
    }

    async fn leave_folder(&mut self, path: &Path) {
        let Some(index) = self.folders.iter().position(|folder| folder.path == path) else {
            return;
        };
        if let Some(folder) = self.folders.get_mut(index) {
            folder.users = folder.users.saturating_sub(1);
            // The root stays without dialogs.
            if folder.users > 0 || index == 0 {
                return;
            }
        }
        let folder = self.folders.remove(index);
        self.core.set_problems(&folder.problem_group(), Vec::new());
        folder.slots.into_iter().for_each(|slot| self.retire_slot(slot));
        self.watch_files();
        self.publish_snapshot(true).await;
    }

    pub(super) fn root_folder(&self) -> &Folder {
        // The root always exists: it is created first and never removed.
        &self.folders[0]
    }
}

pub(super) fn slots<'a>(
    folders: &'a [Folder],
    added: &'a [ServerSlot],
) -> impl Iterator<Item = &'a ServerSlot> {
    folders.iter().flat_map(|folder| &folder.slots).chain(added)
}

pub(super) fn slots_mut<'a>(
    folders: &'a mut [Folder],
    added: &'a mut [ServerSlot],
) -> impl Iterator<Item = &'a mut ServerSlot> {
    folders.iter_mut().flat_map(|folder| &mut folder.slots).chain(added)
}

fn is_kept(action: ChangeAction) -> bool {
    matches!(action, ChangeAction::Keep | ChangeAction::KeepLastGood)
}

/// Waits for each started server until it is ready, has failed once or has timed out.
async fn wait_for_steps(steps: Vec<StartedStep>) -> Vec<ReloadedServer> {
    let each = steps.into_iter().map(|(mut step, running)| async move {
        if let Some(running) = running {
            step.outcome = running.wait_until_settled().await;
        }
        step
    });
    futures_util::future::join_all(each).await
}

async fn wait_for_hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => {
            if hangups.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}

async fn sleep_until_due(wake: Option<Instant>) {
    match wake {
        Some(at) => sleep_until(at).await,
        // A pass without a reason once a minute costs little and recovers any lost wake-up.
        None => sleep(Duration::from_secs(60)).await,
    }
}

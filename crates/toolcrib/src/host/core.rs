//! The state that all parts of a host share.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use toolcrib_config::model::policy::SessionScope;
use toolcrib_config::{Config, Problem, Severity, Workspace};
use toolcrib_upstream::conn::ConnContext;
use toolcrib_upstream::schema::SchemaValidator;
use toolcrib_upstream::supervise::{Server, Supervisor};
use toolcrib_upstream::transport::Permissions;

use super::call_metrics::CallMetrics;
use super::client_capabilities::DialogCapabilities;
use super::connection_events::ConnectionEvents;
use super::dialog_table::DialogTable;
use super::events::{EventBus, HostEvent};
use super::host_snapshot::{HostSnapshot, RunningServers, SnapshotInput, plan_registry};
use super::problems::{ProblemChanges, ProblemTable};
use super::reconciler::ReconcilerCommand;
use super::reload::Reload;
use super::result_cache::FullResults;
use super::running_server::RunningServer;
use super::server_requests::ServerRequestRouter;
use super::slot::ServerSlot;
use super::snapshot_readers::{SnapshotReader, SnapshotReaders};
use super::tool_counters::ToolCounters;
use super::trust::Trust;
use crate::access::{Attachments, Grants, NativeReach};
use crate::registry::NativeToolset;
use crate::store::{ServerOverride, Store};

/// Maximum time that a removed server waits for turns that still read it, if `drain_kill` is not
/// set.
const TURN_DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Core {
    pub(super) workspace: Workspace,
    pub(super) trust: Trust,
    pub(super) conn_context: Arc<ConnContext>,
    pub(super) supervisor: Supervisor,
    pub(super) store: Store,
    pub(super) native_toolsets: Vec<NativeToolset>,
    /// The agents that may use each native toolset, by the toolset's name.
    pub(super) native_reach: HashMap<String, NativeReach>,
    pub(super) capabilities: DialogCapabilities,
    /// Whether call records contain the arguments.
    pub(super) records_arguments: bool,
    pub(super) published: ArcSwap<HostSnapshot>,
    /// The number of the newest snapshot, for waiting for a newer one.
    pub(super) version: watch::Sender<u64>,
    /// The report of the newest reload; `None` before the first reload.
    pub(super) last_reload: ArcSwapOption<Reload>,
    pub(super) readers: SnapshotReaders,
    pub(super) dialogs: DialogTable,
    pub(super) attached: ArcSwap<Attachments>,
    pub(super) overrides: ArcSwap<BTreeMap<String, ServerOverride>>,
    pub(super) problems: ProblemTable,
    pub(super) events: EventBus,
    pub(super) connection_events: Arc<ConnectionEvents>,
    /// The metrics of native tools.
    pub(super) native_metrics: Arc<CallMetrics>,
    pub(super) tool_counters: ToolCounters,
    pub(super) reloads: AtomicU64,
    pub(super) full_results: FullResults,
    pub(super) checker: SchemaValidator,
    pub(super) commands: mpsc::Sender<ReconcilerCommand>,
    /// Whether the first configuration has been loaded.
    pub(super) first_load: watch::Sender<bool>,
    pub(super) started: Instant,
    /// Background tasks: lease workers, and servers that wait for their end.
    pub(super) tasks: Mutex<JoinSet<()>>,
    /// Folders that dialogs have left and that the reconciler has not handled yet.
    left_folders: Mutex<Vec<PathBuf>>,
    last_version: AtomicU64,
    last_call: AtomicU64,
}

/// The parts that a [`Core`] is built from.
pub(super) struct CoreParts {
    pub(super) workspace: Workspace,
    pub(super) trust: Trust,
    pub(super) conn_context: Arc<ConnContext>,
    pub(super) store: Store,
    pub(super) native: Vec<(NativeToolset, NativeReach)>,
    pub(super) capabilities: DialogCapabilities,
    pub(super) records_arguments: bool,
    pub(super) overrides: BTreeMap<String, ServerOverride>,
    pub(super) commands: mpsc::Sender<ReconcilerCommand>,
}

impl Core {
    pub(super) fn new(parts: CoreParts) -> Self {
        let events = EventBus::default();
        let connection_events = Arc::new(ConnectionEvents::new(events.clone()));
        let supervisor =
            Supervisor::new(Arc::clone(&parts.conn_context), Arc::clone(&connection_events) as _);
        let reach = parts.native.iter().map(|(toolset, to)| (toolset.name().to_owned(), *to));
        // The first snapshot is empty, but readable.
        let readers = SnapshotReaders::default();
        let newest = readers.register(0);
        let first = HostSnapshot { reader: Arc::downgrade(&newest), ..HostSnapshot::default() };
        readers.set_newest(newest);
        Core {
            native_reach: reach.collect(),
            native_toolsets: parts.native.into_iter().map(|(toolset, _)| toolset).collect(),
            workspace: parts.workspace,
            trust: parts.trust,
            conn_context: parts.conn_context,
            supervisor,
            store: parts.store,
            capabilities: parts.capabilities,
            records_arguments: parts.records_arguments,
            published: ArcSwap::from_pointee(first),
            version: watch::Sender::new(0),
            last_reload: ArcSwapOption::default(),
            readers,
            dialogs: DialogTable::default(),
            attached: ArcSwap::default(),
            overrides: ArcSwap::from_pointee(parts.overrides),
            problems: ProblemTable::default(),
            events,
            connection_events,
            native_metrics: Arc::default(),
            tool_counters: ToolCounters::default(),
            reloads: AtomicU64::new(0),
            full_results: FullResults::default(),
            checker: SchemaValidator::new(),
            commands: parts.commands,
            first_load: watch::Sender::new(false),
            started: Instant::now(),
            tasks: Mutex::default(),
            left_folders: Mutex::default(),
            last_version: AtomicU64::new(0),
            last_call: AtomicU64::new(0),
        }
    }

    /// Returns a call number that is unique in this host.
    pub(super) fn next_call_number(&self) -> u64 {
        self.last_call.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn root(&self) -> PathBuf {
        self.workspace.root.clone()
    }

    /// Applies the host's permissions, HTTP mode, limits and secret sources to connections that start from now
    /// on.
    pub(super) fn apply_host_settings(&self, config: &Config) {
        let host = &config.host;
        let toolcrib_config::model::host::HostPermissions { spawn, network, docker } =
            host.permissions;
        self.conn_context.permissions.set(Permissions { spawn, network, docker });
        self.conn_context.http_mode.set(config.gateway.http);
        self.conn_context.server_limit.set_max(host.max_servers);
        self.conn_context.sources.configure(config);
        self.conn_context.sources.credentials().set_storage(host.credentials.into());
    }

    /// Publishes a snapshot if it would differ from the newest one, or if `in_any_case` is set.
    /// Returns the number of the newest snapshot.
    pub(super) fn publish_snapshot(
        &self,
        slots: &mut [&mut ServerSlot],
        config: &Arc<Config>,
        in_any_case: bool,
    ) -> u64 {
        let now = Instant::now();
        let inputs = slots.iter_mut().map(|slot| {
            let state = slot.update_state(now);
            SnapshotInput::from_slot(slot, state)
        });
        let inputs: Vec<SnapshotInput> = inputs.collect();
        let newest = self.last_version.load(Ordering::SeqCst);
        // The first snapshot is always published: native tools need no server.
        let before = self.published.load_full();
        let is_as_before = before.config.host == config.host
            && before.config.gateway == config.gateway
            && before.config.security == config.security
            && *before.inputs == inputs;
        if !in_any_case && newest > 0 && is_as_before {
            return newest;
        }
        let version = self.last_version.fetch_add(1, Ordering::SeqCst) + 1;
        let (registry, problems) = plan_registry(version, &self.native_toolsets, config, &inputs);
        let grants = Arc::new(Grants::from_config(config));
        // Reserved toolsets belong to another program. They exist, although this host does not
        // offer them.
        let is_reserved = |name: &str| config.host.reserved_toolsets.iter().any(|it| it == name);
        let exists = |name: &str| registry.has_toolset(name) || is_reserved(name);
        let missing = grants.problems(exists);
        let mut servers = RunningServers::new();
        for slot in slots.iter() {
            let running = Arc::clone(&slot.running);
            servers.entry(slot.scope.clone()).or_default().insert(Arc::clone(&slot.key), running);
        }
        let (config, servers, inputs) = (Arc::clone(config), Arc::new(servers), Arc::new(inputs));
        let newest = self.readers.register(version);
        let reader = Arc::downgrade(&newest);
        let published = HostSnapshot { registry, config, grants, servers, inputs, reader };
        self.published.store(Arc::new(published));
        self.readers.set_newest(newest);
        self.set_problems("plan", problems);
        self.set_problems("grants", missing);
        self.version.send_replace(version);
        self.events.publish(HostEvent::SnapshotPublished { version });
        version
    }

    /// Creates the running server for a supervised server.
    pub(super) fn create_running_server(
        self: &Arc<Self>,
        server: Arc<Server>,
        router: Arc<ServerRequestRouter>,
        metrics: Arc<CallMetrics>,
    ) -> Arc<RunningServer> {
        self.connection_events.add_server(
            server.number(),
            server.spec().key().into(),
            &server.main().view(),
        );
        let (running, lease_workers) = RunningServer::new(self, server, router, metrics);
        lease_workers.into_iter().for_each(|lease_worker| self.spawn_task(lease_worker));
        for changes in running.lease_changes() {
            self.spawn_task(publish_lease_changes(
                Arc::clone(&self.connection_events),
                self.events.clone(),
                &running,
                changes,
            ));
        }
        running
    }

    /// Ends a server that snapshots from `version` on do not contain: after all older turns have
    /// ended, or after the server's drain time. Calls in flight then get the drain time once more,
    /// or keep their own deadlines if there is none.
    pub(super) fn retire_server(&self, running: Arc<RunningServer>, version: u64) {
        let (readers, supervisor) = (self.readers.clone(), self.supervisor.clone());
        let connection_events = Arc::clone(&self.connection_events);
        self.spawn_task(async move {
            let limit =
                running.server.main().setup().settings.drain_kill.unwrap_or(TURN_DRAIN_TIMEOUT);
            readers.wait_for_older(version, limit).await;
            running.retire_leases();
            supervisor.retire(&running.server);
            connection_events.remove_server(running.server.number());
        });
    }

    /// Waits until all lists that servers have delivered so far are published.
    pub(super) async fn publish_pending_lists(&self) {
        let (reply, done) = oneshot::channel();
        if self.commands.send(ReconcilerCommand::Reconcile(reply)).await.is_ok() {
            // An error means that the host is closing.
            let _ = done.await;
        }
    }

    /// Replaces the problems of one group. A problem is logged once while it stays the same, even
    /// if its location in the file changes.
    pub(super) fn set_problems(&self, problem_group: &str, problems: Vec<Problem>) {
        let added = self.update_problems(problem_group, problems);
        added.iter().for_each(log_problem);
    }

    /// Replaces the problems of one group with those of a reload. Errors are logged by every
    /// reload, because a reload that fails like the one before is a new failure. Returns the
    /// problems that the reload has to log.
    pub(super) fn set_reload_problems(
        &self,
        problem_group: &str,
        problems: &[Problem],
    ) -> Vec<Problem> {
        let added = self.update_problems(problem_group, problems.to_vec());
        let is_logged = |problem: &&Problem| problem.is_error() || added.contains(problem);
        problems.iter().filter(is_logged).cloned().collect()
    }

    /// Publishes the changes of a group's problems. Returns the new problems.
    fn update_problems(&self, problem_group: &str, problems: Vec<Problem>) -> Vec<Problem> {
        let ProblemChanges { added, moved, removed } = self.problems.set(problem_group, problems);
        self.publish_solved(removed);
        let changed = added.iter().chain(&moved);
        changed.for_each(|problem| self.events.publish(HostEvent::Problem(problem.clone())));
        added
    }

    /// Removes a problem group and all groups with this prefix.
    pub(super) fn clear_problems(&self, problem_group: &str) {
        self.publish_solved(self.problems.remove_group(problem_group));
    }

    fn publish_solved(&self, ids: Vec<String>) {
        ids.into_iter().for_each(|id| self.events.publish(HostEvent::ProblemSolved(id)));
    }

    /// Tells the reconciler that a dialog has left its folder.
    pub(super) fn queue_left_folder(&self, folder: PathBuf) {
        self.left_folders.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
        self.connection_events.wakeup.notify_one();
    }

    pub(super) fn take_left_folders(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.left_folders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest snapshot, with a reader. A snapshot without readers may have lost its servers, so
    /// the loop then takes a newer one.
    pub(super) fn acquire_newest(&self) -> (Arc<HostSnapshot>, Arc<SnapshotReader>) {
        loop {
            let published = self.published.load_full();
            if let Some(reader) = published.reader.upgrade() {
                return (published, reader);
            }
        }
    }

    /// Spawns a background task that ends with the host.
    pub(super) fn spawn_task(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }
}

/// Logs a problem at the level of its severity.
pub(super) fn log_problem(problem: &Problem) {
    let (code, line) = (&problem.code, problem.to_line());
    match problem.severity {
        Severity::Error => tracing::error!(%code, "{line}"),
        Severity::Warning => tracing::warn!(%code, "{line}"),
        Severity::Info => tracing::info!(%code, "{line}"),
    }
}

/// Publishes the leases of a server whenever they change, until the server is dropped.
fn publish_lease_changes(
    connection_events: Arc<ConnectionEvents>,
    events: EventBus,
    running: &Arc<RunningServer>,
    mut changes: watch::Receiver<u64>,
) -> impl Future<Output = ()> + Send + 'static + use<> {
    let running = Arc::downgrade(running);
    async move {
        while changes.changed().await.is_ok() {
            let Some(running) = running.upgrade() else { return };
            let (server, leases) = (Arc::clone(&running.key), running.leases());
            events.publish(HostEvent::LeasesChanged { server, leases });
            if running.spec().policy.session.scope == SessionScope::PerConversation {
                // A dialog with a session of its own sees that session's lists, and the shared
                // lists after losing the session.
                connection_events.wakeup.notify_one();
            }
        }
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("root", &self.workspace.root).finish_non_exhaustive()
    }
}

//! The handle to a running host.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_config::model::policy::{Connect, ReloadTrigger};
use toolcrib_config::{Config, Problem};
use toolcrib_upstream::conn::{ConnEvent, Demand};

use super::background_calls::BackgroundCalls;
use super::builder::HostBuilder;
use super::client_capabilities::DeclaredCapabilities;
use super::core::Core;
use super::dialog::{Dialog, DialogRequest, DialogState};
use super::dialog_lists::DialogLists;
use super::events::EventListener;
use super::pending_requests::PendingRequests;
use super::reconciler::ReconcilerCommand;
use super::reload::Reload;
use super::running_server::RunningServer;
use super::slot::{is_away, startup_timeout};
use super::status::{HostStats, ServerStatus, server_status};
use super::tool_counters::ToolCount;
use super::visibility::Visibility;
use crate::access::{DEFAULT_AGENT, ToolsetPermissions, ToolsetRef};
use crate::store::{Store, StoreError};

/// Time limit for pending writes when the host closes.
const STORE_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for token renewals when the host closes. A renewed refresh token may be the only
/// valid one, so the host waits for it and stores it.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A running host. Clones refer to the same host. Dropping the last clone ends everything
/// immediately; [`Host::close`] ends it in good order.
///
/// ```
/// # async fn example() -> Result<(), toolcrib::StartError> {
/// let host = toolcrib::Host::builder("/my/workspace", "/my/state").start().await?;
/// host.wait_until_settled().await;
/// for server in host.servers() {
///     println!("{} is {}", server.spec.id, server.state.as_str());
/// }
/// host.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Host(Arc<HostInner>);

#[derive(Debug)]
pub(super) struct HostInner {
    core: Arc<Core>,
    reconciler: Mutex<JoinSet<()>>,
}

/// The servers that a list waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListWait {
    /// Servers that start with the first list.
    FirstList,
    /// Servers that start in the background, too: they may own the requested tool.
    All,
}

/// Why a dialog could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DialogError {
    /// The working folder does not exist.
    #[error("`{}` is not a folder", .0.display())]
    NoFolder(PathBuf),
    /// The dialog's switches could not be read.
    #[error("cannot read the dialog's switches")]
    Store(#[source] StoreError),
    /// The dialog belongs to another agent or principal.
    #[error("the dialog id belongs to another agent or principal")]
    OwnedByAnother,
    /// The host is shutting down.
    #[error("the host is shutting down")]
    Closing,
}

impl Host {
    /// Configures a host for a workspace. The host keeps its state in the folder `state`.
    pub fn builder(root: impl Into<PathBuf>, state: impl Into<PathBuf>) -> HostBuilder {
        HostBuilder::new(root, state)
    }

    pub(super) fn new(core: Arc<Core>, reconciler: JoinSet<()>) -> Self {
        Host(Arc::new(HostInner { core, reconciler: Mutex::new(reconciler) }))
    }

    pub(super) fn from_inner(inner: Arc<HostInner>) -> Self {
        Host(inner)
    }

    pub(super) fn inner(&self) -> &Arc<HostInner> {
        &self.0
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    /// Waits until the first configuration is loaded: every eager server is ready or has failed.
    pub async fn wait_until_ready(&self) {
        let mut loaded = self.core().first_load.subscribe();
        // An error means that the host was closed, so there is nothing to wait for.
        let _ = loaded.wait_for(|loaded| *loaded).await;
    }

    /// Waits until the configuration was read once. Before that, its content is unknown.
    pub async fn wait_until_configured(&self) {
        let core = self.core();
        let (mut version, mut loaded) = (core.version.subscribe(), core.first_load.subscribe());
        tokio::select! {
            _ = version.wait_for(|version| *version > 0) => {}
            // The first load also ends if the configuration could not be read or the host was
            // closed.
            _ = loaded.wait_for(|loaded| *loaded) => {}
        }
    }

    /// Whether the first configuration is loaded.
    pub fn is_ready(&self) -> bool {
        *self.core().first_load.borrow()
    }

    /// Waits until every starting server is ready, has failed or has timed out, and until the lists
    /// are published.
    pub async fn wait_until_settled(&self) {
        self.wait_until_ready().await;
        let published = self.core().published.load_full();
        join_all(published.running_servers().map(|running| running.wait_until_settled())).await;
        self.core().publish_pending_lists().await;
    }

    /// Reloads the configuration. Returns after the started servers are ready or have failed;
    /// `None` if the host is closing.
    pub async fn reload(&self) -> Option<Arc<Reload>> {
        self.send_command(ReconcilerCommand::Reload).await
    }

    /// The report of the newest reload. The start of the host is a reload, too, and is waited for.
    /// Returns `None` if the host closes before.
    pub async fn last_reload(&self) -> Option<Arc<Reload>> {
        let mut events = self.subscribe();
        loop {
            if let Some(reload) = self.core().last_reload.load_full() {
                return Some(reload);
            }
            if events.next().await.is_none() {
                // The listener was too slow, or the host was closed.
                events = self.subscribe();
                if events.is_closed() {
                    return None;
                }
            }
        }
    }

    /// The number of the newest snapshot.
    pub fn snapshot_version(&self) -> u64 {
        *self.core().version.borrow()
    }

    /// The configuration of the newest snapshot.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.core().published.load().config)
    }

    /// Opens a dialog: a new one, or the existing one with the requested id.
    pub async fn open_dialog(&self, request: DialogRequest) -> Result<Dialog, DialogError> {
        let core = self.core();
        let id: Arc<str> = request.id.unwrap_or_else(generate_dialog_id).into();
        let agent: Arc<str> = request.agent.as_deref().unwrap_or(DEFAULT_AGENT).into();
        let principal = request.principal;
        let check_owner =
            |inner: Arc<DialogState>| match inner.agent == agent && inner.principal == principal {
                true => Ok(Dialog { host: self.clone(), inner }),
                false => Err(DialogError::OwnedByAnother),
            };
        if let Some(inner) = core.dialogs.get(&id) {
            return check_owner(inner);
        }
        let cwd = self.resolve_folder(request.cwd)?;
        let switches = core.store.switches(&id).await.map_err(DialogError::Store)?;
        let inner = Arc::new(DialogState {
            agent: Arc::clone(&agent),
            principal: principal.clone(),
            era: request.era,
            capabilities: DeclaredCapabilities::new(
                request.capabilities.unwrap_or(core.capabilities),
            ),
            switches: Mutex::new(Arc::new(switches.into_iter().collect())),
            lists: DialogLists::default(),
            requests: PendingRequests::default(),
            background_calls: BackgroundCalls::default(),
            events: core.events.clone(),
            closed: AtomicBool::new(false),
            log_level: Mutex::default(),
            cwd,
            id,
        });
        check_owner(self.enter_folder(inner).await?)
    }

    /// Enters the dialog's folder. A folder other than the root has its own configuration.
    async fn enter_folder(&self, new: Arc<DialogState>) -> Result<Arc<DialogState>, DialogError> {
        let core = self.core();
        if new.cwd != core.workspace.root {
            let entered = self
                .send_command(|reply| ReconcilerCommand::EnterFolder(new.cwd.clone(), reply))
                .await;
            entered.ok_or(DialogError::Closing)?;
        }
        let inner = core.dialogs.get_or_insert(Arc::clone(&new));
        if !Arc::ptr_eq(&inner, &new) {
            self.leave_folder(&new);
        }
        Ok(inner)
    }

    fn leave_folder(&self, inner: &DialogState) {
        if inner.cwd != self.core().workspace.root {
            self.core().queue_left_folder(inner.cwd.clone());
        }
    }

    /// The dialog with this id.
    pub fn find_dialog(&self, id: &str) -> Option<Dialog> {
        self.core().dialogs.get(id).map(|inner| Dialog { host: self.clone(), inner })
    }

    /// All open dialogs, ordered by id.
    pub fn dialogs(&self) -> Vec<Dialog> {
        let all = self.core().dialogs.list().into_iter();
        all.map(|inner| Dialog { host: self.clone(), inner }).collect()
    }

    pub(super) async fn close_dialog(&self, id: &str) {
        let core = self.core();
        let Some(inner) = core.dialogs.remove(id) else { return };
        // First: an acquisition that finishes after the release of the leases must see that the
        // dialog is closed.
        inner.closed.store(true, Ordering::SeqCst);
        inner.background_calls.close();
        inner.requests.close();
        core.full_results.remove_dialog(id);
        for running in core.published.load().running_servers() {
            running.close_dialog(&inner.id);
        }
        self.leave_folder(&inner);
        // Last: a caller that was cancelled must not prevent the steps above.
        if let Err(error) = core.store.forget_dialog(id).await {
            tracing::warn!(dialog = id, %error, "cannot delete the dialog's switches");
        }
    }

    /// Every server, in the order of the files.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let published = self.core().published.load_full();
        let all = published.registry.servers();
        all.filter_map(|server| server_status(&published, server)).collect()
    }

    /// One server, by its id or key.
    pub fn server(
        &self,
        name: &str,
    ) -> Result<ServerStatus, super::server_operations::ServerOperationError> {
        let key = Arc::clone(&self.find_server(name)?.key);
        let gone = || super::server_operations::ServerOperationError::NoServer {
            name: name.to_owned(),
            known: Vec::new(),
        };
        self.servers().into_iter().find(|server| server.key == key).ok_or_else(gone)
    }

    /// The servers that an agent may see; without an agent, those that the owner may see.
    pub fn visibility(&self, agent: Option<&str>) -> Visibility {
        let core = self.core();
        Visibility::new(core.published.load_full(), core.attached.load_full(), agent)
    }

    /// Whether exactly one server has this id or key.
    pub fn has_server(&self, name: &str) -> bool {
        self.find_server(name).is_ok()
    }

    /// Whether an agent may use anything of any server.
    pub fn has_grants(&self, agent: &str) -> bool {
        let (published, attached) = (self.core().published.load(), self.core().attached.load());
        published.registry.servers().any(|server| {
            let toolset = ToolsetRef::Server(&server.spec);
            !ToolsetPermissions::new(&published.grants, agent, &attached, toolset).is_empty()
        })
    }

    /// The root folder of the host's workspace.
    pub fn root(&self) -> &std::path::Path {
        &self.core().workspace.root
    }

    /// All current problems.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.core().problems.all();
        problems.extend(self.core().store.problems());
        problems.extend(self.core().conn_context.sources.credentials().problem());
        problems
    }

    /// Subscribes to the events that are published from now on.
    pub fn subscribe(&self) -> EventListener {
        self.core().events.subscribe()
    }

    /// The current figures of the host.
    pub fn status(&self) -> HostStats {
        let core = self.core();
        let published = core.published.load_full();
        let running = || published.running_servers();
        HostStats {
            version: published.registry.version(),
            uptime: core.started.elapsed(),
            servers: running().count(),
            ready: running().filter(|it| it.is_ready()).count(),
            tools: published.registry.tool_count(),
            dialogs: core.dialogs.count(),
            leases: running().map(|it| it.leases().len()).sum(),
            problems: self.problems().len(),
            draining: core.supervisor.draining(),
            reloads: core.reloads.load(Ordering::Relaxed),
            dropped_records: core.store.dropped_records(),
        }
    }

    /// The number of calls per tool and outcome since the host started.
    pub fn tool_counts(&self) -> Vec<ToolCount> {
        self.core().tool_counters.read()
    }

    /// The store, with the call records.
    pub fn store(&self) -> &Store {
        &self.core().store
    }

    /// Lets an agent use a server that requires attachment. Returns false if the server is attached
    /// already or does not exist.
    pub fn attach_server(&self, agent: &str, server: &str) -> bool {
        self.change_attachment(server, |attached, key| attached.attach(agent, key))
    }

    /// Revokes an attachment. Returns false if the server was not attached.
    pub fn detach_server(&self, agent: &str, server: &str) -> bool {
        self.change_attachment(server, |attached, key| attached.detach(agent, key))
    }

    fn change_attachment(
        &self,
        server: &str,
        change: impl Fn(&mut crate::access::Attachments, &str) -> bool,
    ) -> bool {
        let Ok(running) = self.find_server(server) else { return false };
        let mut changed = false;
        self.core().attached.rcu(|attached| {
            let mut attached = crate::access::Attachments::clone(attached);
            changed = change(&mut attached, &running.key);
            attached
        });
        changed
    }

    /// Closes the host in good order: dialogs, servers with their processes, and pending writes.
    pub async fn close(&self) {
        let core = self.core();
        // The first load will not happen any more, so its waiters are released.
        core.first_load.send_replace(true);
        for dialog in core.dialogs.list() {
            dialog.closed.store(true, Ordering::SeqCst);
            dialog.background_calls.close();
            dialog.requests.close();
            core.dialogs.remove(&dialog.id);
        }
        let mut reconciler =
            std::mem::take(&mut *self.0.reconciler.lock().unwrap_or_else(PoisonError::into_inner));
        reconciler.shutdown().await;
        core.published.load().running_servers().for_each(|running| running.end_leases());
        let limit = core.published.load().config.host.reload.shutdown_limit();
        core.supervisor.close(limit).await;
        let mut tasks =
            std::mem::take(&mut *core.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
        core.conn_context.accounts.wait_for_renewals(TOKEN_TIMEOUT).await;
        core.conn_context.instance.close().await;
        core.store.close(STORE_CLOSE_TIMEOUT).await;
        core.events.close();
    }

    /// Waits for what a list depends on: the first load, changed files, and servers that start with
    /// the first list. A server that died is restarted without waiting (DOM-94, DIS-32).
    pub(super) async fn wait_for_lists(&self, dialog: &DialogState, waits: ListWait) {
        self.wait_until_ready().await;
        if self.reloads_per_turn(dialog) {
            // The reply is dropped if no file has changed.
            let _ = self.send_command(ReconcilerCommand::ReloadIfChanged).await;
        }
        let (unlisted, away) = self.servers_to_list(dialog, waits);
        for running in away {
            // A full inbox is harmless: the next list asks again.
            running.server.main().try_send_event(ConnEvent::Demanded(Demand::List));
        }
        let starts = unlisted.iter().map(|running| async move {
            let ready = running.server.main().acquire_without_retry(Demand::List);
            // A failing server does not prevent the other servers from being listed.
            let _ = timeout(startup_timeout(running.spec()), ready).await;
        });
        join_all(starts).await;
        if !unlisted.is_empty() {
            self.core().publish_pending_lists().await;
        }
    }

    /// The servers to list now, because their lists are unknown or may be outdated; and the servers
    /// that are away.
    fn servers_to_list(
        &self,
        dialog: &DialogState,
        waits: ListWait,
    ) -> (Vec<Arc<RunningServer>>, Vec<Arc<RunningServer>>) {
        let published = self.core().published.load_full();
        let switches = dialog.switches();
        let seen = published.registry.view(Some(&dialog.cwd)).servers();
        let (mut wanted, mut away) = (Vec::new(), Vec::new());
        for server in seen.filter(|server| switches.is_on(&server.key)) {
            let Some(running) = published.running_server(server) else { continue };
            if is_away(running.state()) {
                // A dialog that leases the connection restarts the server with its next call.
                let is_shared = !running.server.is_lent();
                away.extend(is_shared.then(|| Arc::clone(running)));
                continue;
            }
            let is_wanted = match server.spec.policy.lifecycle.connect {
                Connect::OnFirstList | Connect::OnFirstCall => !server.is_discovered,
                Connect::Background => !server.is_discovered && waits == ListWait::All,
                Connect::Eager => false,
            };
            let may_be_old = !server.spec.policy.discovery.ttl.0.is_zero();
            wanted.extend((is_wanted || may_be_old).then(|| Arc::clone(running)));
        }
        (wanted, away)
    }

    /// Whether files are checked before each turn.
    fn reloads_per_turn(&self, dialog: &DialogState) -> bool {
        let published = self.core().published.load();
        let mut seen = published.registry.view(Some(&dialog.cwd)).servers();
        published.config.host.reload.mode == ReloadTrigger::PerTurn
            || seen.any(|server| server.spec.policy.reload == ReloadTrigger::PerTurn)
    }

    /// Finds a server by its id or key, in all folders.
    pub(super) fn find_server(
        &self,
        name: &str,
    ) -> Result<Arc<RunningServer>, super::server_operations::ServerOperationError> {
        let published = self.core().published.load_full();
        let mut found = published.registry.servers().filter(|server| server.matches_name(name));
        match (found.next(), found.next()) {
            (Some(server), None) => published.running_server(server).cloned(),
            (Some(first), Some(_)) if &*first.key == name => {
                published.running_server(first).cloned()
            }
            _ => None,
        }
        .ok_or_else(|| {
            let known = published.registry.servers().map(|server| server.id().to_owned());
            super::server_operations::ServerOperationError::NoServer {
                name: name.to_owned(),
                known: known.collect(),
            }
        })
    }

    /// Sends a command to the reconciler and waits for the reply. Returns `None` if the host is
    /// closing.
    pub(super) async fn send_command<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> ReconcilerCommand,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.core().commands.send(command(reply)).await.ok()?;
        answer.await.ok()
    }
}

fn generate_dialog_id() -> String {
    // Without randomness the id still contains the time.
    let chance = getrandom::u64().unwrap_or_default();
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:012x}{chance:016x}", time.as_micros())
}

impl Host {
    fn resolve_folder(&self, cwd: Option<PathBuf>) -> Result<PathBuf, DialogError> {
        let root = &self.core().workspace.root;
        let Some(cwd) = cwd else { return Ok(root.clone()) };
        let real = cwd.canonicalize().ok().filter(|folder| folder.is_dir());
        let real = real.ok_or(DialogError::NoFolder(cwd))?;
        // The root keeps the name that the host was created with.
        let is_root = root.canonicalize().is_ok_and(|root| root == real);
        Ok(if is_root { root.clone() } else { real })
    }
}

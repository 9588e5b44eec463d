//! One conversation of one agent: its tools, leases and pending requests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use toolcrib_config::model::policy::Roots;
use toolcrib_wire::view::LogLevel;
use toolcrib_wire::{Era, RawJson, RpcError, method};

use super::background_calls::BackgroundCalls;
use super::call::{CallRequest, Execution};
use super::client_capabilities::{DeclaredCapabilities, DialogCapabilities};
use super::dialog_lists::DialogLists;
use super::events::EventBus;
use super::handle::{Host, ListWait};
use super::pending_requests::{PendingRequest, PendingRequests, UnattendedCall};
use super::running_server::RunningServer;
use super::turn::Turn;
use crate::access::Switches;
use crate::lease::{Lease, Reminder, reminder_for_lease};
use crate::registry::RegisteredServer;
use crate::results::{CallError, CallResult};
use crate::store::StoreError;

/// The settings of a [`Dialog`].
#[derive(Clone, Debug, Default)]
pub struct DialogRequest {
    /// The dialog's id. An existing dialog with this id is resumed, with its switches. `None`
    /// creates a new id.
    pub id: Option<String>,
    /// The agent. The default is `default`.
    pub agent: Option<String>,
    /// The principal that owns the dialog. To all other principals the id is taken.
    pub principal: Option<String>,
    /// The dialog's working folder. The default is the host's root.
    pub cwd: Option<PathBuf>,
    /// The protocol era of the dialog's client, if it matters to servers.
    pub era: Option<Era>,
    /// The client features that the dialog can answer. The default is set by
    /// [`HostBuilder::capabilities`](super::HostBuilder::capabilities).
    pub capabilities: Option<DialogCapabilities>,
}

/// A dialog. Clones refer to the same dialog, which lasts until it or the host is closed.
///
/// ```
/// # async fn example(host: toolcrib::Host) -> Result<(), toolcrib::DialogError> {
/// let request = toolcrib::DialogRequest { agent: Some("coder".into()), ..Default::default() };
/// let dialog = host.open_dialog(request).await?;
/// println!("dialog {} of {}", dialog.id(), dialog.agent());
/// dialog.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Dialog {
    pub(super) host: Host,
    pub(super) inner: Arc<DialogState>,
}

/// The state of a dialog.
#[derive(Debug)]
pub(super) struct DialogState {
    pub(super) id: Arc<str>,
    pub(super) agent: Arc<str>,
    pub(super) principal: Option<String>,
    pub(super) cwd: PathBuf,
    pub(super) era: Option<Era>,
    pub(super) capabilities: DeclaredCapabilities,
    pub(super) switches: Mutex<Arc<Switches>>,
    pub(super) lists: DialogLists,
    pub(super) requests: PendingRequests,
    pub(super) background_calls: BackgroundCalls,
    pub(super) events: EventBus,
    pub(super) closed: AtomicBool,
    pub(super) log_level: Mutex<Option<LogLevel>>,
}

/// Why a server could not be switched on or off for a dialog.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The dialog has no server with this id or key.
    #[error("there is no server `{0}` in this dialog")]
    NoServer(String),
    /// The switch could not be stored.
    #[error("cannot store the switch")]
    Store(#[source] StoreError),
}

impl Dialog {
    /// The dialog's id.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The dialog's agent.
    pub fn agent(&self) -> &str {
        &self.inner.agent
    }

    /// The principal that owns the dialog, if there is one.
    pub fn principal(&self) -> Option<&str> {
        self.inner.principal.as_deref()
    }

    /// Whether the dialog was closed, by any of its clones or by the host.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// The dialog's working folder.
    pub fn cwd(&self) -> &std::path::Path {
        &self.inner.cwd
    }

    /// The host of the dialog.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Starts a turn, which sees a single snapshot. Waits for the first lists of starting servers.
    pub async fn turn(&self) -> Turn {
        self.host.wait_for_lists(&self.inner, ListWait::FirstList).await;
        self.turn_now()
    }

    /// Starts a turn with the newest snapshot, without starting or waiting for any server.
    pub fn turn_now(&self) -> Turn {
        Turn::new(self.clone())
    }

    /// Calls a tool of the newest snapshot.
    pub async fn call(&self, request: CallRequest) -> Result<CallResult, CallError> {
        self.execute(request).await.into_result()
    }

    /// Calls a tool of the newest snapshot and returns errors inside the [`Execution`].
    pub async fn execute(&self, request: CallRequest) -> Execution {
        let turn = self.turn_with_tool(&request.tool).await;
        turn.execute_numbered(turn.call_number(&request), &request).await
    }

    /// A turn for a call of this tool. An unknown tool may belong to a server that has not been
    /// listed yet, so the turn then waits for the lists.
    pub(super) async fn turn_with_tool(&self, tool: &str) -> Turn {
        let turn = self.turn_now();
        match turn.has_tool(tool) {
            true => turn,
            false => {
                Box::pin(self.host.wait_for_lists(&self.inner, ListWait::All)).await;
                self.turn_now()
            }
        }
    }

    /// A turn for a call of this tool. If the tool's server died, the server is restarted and
    /// waited for.
    pub async fn turn_with_running_server(&self, tool: &str) -> Turn {
        self.turn_with_tool(tool).await.into_restarted_turn(tool).await
    }

    /// The servers that the dialog could use, with their switches.
    pub fn switches(&self) -> Vec<(Arc<RegisteredServer>, bool)> {
        let published = self.host.core().published.load_full();
        let switches = self.inner.switches();
        let servers = published.registry.view(Some(&self.inner.cwd)).servers();
        servers.map(|server| (Arc::clone(server), switches.is_on(&server.key))).collect()
    }

    /// Switches a server on or off for this dialog only. The switch is kept as long as the dialog.
    pub async fn set_switch(&self, server: &str, on: bool) -> Result<(), SwitchError> {
        let key = self
            .resolve_server_key(server)
            .ok_or_else(|| SwitchError::NoServer(server.to_owned()))?;
        let kept = self.host.core().store.set_switch(&self.inner.id, &key, on).await;
        kept.map_err(SwitchError::Store)?;
        let mut switches = self.inner.switches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Switches::clone(&switches);
        changed.set(&key, on);
        *switches = Arc::new(changed);
        Ok(())
    }

    /// The key of a server, by an id or key as this dialog's folder resolves it.
    pub(super) fn resolve_server_key(&self, server: &str) -> Option<Arc<str>> {
        let published = self.host.core().published.load();
        let found = published.registry.view(Some(&self.inner.cwd)).server(server);
        found.map(|server| Arc::clone(&server.key))
    }

    /// The leases of the dialog, oldest first.
    pub fn leases(&self) -> Vec<Lease> {
        let held = |lease: &Lease| lease.dialog == self.inner.id;
        let published = self.host.core().published.load_full();
        let mut leases: Vec<Lease> =
            published.running_servers().flat_map(|running| running.leases()).filter(held).collect();
        leases.sort_by_key(|lease| lease.since);
        leases
    }

    /// Whether the dialog has a lease. Every list of every client asks this, so it does not collect
    /// the leases.
    pub(super) fn has_lease(&self) -> bool {
        let published = self.host.core().published.load_full();
        published.running_servers().any(|running| running.has_lease(&self.inner.id))
    }

    /// Releases a lease, by the server's id or key. Returns false if the dialog has none.
    pub fn release_lease(&self, server: &str) -> bool {
        let published = self.host.core().published.load_full();
        let found = published.registry.view(Some(&self.inner.cwd)).server(server);
        let running = found.and_then(|server| published.running_server(server));
        running.is_some_and(|running| running.release_lease(&self.inner.id))
    }

    /// The reminders for the agent: one per lease, as long as the lease exists.
    pub fn reminders(&self) -> Vec<Reminder> {
        let published = self.host.core().published.load_full();
        let mut reminders: Vec<Reminder> = published
            .running_servers()
            .flat_map(|running| {
                let held = running.leases().into_iter().filter(|it| it.dialog == self.inner.id);
                let session = running.spec().policy.session.clone();
                held.filter_map(move |lease| reminder_for_lease(&lease, &session))
                    .collect::<Vec<_>>()
            })
            .collect();
        reminders.sort_by(|a, b| a.server.cmp(&b.server));
        reminders
    }

    /// The requests of servers that wait for the client's answer.
    pub fn pending_requests(&self) -> Vec<PendingRequest> {
        self.inner.requests.list()
    }

    /// Whether this request still waits for its answer.
    pub fn is_request_pending(&self, request: u64) -> bool {
        self.inner.requests.is_pending(request)
    }

    /// Routes a request to another call's client, because this call's client cannot be asked.
    /// Returns false if there is no other call.
    pub fn reroute_request(&self, request: u64, call: u64) -> bool {
        self.inner.requests.reroute(request, call, self.inner.capabilities.get())
    }

    /// Answers a request; an error refuses it. Returns true if the answer reaches the server, false
    /// if the server no longer waits.
    pub fn answer_request(&self, request: u64, answer: Result<RawJson, RpcError>) -> bool {
        self.inner.requests.answer(request, answer)
    }

    /// Adds capabilities of a request. Sessions that open from now on declare them.
    pub fn declare_capabilities(&self, capabilities: DialogCapabilities) {
        self.inner.capabilities.add(capabilities);
    }

    /// Announces that the client's roots have changed, if the dialog has declared such
    /// announcements.
    pub fn notify_roots_changed(&self, params: Option<&RawJson>) {
        if !self.inner.capabilities.get().roots_changes {
            return;
        }
        let published = self.host.core().published.load_full();
        let asks = |running: &RunningServer| running.spec().policy.client.roots == Roots::Cwd;
        for running in published.running_servers().filter(|running| asks(running)) {
            running.notify_dialog_session(&self.inner.id, method::ROOTS_CHANGED, params);
        }
    }

    /// Marks a call as unattended until the returned guard is dropped.
    pub fn mark_call_unattended(&self, call: u64) -> UnattendedCall {
        UnattendedCall::new(&self.inner, call)
    }

    /// A channel that changes whenever a request starts, ends or changes its carrier.
    pub fn watch_requests(&self) -> watch::Receiver<u64> {
        self.inner.requests.watch()
    }

    /// Sets the minimum severity of log messages that servers send to this dialog. The default
    /// comes from the configuration.
    pub fn set_log_level(&self, level: LogLevel) {
        *self.inner.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// Reserves a number for a call.
    pub fn next_call_number(&self) -> u64 {
        self.host.core().next_call_number()
    }

    /// Starts a background call and returns its number immediately.
    pub fn start_call(&self, request: CallRequest) -> Result<u64, CallError> {
        self.inner.background_calls.start(self.clone(), request)
    }

    /// The outcome of a background call; `None` if the call is running or does not exist.
    pub fn poll_call(&self, call: u64) -> Option<Execution> {
        self.inner.background_calls.poll(call)
    }

    /// Whether this background call is running.
    pub fn is_call_running(&self, call: u64) -> bool {
        self.inner.background_calls.is_running(call)
    }

    /// Whether any background call is running.
    pub fn has_running_calls(&self) -> bool {
        self.inner.background_calls.has_running()
    }

    /// Waits for the outcome of a background call. Returns `None` if there is no such call.
    pub async fn wait_for_call(&self, call: u64) -> Option<Execution> {
        self.inner.background_calls.wait(call).await
    }

    /// Cancels a background call. Returns false if the call has ended or does not exist.
    pub fn cancel_call(&self, call: u64) -> bool {
        self.inner.background_calls.cancel(call)
    }

    /// Closes the dialog, releases its leases and forgets its switches.
    pub async fn close(&self) {
        self.host.close_dialog(&self.inner.id).await;
    }
}

impl DialogState {
    /// The era of the sessions that the dialog leases.
    pub(super) fn session_era(&self) -> Era {
        self.era.unwrap_or(Era::Modern)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(super) fn log_level(&self) -> Option<LogLevel> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn switches(&self) -> Arc<Switches> {
        Arc::clone(&self.switches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

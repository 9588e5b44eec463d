//! HTTP server for the gateway and the control API, on TCP addresses and on the owner's socket.

mod connection_limit;
mod fast_path;
pub mod headers;
mod index_page;
mod listen;
pub mod pipe;
pub mod request_body;
pub mod response;
pub(crate) mod route;
pub(crate) mod token_expiry;
mod write_timeout;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use toolcrib::Host;
use toolcrib::internal::Visibility;
pub use toolcrib_http::server::WorkerThreads;

use crate::api::DialogActivity;
use crate::gateway::Gateway;
use crate::identity::{EntryPoint, Identity, Principal, PrincipalLimits};
use crate::shutdown::Shutdown;
use crate::trace::TraceSender;
use connection_limit::ConnectionLimit;

/// Maximum interval between checks for idle clients.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// Interval between checks for a new configuration.
const RELOAD_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between checks of tokens and configuration.
const PERMISSION_CHECK_INTERVAL: Duration = Duration::from_millis(250);

const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(50);

/// The HTTP server. All connections share it.
#[derive(Debug)]
pub struct Front {
    pub(crate) host: Host,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) identity: Identity,
    pub(crate) dialog_activity: DialogActivity,
    shutdown: Shutdown,
    /// Notified when tokens or the configuration change, so that streams check their permission at once.
    permission_changes: watch::Sender<()>,
    /// True if the first configuration is loaded; never reset.
    is_configured: AtomicBool,
    connection_limit: ConnectionLimit,
    /// Clients on upgraded connections.
    pipes: Mutex<JoinSet<()>>,
}

impl Front {
    /// Creates a front without trace export.
    pub fn new(host: Host, identity: Identity) -> Arc<Self> {
        Self::with_traces(host, identity, TraceSender::default())
    }

    /// Like [`Front::new`], and exports spans of calls.
    pub fn with_traces(host: Host, identity: Identity, traces: TraceSender) -> Arc<Self> {
        let gateway = Gateway::with_request_rate(host.clone(), traces, identity.request_rate());
        Arc::new(Front {
            host,
            gateway,
            identity,
            dialog_activity: DialogActivity::default(),
            shutdown: Shutdown::default(),
            permission_changes: watch::Sender::default(),
            is_configured: AtomicBool::new(false),
            connection_limit: ConnectionLimit::default(),
            pipes: Mutex::default(),
        })
    }

    /// The authentication of this front.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Serves a TCP address on these threads until the front closes.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener, threads: &WorkerThreads) {
        // Unknown addresses count as public.
        let entry_point = match listener.local_addr().map(|address| address.ip()) {
            Ok(address) if address.is_loopback() => EntryPoint::Loopback,
            Ok(address) => EntryPoint::Network(address),
            Err(_) => EntryPoint::Network(std::net::Ipv4Addr::UNSPECIFIED.into()),
        };
        tokio::select! {
            () = listen::serve(self, listener, entry_point, threads) => {}
            () = threads.run_main() => {}
            () = self.sweep() => {}
            () = self.watch_permissions() => {}
        }
    }

    /// Serves the owner's socket until the front closes.
    pub async fn serve_socket(self: &Arc<Self>, listener: UnixListener) {
        let here = WorkerThreads::default();
        tokio::select! {
            () = listen::serve(self, listener, EntryPoint::OwnerSocket, &here) => {}
            () = self.sweep() => {}
        }
        self.wait_for_pipes().await;
    }

    /// Accepts no more connections, and lets existing ones finish.
    pub fn close(&self) {
        self.gateway.close();
        self.shutdown.start();
    }

    /// Ends idle sessions and dialogs, and dialogs whose principal became another agent. Never returns; the caller
    /// drops it.
    async fn sweep(&self) {
        tokio::join!(self.sweep_idle(), self.sweep_changed_agents());
    }

    /// Ends dialogs whose principal became another agent in a new configuration. Sessions are checked on use, streams
    /// by [`token_expiry`].
    async fn sweep_changed_agents(&self) {
        let mut known = self.host.config();
        loop {
            sleep(RELOAD_CHECK_INTERVAL).await;
            let config = self.host.config();
            if Arc::ptr_eq(&known, &config) {
                continue;
            }
            known = config;
            for dialog in self.host.dialogs() {
                let now = dialog.principal();
                let now = now.and_then(|it| Identity::configured_agent(&known.gateway, it));
                if now.is_some_and(|now| now != dialog.agent()) {
                    dialog.close().await;
                }
            }
        }
    }

    async fn sweep_idle(&self) {
        loop {
            let idle = self.limits().idle;
            sleep(idle.map_or(SWEEP_INTERVAL, |idle| {
                (idle / 2).clamp(MIN_SWEEP_INTERVAL, SWEEP_INTERVAL)
            }))
            .await;
            let Some(idle) = idle else { continue };
            self.gateway
                .close_idle_clients(idle, |dialog| self.dialog_activity.is_recent(dialog, idle))
                .await;
            let is_busy =
                |id: &str| self.host.find_dialog(id).is_some_and(|it| it.has_running_calls());
            for id in
                self.dialog_activity.remove_idle(idle, is_busy, |id| self.gateway.has_dialog(id))
            {
                if let Some(dialog) = self.host.find_dialog(&id) {
                    dialog.close().await;
                }
            }
        }
    }

    /// Polls tokens and configuration. Streams of a revoked token end soon, and the host stays protected even if the
    /// token file is deleted.
    async fn watch_permissions(&self) {
        let read_state = || (self.identity.issued_tokens(), self.host.config());
        let mut known = read_state();
        loop {
            sleep(PERMISSION_CHECK_INTERVAL).await;
            let now = read_state();
            if now.0 != known.0 || !Arc::ptr_eq(&now.1, &known.1) {
                self.permission_changes.send_replace(());
            }
            known = now;
        }
    }

    /// The servers visible to a principal. Every interface that names servers uses this.
    pub(crate) fn visibility_for(&self, principal: &Principal) -> Visibility {
        self.visibility_as(principal, &principal.agent)
    }

    /// The servers visible to a principal that acts as this agent.
    pub(crate) fn visibility_as(&self, principal: &Principal, agent: &str) -> Visibility {
        self.host.visibility((!principal.is_owner).then_some(agent))
    }

    /// Limits of each principal in the current configuration.
    pub(crate) fn limits(&self) -> PrincipalLimits {
        PrincipalLimits::from_config(&self.host.config().gateway.limits)
    }

    fn is_closing(&self) -> bool {
        self.shutdown.has_started()
    }

    /// Waits for the first configuration, because it decides on authentication.
    async fn wait_configured(&self) {
        if !self.is_configured.load(Ordering::Acquire) {
            self.host.wait_until_configured().await;
            self.is_configured.store(true, Ordering::Release);
        }
    }

    /// Waits until the front closes.
    pub(crate) async fn wait_closing(&self) {
        self.shutdown.wait_started().await;
    }
}

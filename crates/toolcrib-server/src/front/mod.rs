//! The one HTTP server in front of the gateway and the control API, on addresses and on the owner's socket.

mod crowd;
mod head;
pub mod headers;
pub(crate) mod lapse;
mod listen;
mod loops;
mod page;
mod patient;
pub mod pipe;
pub mod posted;
mod quick;
mod replay;
pub mod reply;
pub(crate) mod route;
mod speak;
mod vigil;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use toolcrib::Host;
use toolcrib::host::Visibility;

use crate::api::Visits;
use crate::closing::Closing;
use crate::gateway::Gateway;
use crate::identity::{Door, Identity, Limits, Principal};
use crate::trace::Traces;
use crowd::Crowd;
pub use loops::Loops;

/// How often is looked for those who have gone without a word.
const SWEEP: Duration = Duration::from_secs(15);

/// How often is looked whether the configuration was read again.
const RELOADED: Duration = Duration::from_secs(1);

/// How often the tokens and the configuration are compared with what they were.
const WATCH: Duration = Duration::from_millis(250);

const SHORTEST: Duration = Duration::from_millis(50);

/// What all connections share.
#[derive(Debug)]
pub struct Front {
    pub(crate) host: Host,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) identity: Identity,
    pub(crate) visits: Visits,
    closing: Closing,
    /// Told when tokens or the configuration have changed, so that streams check at once whether they may go on.
    rights: watch::Sender<()>,
    /// Whether the configuration was read, which is never undone.
    configured: AtomicBool,
    crowd: Crowd,
    /// Clients whose connections are no HTTP any more.
    pipes: Mutex<JoinSet<()>>,
}

impl Front {
    pub fn new(host: Host, identity: Identity) -> Arc<Self> {
        Self::traced(host, identity, Traces::default())
    }

    /// The same, and spans of calls go somewhere.
    pub fn traced(host: Host, identity: Identity, traces: Traces) -> Arc<Self> {
        let gateway = Gateway::paced(host.clone(), traces, identity.pace());
        Arc::new(Front {
            host,
            gateway,
            identity,
            visits: Visits::default(),
            closing: Closing::default(),
            rights: watch::Sender::default(),
            configured: AtomicBool::new(false),
            crowd: Crowd::default(),
            pipes: Mutex::default(),
        })
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Serves an address until the front closes, on these threads.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener, loops: &Loops) {
        // Whatever cannot be told is taken for what others can reach.
        let door = match listener.local_addr().map(|address| address.ip()) {
            Ok(address) if address.is_loopback() => Door::Tcp,
            Ok(address) => Door::Net(address),
            Err(_) => Door::Net(std::net::Ipv4Addr::UNSPECIFIED.into()),
        };
        tokio::select! {
            () = listen::serve(self, listener, door, loops) => {}
            () = loops.keep() => {}
            () = self.sweep() => {}
            () = self.watch_rights() => {}
        }
    }

    /// Serves the owner's socket until the front closes.
    pub async fn serve_socket(self: &Arc<Self>, listener: UnixListener) {
        let here = Loops::default();
        tokio::select! {
            () = listen::serve(self, listener, Door::Socket, &here) => {}
            () = self.sweep() => {}
        }
        self.pipes_ended().await;
    }

    /// Takes no more connections and lets those that are there end.
    pub fn close(&self) {
        self.gateway.close();
        self.closing.begin();
    }

    /// Ends sessions and dialogs that nobody uses, or whose principal became another agent. Never ends itself: whoever
    /// serves does.
    async fn sweep(&self) {
        tokio::join!(self.sweep_idle(), self.sweep_changed_agents());
    }

    /// Ends dialogs whose principal is another agent since the configuration was read again. Sessions are checked when
    /// they are used, streams by [`lapse`].
    async fn sweep_changed_agents(&self) {
        let mut known = self.host.config();
        loop {
            sleep(RELOADED).await;
            let config = self.host.config();
            if Arc::ptr_eq(&known, &config) {
                continue;
            }
            known = config;
            for dialog in self.host.dialogs() {
                let now = dialog.principal();
                let now = now.and_then(|it| Identity::configured_agent(&known.gateway, it));
                if now.is_some_and(|now| now != dialog.agent()) {
                    dialog.end().await;
                }
            }
        }
    }

    async fn sweep_idle(&self) {
        loop {
            let idle = self.limits().idle;
            sleep(idle.map_or(SWEEP, |idle| (idle / 2).clamp(SHORTEST, SWEEP))).await;
            let Some(idle) = idle else { continue };
            self.gateway.end_idle(idle, |dialog| self.visits.is_recent(dialog, idle)).await;
            let is_busy = |id: &str| self.host.dialog_of(id).is_some_and(|it| it.is_busy());
            for id in self.visits.over(idle, is_busy, |id| self.gateway.has_dialog(id)) {
                if let Some(dialog) = self.host.dialog_of(&id) {
                    dialog.end().await;
                }
            }
        }
    }

    /// Looks at the tokens and the configuration regularly. Streams of a token that was revoked end soon, and the host
    /// stays protected even when the file of tokens is deleted.
    async fn watch_rights(&self) {
        let look = || (self.identity.issued_tokens(), self.host.config());
        let mut known = look();
        loop {
            sleep(WATCH).await;
            let now = look();
            if now.0 != known.0 || !Arc::ptr_eq(&now.1, &known.1) {
                self.rights.send_replace(());
            }
            known = now;
        }
    }

    /// The servers that a principal may know of. Every surface that names servers asks here.
    pub(crate) fn visible_to(&self, who: &Principal) -> Visibility {
        self.visible_as(who, &who.agent)
    }

    /// The same where the principal asks as an agent that it chose.
    pub(crate) fn visible_as(&self, who: &Principal, agent: &str) -> Visibility {
        self.host.visibility((!who.is_owner).then_some(agent))
    }

    /// What each principal may use, as the configuration says now.
    pub(crate) fn limits(&self) -> Limits {
        Limits::of(&self.host.config().gateway.limits)
    }

    fn is_closing(&self) -> bool {
        self.closing.has_begun()
    }

    /// Waits for the configuration: it says who may come in, so that nobody does before.
    async fn configured(&self) {
        if !self.configured.load(Ordering::Acquire) {
            self.host.configured().await;
            self.configured.store(true, Ordering::Release);
        }
    }

    /// Waits until the front closes.
    pub(crate) async fn closing(&self) {
        self.closing.begins().await;
    }
}

//! The one HTTP server in front of the gateway and the control API, on addresses and on the owner's socket.

mod listen;
mod page;
pub mod pipe;
pub mod posted;
pub mod reply;
pub(crate) mod route;

use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use toolcrib::Host;

use crate::gateway::Gateway;
use crate::identity::{Door, Identity, Limits};

/// What all connections share.
#[derive(Debug)]
pub struct Front {
    pub(crate) host: Host,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) identity: Identity,
    closing: watch::Sender<bool>,
    /// Clients whose connections are no HTTP any more.
    pipes: Mutex<JoinSet<()>>,
}

impl Front {
    pub fn new(host: Host, identity: Identity) -> Arc<Self> {
        let gateway = Gateway::new(host.clone());
        let closing = watch::Sender::new(false);
        Arc::new(Front { host, gateway, identity, closing, pipes: Mutex::default() })
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Serves an address until the front closes.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener) {
        // Whatever cannot be told is taken for what others can reach.
        let door = match listener.local_addr().map(|address| address.ip()) {
            Ok(address) if address.is_loopback() => Door::Tcp,
            Ok(address) => Door::Net(address),
            Err(_) => Door::Net(std::net::Ipv4Addr::UNSPECIFIED.into()),
        };
        tokio::select! {
            () = listen::serve(self, listener, door) => {}
            () = self.sweep() => {}
        }
    }

    /// Serves the owner's socket until the front closes.
    pub async fn serve_socket(self: &Arc<Self>, listener: UnixListener) {
        tokio::select! {
            () = listen::serve(self, listener, Door::Socket) => {}
            () = self.sweep() => {}
        }
        self.pipes_ended().await;
    }

    /// Takes no more connections and lets those that are there end.
    pub fn close(&self) {
        self.gateway.close();
        self.closing.send_replace(true);
    }

    /// Never ends: whoever serves does.
    async fn sweep(&self) {
        self.gateway.sweep().await;
        std::future::pending().await
    }

    /// What each principal may use, as the configuration says now.
    pub(crate) fn limits(&self) -> Limits {
        Limits::of(&self.host.config().gateway.limits)
    }

    /// Waits until the front closes.
    pub(crate) async fn closing(&self) {
        let mut closing = self.closing.subscribe();
        // An error means that nobody could close it any more.
        let _ = closing.wait_for(|closing| *closing).await;
    }
}

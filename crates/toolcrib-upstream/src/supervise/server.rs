//! One supervised server: its main connection and dedicated ones.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::policy::{DiscoverySession, OnListChanged, SessionScope};

use super::{ConnRole, SupervisorListener};
use crate::conn::{
    Catalog, Conn, ConnEvent, ConnListener, ConnSetup, ConnUpdate, PausableClock, SessionClient,
};

/// A server. Its configuration never changes; a changed one is a new server.
pub struct Server {
    number: u64,
    setup: ConnSetup,
    main: Conn,
    listener: Arc<dyn SupervisorListener>,
    last: AtomicU64,
    dedicated: Mutex<Vec<(u64, Conn)>>,
}

/// A connection for one dialog or one call. Dropping it ends the connection at once.
#[derive(Debug)]
pub struct DedicatedConn {
    conn: Conn,
    server: Weak<Server>,
    /// `None` for the server's main connection.
    number: Option<u64>,
    was_closed: AtomicBool,
}

/// Overrides of the main connection's setup.
#[derive(Clone, Debug, Default)]
pub struct DedicatedOptions {
    pub client: Option<SessionClient>,
    pub protocol: Option<Protocol>,
    /// Dialog that owns the connection.
    pub dialog: Option<Arc<str>>,
    /// Agent with own credentials.
    pub agent: Option<Arc<str>>,
    /// Known lists, which are not read again.
    pub catalog: Option<Arc<Catalog>>,
}

impl Server {
    pub(super) fn start(
        number: u64,
        setup: ConnSetup,
        listener: Arc<dyn SupervisorListener>,
    ) -> Self {
        let main_listener =
            RoleListener { number, role: ConnRole::Main, listener: Arc::clone(&listener) };
        let main = Conn::start(setup.clone(), Arc::new(main_listener));
        Server {
            number,
            setup,
            main,
            listener,
            last: AtomicU64::new(0),
            dedicated: Mutex::default(),
        }
    }

    /// Unique number among all servers of this host, including earlier ones with the same name.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Configuration of the server.
    pub fn spec(&self) -> &Arc<ServerSpec> {
        &self.setup.spec
    }

    /// Clock for callers that wait for a connection.
    pub fn clock(&self) -> &PausableClock {
        &self.setup.clock
    }

    /// The connection that reads the lists. Shared servers run their calls on it.
    pub fn main(&self) -> &Conn {
        &self.main
    }

    /// Lends the main connection to one dialog, if its session only read the lists and it is not lent.
    pub fn lend_main(self: &Arc<Self>) -> Option<DedicatedConn> {
        let policy = &self.setup.spec.policy.session;
        let may_lend = policy.scope == SessionScope::PerConversation
            && policy.discovery == DiscoverySession::Ephemeral;
        if !may_lend || self.main.set_lent(true) {
            return None;
        }
        let (conn, server) = (self.main.clone(), Arc::downgrade(self));
        Some(DedicatedConn { conn, server, number: None, was_closed: AtomicBool::new(false) })
    }

    /// Returns whether a dialog has the main connection for itself.
    pub fn is_lent(&self) -> bool {
        self.main.is_lent()
    }

    /// Creates a connection for one dialog or call, which connects on demand. Its updates name the dialog.
    pub fn open_dedicated(self: &Arc<Self>, options: DedicatedOptions) -> DedicatedConn {
        let mut setup = self.setup.clone();
        let own = options.agent.and_then(|agent| self.spec().for_agent(&agent));
        setup.spec = own.map_or(setup.spec, Arc::new);
        setup.client = options.client.unwrap_or(setup.client);
        setup.protocol = options.protocol.unwrap_or(setup.protocol);
        setup.catalog = options.catalog;
        if setup.catalog.is_some() {
            (setup.settings.on_list_changed, setup.settings.ttl) =
                (OnListChanged::Ignore, Duration::ZERO);
        }
        let listener = Arc::clone(&self.listener);
        let listener = RoleListener {
            number: self.number,
            role: ConnRole::Dedicated(options.dialog),
            listener,
        };
        let conn = Conn::start(setup, Arc::new(listener));
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.dedicated().push((number, conn.clone()));
        DedicatedConn {
            conn,
            server: Arc::downgrade(self),
            number: Some(number),
            was_closed: AtomicBool::new(false),
        }
    }

    /// Number of open or opening sessions.
    pub fn sessions(&self) -> usize {
        let dedicated = self.dedicated().iter().map(|(_, conn)| conn.view()).collect::<Vec<_>>();
        let views = dedicated.into_iter().chain([self.main.view()]);
        views.filter(|view| view.lifecycle.session_number().is_some()).count()
    }

    /// Number of calls that use or await a session.
    pub fn in_use(&self) -> u32 {
        let dedicated: u32 = self.dedicated().iter().map(|(_, conn)| conn.in_use()).sum();
        dedicated + self.main.in_use()
    }

    /// Drains all connections and waits for their end.
    pub(super) async fn retire(&self) {
        let dedicated = std::mem::take(&mut *self.dedicated());
        let all = dedicated.into_iter().map(|(_, conn)| conn).chain([self.main.clone()]);
        join_all(all.map(|conn| async move {
            conn.send_event(ConnEvent::Retire).await;
            conn.wait_until_ended().await;
        }))
        .await;
    }

    fn dedicated(&self) -> MutexGuard<'_, Vec<(u64, Conn)>> {
        self.dedicated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DedicatedConn {
    /// The connection.
    pub fn conn(&self) -> &Conn {
        &self.conn
    }

    /// Returns whether it is the lent main connection.
    pub fn is_main(&self) -> bool {
        self.number.is_none()
    }

    /// Closes the connection, or returns the main connection.
    pub async fn close(&self) {
        match self.number {
            None => self.conn.send_event(ConnEvent::Release).await,
            Some(_) => {
                self.conn.send_event(ConnEvent::Retire).await;
                self.conn.wait_until_ended().await;
            }
        }
        self.was_closed.store(true, Ordering::SeqCst);
    }
}

impl Drop for DedicatedConn {
    fn drop(&mut self) {
        let Some(server) = self.server.upgrade() else {
            return;
        };
        match self.number {
            None if self.was_closed.load(Ordering::SeqCst) => {
                server.main.set_lent(false);
            }
            // The end of the session is unknown, so the connection stays lent.
            None => {
                self.conn.try_send_event(ConnEvent::Release);
            }
            Some(number) => server.dedicated().retain(|(known, _)| *known != number),
        }
    }
}

/// Forwards updates with the role of the connection.
struct RoleListener {
    number: u64,
    role: ConnRole,
    listener: Arc<dyn SupervisorListener>,
}

impl ConnListener for RoleListener {
    fn on_update(&self, update: ConnUpdate) {
        self.listener.on_update(self.number, &self.role, update);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("number", &self.number)
            .field("key", &self.setup.spec.key())
            .finish_non_exhaustive()
    }
}

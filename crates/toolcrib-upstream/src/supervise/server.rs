//! One server that was taken in: its main connection, and spare ones for dialogs and single calls.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::policy::{DiscoverySession, OnListChanged, SessionScope};

use super::{Watcher, Whose};
use crate::conn::{Caller, Catalog, Conn, Event, Listener, News, Setup, Standstill};

/// A server. Its configuration never changes: a changed one is another server.
pub struct Server {
    number: u64,
    setup: Setup,
    main: Conn,
    watcher: Arc<dyn Watcher>,
    last: AtomicU64,
    spares: Mutex<Vec<(u64, Conn)>>,
}

/// A connection that belongs to one dialog or one call. Dropped, it ends at once.
#[derive(Debug)]
pub struct Spare {
    conn: Conn,
    server: Weak<Server>,
    /// None where it is the server's main connection.
    number: Option<u64>,
    ended: AtomicBool,
}

/// What is other than on the main connection, where something is given.
#[derive(Clone, Debug, Default)]
pub struct Other {
    pub caller: Option<Caller>,
    pub protocol: Option<Protocol>,
    /// Whose connection it is.
    pub dialog: Option<Arc<str>>,
    /// Whose credentials are shown.
    pub agent: Option<Arc<str>>,
    /// Lists that are not to be read again.
    pub catalog: Option<Arc<Catalog>>,
}

impl Server {
    pub(super) fn start(number: u64, setup: Setup, watcher: Arc<dyn Watcher>) -> Self {
        let ear = Ear { number, whose: Whose::Main, watcher: Arc::clone(&watcher) };
        let main = Conn::start(setup.clone(), Arc::new(ear));
        Server { number, setup, main, watcher, last: AtomicU64::new(0), spares: Mutex::default() }
    }

    /// Tells it from every other server of this host, also from an earlier one of the same name.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn spec(&self) -> &Arc<ServerSpec> {
        &self.setup.spec
    }

    /// The clock of whoever waits for one of its connections.
    pub fn clock(&self) -> &Standstill {
        &self.setup.clock
    }

    /// The connection in which the lists are read, and that shared servers are called on.
    pub fn main(&self) -> &Conn {
        &self.main
    }

    /// The main connection for one dialog alone, if its session served only to read the lists and nobody else
    /// has it.
    pub fn lend(self: &Arc<Self>) -> Option<Spare> {
        let policy = &self.setup.spec.policy.session;
        let may_lend = policy.scope == SessionScope::PerConversation
            && policy.discovery == DiscoverySession::Ephemeral;
        if !may_lend || self.main.lend(true) {
            return None;
        }
        let (conn, server) = (self.main.clone(), Arc::downgrade(self));
        Some(Spare { conn, server, number: None, ended: AtomicBool::new(false) })
    }

    /// Whether a dialog has the main connection for itself.
    pub fn is_lent(&self) -> bool {
        self.main.is_lent()
    }

    /// A connection for one dialog or one call, which is connected when it is first wanted. What happens to it is told
    /// as the dialog's.
    pub fn spare(self: &Arc<Self>, with: Other) -> Spare {
        let mut setup = self.setup.clone();
        let own = with.agent.and_then(|agent| self.spec().of_agent(&agent));
        setup.spec = own.map_or(setup.spec, Arc::new);
        setup.caller = with.caller.unwrap_or(setup.caller);
        setup.protocol = with.protocol.unwrap_or(setup.protocol);
        setup.catalog = with.catalog;
        if setup.catalog.is_some() {
            (setup.settings.on_list_changed, setup.settings.ttl) =
                (OnListChanged::Ignore, Duration::ZERO);
        }
        let watcher = Arc::clone(&self.watcher);
        let ear = Ear { number: self.number, whose: Whose::Spare(with.dialog), watcher };
        let conn = Conn::start(setup, Arc::new(ear));
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.spares().push((number, conn.clone()));
        Spare {
            conn,
            server: Arc::downgrade(self),
            number: Some(number),
            ended: AtomicBool::new(false),
        }
    }

    /// Sessions that are up or coming, the main one too.
    pub fn sessions(&self) -> usize {
        let spares = self.spares().iter().map(|(_, conn)| conn.view()).collect::<Vec<_>>();
        let views = spares.into_iter().chain([self.main.view()]);
        views.filter(|view| view.life.link().is_some()).count()
    }

    /// Calls that use a session of it or wait for one.
    pub fn in_use(&self) -> u32 {
        let spares: u32 = self.spares().iter().map(|(_, conn)| conn.in_use()).sum();
        spares + self.main.in_use()
    }

    /// Drains every connection and waits for the last one's end.
    pub(super) async fn retire(&self) {
        let spares = std::mem::take(&mut *self.spares());
        let all = spares.into_iter().map(|(_, conn)| conn).chain([self.main.clone()]);
        join_all(all.map(|conn| async move {
            conn.tell(Event::Retire).await;
            conn.ended().await;
        }))
        .await;
    }

    fn spares(&self) -> MutexGuard<'_, Vec<(u64, Conn)>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    pub fn conn(&self) -> &Conn {
        &self.conn
    }

    /// Whether it is the server's main connection, lent.
    pub fn is_main(&self) -> bool {
        self.number.is_none()
    }

    /// Ends it in good order.
    pub async fn end(&self) {
        match self.number {
            None => self.conn.tell(Event::Release).await,
            Some(_) => {
                self.conn.tell(Event::Retire).await;
                self.conn.ended().await;
            }
        }
        self.ended.store(true, Ordering::SeqCst);
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let Some(server) = self.server.upgrade() else {
            return;
        };
        match self.number {
            None if self.ended.load(Ordering::SeqCst) => {
                server.main.lend(false);
            }
            // Nobody knows when its session will have ended, so nobody else gets the connection.
            None => {
                self.conn.nudge(Event::Release);
            }
            Some(number) => server.spares().retain(|(known, _)| *known != number),
        }
    }
}

/// Hands news on with the name of whom it is about.
struct Ear {
    number: u64,
    whose: Whose,
    watcher: Arc<dyn Watcher>,
}

impl Listener for Ear {
    fn hear(&self, news: News) {
        self.watcher.hear(self.number, &self.whose, news);
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

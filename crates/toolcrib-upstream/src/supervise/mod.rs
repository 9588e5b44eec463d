//! All servers of a host: nothing else creates or retires a connection.

mod clear;
mod examine;
mod server;

pub use clear::{Cleared, clear};
pub use examine::{Examined, Found, Peculiar, examine, missing_capabilities};
pub use server::{Other, Server, Spare};

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::units::Period;

use crate::conn::{Caller, Event, News, Settings, Setup, World};

/// Handle to all servers. Clones share them; when the last one is dropped, all of them end at once.
#[derive(Clone)]
pub struct Supervisor(Arc<Inner>);

struct Inner {
    world: Arc<World>,
    watcher: Arc<dyn Watcher>,
    last: AtomicU64,
    servers: Mutex<Vec<Arc<Server>>>,
    /// Those that drain.
    leaving: Mutex<JoinSet<()>>,
}

/// Whoever wants to know what happens to servers. Must not block.
pub trait Watcher: Send + Sync {
    /// `of` is the server's number.
    fn hear(&self, of: u64, whose: &Whose, news: News);
}

/// Which connection of a server news is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The one in which its lists are read; its state is the server's.
    Main,
    /// One that was made for the dialog of that id, or for a call.
    Spare(Option<Arc<str>>),
}

/// What taking a server in needs besides its configuration.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The folder of a process whose configuration names none.
    pub cwd: PathBuf,
    /// The host's limit for servers that have none of their own, where it has one.
    pub drain_kill: Option<Period>,
    /// Who answers the server's questions.
    pub caller: Caller,
}

impl Supervisor {
    pub fn new(world: Arc<World>, watcher: Arc<dyn Watcher>) -> Self {
        Supervisor(Arc::new(Inner {
            world,
            watcher,
            last: AtomicU64::new(0),
            servers: Mutex::default(),
            leaving: Mutex::default(),
        }))
    }

    /// Takes a server in and begins with it as its policy says. It is known by its number from then on: an old
    /// one and what replaces it may have the same name.
    pub async fn take(&self, spec: Arc<ServerSpec>, terms: Terms) -> Arc<Server> {
        let number = self.0.last.fetch_add(1, Ordering::Relaxed) + 1;
        let setup = Setup {
            settings: Settings::of(&spec.policy, terms.drain_kill),
            cwd: terms.cwd,
            protocol: spec.policy.protocol.clone(),
            spec,
            world: Arc::clone(&self.0.world),
            caller: terms.caller,
            clock: Arc::default(),
            catalog: None,
        };
        let server = Arc::new(Server::start(number, setup, Arc::clone(&self.0.watcher)));
        self.servers_mut().push(Arc::clone(&server));
        server.main().tell(Event::Begin).await;
        server
    }

    /// In the order in which they were taken in.
    pub fn servers(&self) -> Vec<Arc<Server>> {
        self.servers_mut().clone()
    }

    /// Takes no new calls for it; it ends when those in flight have, or when its limit is over. Does not wait.
    pub fn retire(&self, server: &Arc<Server>) {
        self.servers_mut().retain(|known| known.number() != server.number());
        let server = Arc::clone(server);
        let mut leaving = self.leaving();
        while leaving.try_join_next().is_some() {}
        leaving.spawn(async move { server.retire().await });
    }

    /// The same, and waits for its end.
    pub async fn retire_and_wait(&self, server: &Arc<Server>) {
        self.servers_mut().retain(|known| known.number() != server.number());
        server.retire().await;
    }

    /// How many were retired and still have calls in flight or processes to end.
    pub fn draining(&self) -> usize {
        let mut leaving = self.leaving();
        while leaving.try_join_next().is_some() {}
        leaving.len()
    }

    /// Retires all and waits for their end, those that drain already included: each has its own limit, and all of
    /// them this one. Connections that are left then end when the last handle is dropped.
    pub async fn close(&self, limit: Duration) {
        for server in self.servers() {
            self.retire(&server);
        }
        let mut leaving = std::mem::take(&mut *self.leaving());
        let ended = async { while leaving.join_next().await.is_some() {} };
        if timeout(limit, ended).await.is_err() {
            tracing::warn!(servers = leaving.len(), "servers did not drain in time");
        }
    }

    fn servers_mut(&self) -> MutexGuard<'_, Vec<Arc<Server>>> {
        self.0.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leaving(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> =
            self.servers().iter().map(|server| server.spec().id.clone()).collect();
        f.debug_struct("Supervisor").field("servers", &servers).finish_non_exhaustive()
    }
}

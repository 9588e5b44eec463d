//! Supervisor of all servers of a host. It alone adds and retires connections.

mod examine;
mod orphans;
mod server;

pub use examine::{ServerExamination, ServerSummary, StartFinding, examine, missing_capabilities};
pub use orphans::{OrphansReaped, reap_orphans};
pub use server::{DedicatedConn, DedicatedOptions, Server};

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::units::Period;

use crate::conn::{ConnContext, ConnEvent, ConnSettings, ConnSetup, ConnUpdate, SessionClient};

/// Handle to all servers. Clones share them. When the last clone drops, all servers end at once.
#[derive(Clone)]
pub struct Supervisor(Arc<SupervisorInner>);

struct SupervisorInner {
    context: Arc<ConnContext>,
    listener: Arc<dyn SupervisorListener>,
    last: AtomicU64,
    servers: Mutex<Vec<Arc<Server>>>,
    /// Servers that are draining.
    draining_tasks: Mutex<JoinSet<()>>,
}

/// Receiver of server updates. Implementations must not block.
pub trait SupervisorListener: Send + Sync {
    /// `server` is the server's number.
    fn on_update(&self, server: u64, role: &ConnRole, update: ConnUpdate);
}

/// Role of a connection of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnRole {
    /// The main connection, which reads the lists. Its state is the server's state.
    Main,
    /// A connection for the dialog with this id, or for one call.
    Dedicated(Option<Arc<str>>),
}

/// Options for a new server besides its spec.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Default working directory of the process.
    pub cwd: PathBuf,
    /// The host's default drain limit, if it has one.
    pub drain_kill: Option<Period>,
    /// Client side for the server's requests.
    pub client: SessionClient,
}

impl Supervisor {
    /// Creates a supervisor without servers.
    pub fn new(context: Arc<ConnContext>, listener: Arc<dyn SupervisorListener>) -> Self {
        Supervisor(Arc::new(SupervisorInner {
            context,
            listener,
            last: AtomicU64::new(0),
            servers: Mutex::default(),
            draining_tasks: Mutex::default(),
        }))
    }

    /// Adds a server and starts it as its policy requires. Its number identifies it, because an old server and its
    /// replacement may share a name.
    pub async fn add_server(&self, spec: Arc<ServerSpec>, options: ServerOptions) -> Arc<Server> {
        let number = self.0.last.fetch_add(1, Ordering::Relaxed) + 1;
        let setup = ConnSetup {
            settings: ConnSettings::from_policy(&spec.policy, options.drain_kill),
            cwd: options.cwd,
            protocol: spec.policy.protocol.clone(),
            spec,
            context: Arc::clone(&self.0.context),
            client: options.client,
            clock: Arc::default(),
            catalog: None,
        };
        let server = Arc::new(Server::start(number, setup, Arc::clone(&self.0.listener)));
        self.servers_mut().push(Arc::clone(&server));
        server.main().send_event(ConnEvent::Start).await;
        server
    }

    /// All servers in the order of their addition.
    pub fn servers(&self) -> Vec<Arc<Server>> {
        self.servers_mut().clone()
    }

    /// Retires a server without waiting: it accepts no new calls and ends after its last call or at its limit.
    pub fn retire(&self, server: &Arc<Server>) {
        self.servers_mut().retain(|known| known.number() != server.number());
        let server = Arc::clone(server);
        let mut draining_tasks = self.draining_tasks();
        while draining_tasks.try_join_next().is_some() {}
        draining_tasks.spawn(async move { server.retire().await });
    }

    /// Retires a server and waits for its end.
    pub async fn retire_and_wait(&self, server: &Arc<Server>) {
        self.servers_mut().retain(|known| known.number() != server.number());
        server.retire().await;
    }

    /// Number of retired servers with calls in flight or running processes.
    pub fn draining(&self) -> usize {
        let mut draining_tasks = self.draining_tasks();
        while draining_tasks.try_join_next().is_some() {}
        draining_tasks.len()
    }

    /// Retires all servers and waits for their end, those already draining included. Each has its own limit, and
    /// `limit` bounds all of them. The rest ends when the last handle drops.
    pub async fn close(&self, limit: Duration) {
        for server in self.servers() {
            self.retire(&server);
        }
        let mut draining_tasks = std::mem::take(&mut *self.draining_tasks());
        let ended = async { while draining_tasks.join_next().await.is_some() {} };
        if timeout(limit, ended).await.is_err() {
            tracing::warn!(servers = draining_tasks.len(), "servers did not drain in time");
        }
    }

    fn servers_mut(&self) -> MutexGuard<'_, Vec<Arc<Server>>> {
        self.0.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draining_tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.draining_tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> =
            self.servers().iter().map(|server| server.spec().id.clone()).collect();
        f.debug_struct("Supervisor").field("servers", &servers).finish_non_exhaustive()
    }
}

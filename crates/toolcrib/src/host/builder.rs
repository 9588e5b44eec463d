//! How a host is put together and started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib_config::{Named, Workspace};
use toolcrib_upstream::auth::Accounts;
use toolcrib_upstream::conn::{Memory, ServerLimit, World};
use toolcrib_upstream::process::{
    Containment, Graces, Instance, OpenError as InstanceError, ReapError,
};
use toolcrib_upstream::secrets::{Keep, Means, Sources, Storage};
use toolcrib_upstream::supervise::clear;
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::handshake::Implementation;

use super::admin::{self, Home};
use super::answers::Answers;
use super::core::{Core, Parts};
use super::handle::Host;
use super::resource_tools;
use super::steward::Steward;
use super::trust::Trust;
use crate::access::Reach;
use crate::registry::{BadDefinition, NativeToolset};
use crate::store::{Limits, OpenError, Store, StoreError};

/// Orders that wait for the steward; whoever sends more waits.
const ORDERS: usize = 64;

/// What killed hosts left is ended within this time, or left for the next start.
const CLEARING: Duration = Duration::from_secs(10);

/// What a host is made of.
pub struct HostBuilder {
    workspace: Workspace,
    trust: Trust,
    state: PathBuf,
    credentials: Option<PathBuf>,
    env: Vec<(String, String)>,
    native: Vec<(NativeToolset, Reach)>,
    answers: Answers,
    limits: Limits,
    graces: Graces,
    containment: Containment,
    client: Implementation,
    keeps_arguments: bool,
    heeds_hangups: bool,
}

/// Why a host could not start. What is wrong with the configuration or a server never is a reason.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot end what a killed host left behind")]
    Reap(#[source] ReapError),
    #[error("cannot open the ledger of processes")]
    Instance(#[source] InstanceError),
    #[error("cannot open the store")]
    Store(#[source] OpenError),
    #[error("cannot read the store")]
    Read(#[source] StoreError),
    #[error("a toolset of the host's own is wrong")]
    Native(#[source] BadDefinition),
    #[error("cannot listen for signals")]
    Signal(#[source] std::io::Error),
}

impl HostBuilder {
    pub(super) fn new(root: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        HostBuilder {
            workspace: Workspace { root: root.into(), home: None, named: None },
            trust: Trust::default(),
            state: state.into(),
            credentials: None,
            env: Vec::new(),
            native: Vec::new(),
            answers: Answers::default(),
            limits: Limits::default(),
            graces: Graces::default(),
            containment: Containment::default(),
            client: Implementation::new("toolcrib", env!("CARGO_PKG_VERSION")),
            keeps_arguments: false,
            heeds_hangups: false,
        }
    }

    /// The folder of the person's own `toolcrib.yaml`, which is read besides.
    #[must_use]
    pub fn config_home(mut self, home: impl Into<PathBuf>) -> Self {
        self.workspace.home = Some(home.into());
        self
    }

    /// Reads this file instead of looking for files.
    #[must_use]
    pub fn config_file(mut self, file: Named) -> Self {
        self.workspace.named = Some(file);
        self
    }

    /// The folder of the person's credentials, for the hosts of all roots; one in the state folder if nobody says.
    #[must_use]
    pub fn credentials(mut self, folder: impl Into<PathBuf>) -> Self {
        self.credentials = Some(folder.into());
        self
    }

    /// Whose configuration may start something.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// The variables that configuration may refer to and that servers inherit. The library reads none itself.
    #[must_use]
    pub fn env(mut self, env: impl IntoIterator<Item = (String, String)>) -> Self {
        self.env = env.into_iter().collect();
        self
    }

    /// Tools of the program itself. Members that list the toolset have it, and the agent `default`.
    #[must_use]
    pub fn toolset(mut self, toolset: NativeToolset) -> Self {
        self.native.push((toolset, Reach::Members));
        self
    }

    /// Tools of the program itself that every agent has.
    #[must_use]
    pub fn open_toolset(mut self, toolset: NativeToolset) -> Self {
        self.native.push((toolset, Reach::Everybody));
        self
    }

    /// What somebody behind each dialog can answer when a server asks.
    #[must_use]
    pub fn answers(mut self, answers: Answers) -> Self {
        self.answers = answers;
        self
    }

    /// How much is remembered, and for how long.
    #[must_use]
    pub fn store_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long processes are given to end.
    #[must_use]
    pub fn graces(mut self, graces: Graces) -> Self {
        self.graces = graces;
        self
    }

    /// How the host keeps hold of the processes that servers start.
    #[must_use]
    pub fn containment(mut self, containment: Containment) -> Self {
        self.containment = containment;
        self
    }

    /// What the host says of itself to servers.
    #[must_use]
    pub fn client(mut self, client: Implementation) -> Self {
        self.client = client;
        self
    }

    /// Keeps the arguments of calls in their records. They may be secret.
    #[must_use]
    pub fn keep_arguments(mut self) -> Self {
        self.keeps_arguments = true;
        self
    }

    /// Reads the configuration anew on SIGHUP.
    #[must_use]
    pub fn reload_on_hangup(mut self) -> Self {
        self.heeds_hangups = true;
        self
    }

    /// Starts the host: ends what killed ones left, reads the configuration, starts servers. It does not wait for
    /// them; [`Host::ready`] does.
    pub async fn start(self) -> Result<Host, StartError> {
        let cleared = clear(&self.state, &self.containment, CLEARING).await;
        let cleared = cleared.map_err(StartError::Reap)?;
        if !cleared.processes.killed.is_empty() {
            let count = cleared.processes.killed.len();
            tracing::info!(count, "ended processes that a killed host had left");
        }
        let instance = Instance::open_with(&self.state, &self.containment);
        let instance = instance.map_err(StartError::Instance)?;
        let store = Store::open(&self.state, self.limits).await.map_err(StartError::Store)?;
        let overrides = store.overrides().await.map_err(StartError::Read)?;
        let hangups = match self.heeds_hangups {
            true => Some(signal(SignalKind::hangup()).map_err(StartError::Signal)?),
            false => None,
        };
        let home = Home::default();
        let mut native = self.native;
        let admin = admin::toolset(&home).map_err(StartError::Native)?;
        native.push((admin, Reach::ByName));
        let resources = resource_tools::toolset(&home).map_err(StartError::Native)?;
        native.push((resources, Reach::Everybody));
        let folder = self.credentials.unwrap_or_else(|| self.state.join("credentials"));
        let keep = Keep::open(folder, Storage::default());
        let root = self.workspace.root.clone();
        let learned = store.learned().await;
        let learned = learned
            .inspect_err(|error| tracing::debug!(%error, "cannot read what servers speak"))
            .unwrap_or_default();
        let memory = Memory::with_store(learned, Arc::new(store.clone()));
        let world = world(self.env, root, keep, instance, self.graces, self.client, memory);
        let (orders, inbox) = mpsc::channel(ORDERS);
        let core = Arc::new(Core::new(Parts {
            workspace: self.workspace,
            trust: self.trust,
            world: Arc::new(world),
            store,
            native,
            answers: self.answers,
            keeps_arguments: self.keeps_arguments,
            overrides,
            orders,
        }));
        let mut tasks = JoinSet::new();
        tasks.spawn(Steward::new(Arc::clone(&core), inbox, hangups).run());
        let host = Host::new(core, tasks);
        // It is set once, here.
        let _ = home.set(Arc::downgrade(host.shell()));
        Ok(host)
    }
}

/// It may do nothing until the configuration has been read.
fn world(
    env: Vec<(String, String)>,
    cwd: PathBuf,
    keep: Keep,
    instance: Instance,
    graces: Graces,
    client: Implementation,
    memory: Memory,
) -> World {
    let tls = Tls::default();
    let means = Means { instance: instance.clone(), env: env.clone(), cwd, tls: tls.clone() };
    World {
        instance,
        env,
        accounts: Accounts::new(keep.clone(), tls.clone()),
        sources: Sources::new(keep, means),
        tls,
        permissions: Permissions { spawn: false, network: false, docker: false }.into(),
        graces,
        memory,
        connections: ServerLimit::default(),
        client,
    }
}

/// The environment may hold secrets: it is not shown.
impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder")
            .field("workspace", &self.workspace)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

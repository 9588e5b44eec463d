//! Configures and starts a [`Host`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib_config::{ConfigFile, Workspace};
use toolcrib_upstream::auth::Accounts;
use toolcrib_upstream::conn::{ConnContext, ServerLimit, SharedHttpMode, TraitCache};
use toolcrib_upstream::process::{Containment, GracePeriods, Instance, InstanceError, ReapError};
use toolcrib_upstream::secrets::{CredentialStore, SecretSources, StorageMode, StoreContext};
use toolcrib_upstream::supervise::reap_orphans;
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::handshake::Implementation;

use super::admin_tools::{self, DeferredHost};
use super::client_capabilities::DialogCapabilities;
use super::core::{Core, CoreParts};
use super::handle::Host;
use super::reconciler::Reconciler;
use super::resource_tools;
use super::trust::Trust;
use crate::access::NativeReach;
use crate::registry::{NativeDefinitionError, NativeToolset};
use crate::store::{Store, StoreError, StoreLimits, StoreOpenError};

/// Capacity of the reconciler's command queue. A full queue makes senders wait.
const COMMAND_QUEUE: usize = 64;

/// Time limit for ending the processes of killed hosts. Processes that survive it are left for the
/// next start.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);

/// The configuration of a [`Host`] before it starts.
pub struct HostBuilder {
    workspace: Workspace,
    trust: Trust,
    state: PathBuf,
    credentials: Option<PathBuf>,
    env: Vec<(String, String)>,
    native: Vec<(NativeToolset, NativeReach)>,
    capabilities: DialogCapabilities,
    limits: StoreLimits,
    graces: GracePeriods,
    containment: Containment,
    client_info: Implementation,
    records_arguments: bool,
    reloads_on_hangup: bool,
}

/// Why a host could not start. Errors in the configuration or in a server never prevent the start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The processes of a killed host could not be ended.
    #[error("cannot end the processes of a killed host")]
    Reap(#[source] ReapError),
    /// The process ledger could not be opened.
    #[error("cannot open the process ledger")]
    Instance(#[source] InstanceError),
    /// The store could not be opened.
    #[error("cannot open the store")]
    Store(#[source] StoreOpenError),
    /// The store could not be read.
    #[error("cannot read the store")]
    Read(#[source] StoreError),
    /// A native tool has an invalid definition.
    #[error("cannot define the host's native tools")]
    Native(#[source] NativeDefinitionError),
    /// The SIGHUP handler could not be installed.
    #[error("cannot listen for signals")]
    Signal(#[source] std::io::Error),
}

impl HostBuilder {
    pub(super) fn new(root: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        HostBuilder {
            workspace: Workspace { root: root.into(), home: None, config_file: None },
            trust: Trust::default(),
            state: state.into(),
            credentials: None,
            env: Vec::new(),
            native: Vec::new(),
            capabilities: DialogCapabilities::default(),
            limits: StoreLimits::default(),
            graces: GracePeriods::default(),
            containment: Containment::default(),
            client_info: Implementation::new("toolcrib", env!("CARGO_PKG_VERSION")),
            records_arguments: false,
            reloads_on_hangup: false,
        }
    }

    /// Sets the folder of the user's own `toolcrib.yaml`, which is read in addition to the
    /// workspace's files.
    #[must_use]
    pub fn config_home(mut self, home: impl Into<PathBuf>) -> Self {
        self.workspace.home = Some(home.into());
        self
    }

    /// Reads this file instead of searching for configuration files.
    #[must_use]
    pub fn config_file(mut self, file: ConfigFile) -> Self {
        self.workspace.config_file = Some(file);
        self
    }

    /// Sets the folder of the user's credentials, which the hosts of all roots share. The default
    /// is a folder inside the state folder.
    #[must_use]
    pub fn credentials(mut self, folder: impl Into<PathBuf>) -> Self {
        self.credentials = Some(folder.into());
        self
    }

    /// Sets which folders' configuration may start programs.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the variables that the configuration may refer to and that servers inherit. The library
    /// itself reads no environment variable.
    #[must_use]
    pub fn env(mut self, env: impl IntoIterator<Item = (String, String)>) -> Self {
        self.env = env.into_iter().collect();
        self
    }

    /// Adds native tools. Members that list the toolset may use them, and so may the agent
    /// `default`.
    #[must_use]
    pub fn toolset(mut self, toolset: NativeToolset) -> Self {
        self.native.push((toolset, NativeReach::Members));
        self
    }

    /// Adds native tools that every agent may use.
    #[must_use]
    pub fn open_toolset(mut self, toolset: NativeToolset) -> Self {
        self.native.push((toolset, NativeReach::Everyone));
        self
    }

    /// Sets which requests of servers the client of each dialog can answer.
    #[must_use]
    pub fn capabilities(mut self, capabilities: DialogCapabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Sets how much the store keeps, and for how long.
    #[must_use]
    pub fn store_limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long processes may take to end.
    #[must_use]
    pub fn graces(mut self, graces: GracePeriods) -> Self {
        self.graces = graces;
        self
    }

    /// Sets how the host contains the processes that servers start.
    #[must_use]
    pub fn containment(mut self, containment: Containment) -> Self {
        self.containment = containment;
        self
    }

    /// Sets the name and version that the host reports to servers.
    #[must_use]
    pub fn client(mut self, client_info: Implementation) -> Self {
        self.client_info = client_info;
        self
    }

    /// Keeps the arguments of calls in their records. Arguments may contain secrets.
    #[must_use]
    pub fn record_arguments(mut self) -> Self {
        self.records_arguments = true;
        self
    }

    /// Reloads the configuration on SIGHUP.
    #[must_use]
    pub fn reload_on_hangup(mut self) -> Self {
        self.reloads_on_hangup = true;
        self
    }

    /// Starts the host: ends the processes of killed hosts, reads the configuration and starts the
    /// servers. The future does not wait for the servers; [`Host::wait_until_ready`] does.
    pub async fn start(self) -> Result<Host, StartError> {
        let cleared = reap_orphans(&self.state, &self.containment, CLEANUP_TIMEOUT).await;
        let cleared = cleared.map_err(StartError::Reap)?;
        if !cleared.processes.killed.is_empty() {
            let count = cleared.processes.killed.len();
            tracing::info!(count, "ended the processes of a killed host");
        }
        let instance = Instance::open_with(&self.state, &self.containment);
        let instance = instance.map_err(StartError::Instance)?;
        let store = Store::open(&self.state, self.limits).await.map_err(StartError::Store)?;
        let overrides = store.overrides().await.map_err(StartError::Read)?;
        let hangups = match self.reloads_on_hangup {
            true => Some(signal(SignalKind::hangup()).map_err(StartError::Signal)?),
            false => None,
        };
        let deferred = DeferredHost::default();
        let mut native = self.native;
        let admin = admin_tools::build_toolset(&deferred).map_err(StartError::Native)?;
        native.push((admin, NativeReach::ByName));
        let resources = resource_tools::build_toolset(&deferred).map_err(StartError::Native)?;
        native.push((resources, NativeReach::Everyone));
        let folder = self.credentials.unwrap_or_else(|| self.state.join("credentials"));
        let keep = CredentialStore::open(folder, StorageMode::default());
        let root = self.workspace.root.clone();
        let learned = store.server_traits().await;
        let learned = learned
            .inspect_err(|error| tracing::debug!(%error, "cannot read the stored server traits"))
            .unwrap_or_default();
        let traits = TraitCache::with_store(learned, Arc::new(store.clone()));
        let conn_context = build_conn_context(
            self.env,
            root,
            keep,
            instance,
            self.graces,
            self.client_info,
            traits,
        );
        let (commands, inbox) = mpsc::channel(COMMAND_QUEUE);
        let core = Arc::new(Core::new(CoreParts {
            workspace: self.workspace,
            trust: self.trust,
            conn_context: Arc::new(conn_context),
            store,
            native,
            capabilities: self.capabilities,
            records_arguments: self.records_arguments,
            overrides,
            commands,
        }));
        let mut tasks = JoinSet::new();
        tasks.spawn(Reconciler::new(Arc::clone(&core), inbox, hangups).run());
        let host = Host::new(core, tasks);
        // The cell is empty: this is the only place that sets it.
        let _ = deferred.set(Arc::downgrade(host.inner()));
        Ok(host)
    }
}

/// Builds the context of all connections. It permits nothing until the configuration has been read.
fn build_conn_context(
    env: Vec<(String, String)>,
    cwd: PathBuf,
    keep: CredentialStore,
    instance: Instance,
    graces: GracePeriods,
    client_info: Implementation,
    traits: TraitCache,
) -> ConnContext {
    let tls = Tls::default();
    let means =
        StoreContext { instance: instance.clone(), env: env.clone(), cwd, tls: tls.clone() };
    ConnContext {
        instance,
        env,
        accounts: Accounts::new(keep.clone(), tls.clone()),
        sources: SecretSources::new(keep, means),
        tls,
        permissions: Permissions { spawn: false, network: false, docker: false }.into(),
        http_mode: SharedHttpMode::default(),
        graces,
        traits,
        server_limit: ServerLimit::default(),
        client_info,
    }
}

/// The environment may contain secrets, so `Debug` omits it.
impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder")
            .field("workspace", &self.workspace)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

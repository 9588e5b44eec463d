//! Operations on servers of a running host: connect, restart, enable, add and others.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::timeout;
use toolcrib_config::{ConfigFile, Dialect, ServerSpec, Workspace, compile};
use toolcrib_upstream::conn::{
    CacheState, ConnAvailability, ConnEvent, Demand, Failure, MAX_SERVERS, ServerState,
};

use super::config_files::{FileSystemLookup, OverlayLookup};
use super::core::Core;
use super::handle::Host;
use super::pinning::ChangedDefinition;
use super::reconciler::ReconcilerCommand;
use super::running_server::RunningServer;
use super::slot::startup_timeout;
use crate::registry::ServerRefusal;
use crate::store::{ServerOverride, StoreError};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerOperationError {
    /// No server, or more than one, has this id or key.
    #[error("there is no server `{name}`{}", list_known_servers(.known))]
    NoServer {
        /// The requested id or key.
        name: String,
        /// Ids of all servers.
        known: Vec<String>,
    },
    /// The server is not connected.
    #[error("server `{0}` is not connected")]
    NotConnected(String),
    /// The server could not be connected.
    #[error("cannot connect to server `{server}`")]
    Failed {
        /// The server, as the caller named it.
        server: String,
        /// Why the connection failed.
        #[source]
        cause: Box<Failure>,
    },
    /// The server is connected, but nothing of it is offered: a name is taken, or its lists are
    /// empty.
    #[error("cannot offer the tools of server `{server}`")]
    Refused {
        /// The server, as the caller named it.
        server: String,
        /// Why the tools were refused.
        #[source]
        cause: ServerRefusal,
    },
    /// The server is connected already.
    #[error("a server `{0}` is already connected")]
    AlreadyConnected(String),
    /// The entry of the added server is invalid.
    #[error("invalid entry of server `{id}`: {text}")]
    BadEntry {
        /// Id of the added server.
        id: String,
        /// The error in the entry.
        text: String,
    },
    /// Only servers that were added at run time can be removed.
    #[error("server `{0}` is configured in a file: remove it there")]
    ConfiguredInFile(String),
    /// The override could not be stored.
    #[error("cannot store the override")]
    Store(#[source] StoreError),
    /// The server's definition is not trusted.
    #[error(
        "server `{0}` is not started: its folder is not trusted for what it runs (`toolcrib trust` shows it)"
    )]
    Untrusted(String),
    /// The limit `host.max_servers` is reached.
    #[error(
        "cannot connect to server `{server}`: {max} servers are connected, which is the limit (host.max_servers)"
    )]
    TooManyServers {
        /// The server, as the caller named it.
        server: String,
        /// The limit.
        max: u32,
    },
    /// The host is shutting down.
    #[error("the host is shutting down")]
    Closing,
}

impl ServerOperationError {
    /// The affected server, as the caller named it.
    pub fn server(&self) -> Option<&str> {
        match self {
            ServerOperationError::NoServer { name: server, .. }
            | ServerOperationError::NotConnected(server)
            | ServerOperationError::Failed { server, .. }
            | ServerOperationError::Refused { server, .. }
            | ServerOperationError::TooManyServers { server, .. }
            | ServerOperationError::AlreadyConnected(server)
            | ServerOperationError::BadEntry { id: server, .. }
            | ServerOperationError::ConfiguredInFile(server)
            | ServerOperationError::Untrusted(server) => Some(server),
            ServerOperationError::Store(_) | ServerOperationError::Closing => None,
        }
    }

    /// The affected tool.
    pub fn tool(&self) -> Option<&str> {
        match self {
            ServerOperationError::Refused { cause: ServerRefusal::Tool { name, .. }, .. } => {
                Some(name)
            }
            _ => None,
        }
    }
}

/// Source label of servers that were added at run time.
const ADDED_SOURCE: &str = "added";

impl Host {
    /// Connects a server that is down, regardless of earlier failures, and reads its lists. Fails
    /// if the server is already connected or if its tools cannot be offered.
    pub async fn connect_server(&self, server: &str) -> Result<(), ServerOperationError> {
        let running = self.find_trusted(server)?;
        running.retry_failed_agents();
        if running.server.main().view().lifecycle.availability() == ConnAvailability::Up {
            self.check_offered(&running)?;
            return Err(ServerOperationError::AlreadyConnected(running.spec().id.clone()));
        }
        self.connect_and_publish(&running).await
    }

    /// Waits until the server's lists are published, or the connection has failed once.
    async fn connect_and_publish(
        &self,
        running: &RunningServer,
    ) -> Result<(), ServerOperationError> {
        let main = running.server.main();
        let connected = match main.view().lifecycle.availability() {
            ConnAvailability::Up => Ok(()),
            _ => main.connect().await,
        };
        self.core().publish_pending_lists().await;
        connected.map_err(|cause| self.connect_error(running, cause))?;
        self.check_offered(running)
    }

    fn connect_error(&self, running: &RunningServer, cause: Failure) -> ServerOperationError {
        let server = running.spec().id.clone();
        match cause.code {
            MAX_SERVERS => ServerOperationError::TooManyServers {
                server,
                max: self.core().conn_context.server_limit.max(),
            },
            _ => ServerOperationError::Failed { server, cause: Box::new(cause) },
        }
    }

    /// Fails if the newest snapshot refuses the server's tools.
    fn check_offered(&self, running: &RunningServer) -> Result<(), ServerOperationError> {
        let published = self.core().published.load();
        let mut servers = published.registry.servers();
        let refusal = servers.find(|it| it.key == running.key).and_then(|it| it.refusal.clone());
        let server = || running.spec().id.clone();
        refusal
            .map_or(Ok(()), |cause| Err(ServerOperationError::Refused { server: server(), cause }))
    }

    /// Disconnects a server. It stays down until it is connected again.
    pub async fn disconnect_server(&self, server: &str) -> Result<(), ServerOperationError> {
        let running = self.find_server(server)?;
        running.end_leases();
        running.server.main().send_event(ConnEvent::Disconnect).await;
        self.core().publish_pending_lists().await;
        Ok(())
    }

    /// Ends all sessions of a server and restarts it.
    pub async fn restart_server(&self, server: &str) -> Result<(), ServerOperationError> {
        let mut running = self.find_trusted(server)?;
        let key = Arc::clone(&running.key);
        match self
            .send_command(|reply| ReconcilerCommand::FindSuccessor(key, reply))
            .await
            .flatten()
        {
            // A failed successor is restarted instead; its predecessor keeps running.
            Some(successor) => running = successor,
            None => running.end_leases_and_wait().await,
        }
        running.server.main().send_event(ConnEvent::Restart).await;
        let up = running.server.main().acquire_without_retry(Demand::Call).await;
        let up = up.map(drop).map_err(|cause| self.connect_error(&running, cause));
        self.core().publish_pending_lists().await;
        up.and_then(|()| self.check_offered(&running))
    }

    /// Reads a server's lists again.
    pub async fn refresh_server(&self, server: &str) -> Result<(), ServerOperationError> {
        let running = self.find_server(server)?;
        let main = running.server.main();
        if main.view().lifecycle.availability() != ConnAvailability::Up {
            return Err(ServerOperationError::NotConnected(running.spec().id.clone()));
        }
        main.send_event(ConnEvent::Refresh).await;
        let mut view = main.watch();
        let listed = view.wait_for(|view| view.lifecycle.cache() != CacheState::Populating);
        let listed = timeout(startup_timeout(running.spec()), listed).await;
        let is_listed =
            listed.map(|view| view.map(|view| view.lifecycle.cache() == CacheState::Ready));
        self.core().publish_pending_lists().await;
        match is_listed {
            Ok(Ok(true)) => self.check_offered(&running),
            _ => Err(ServerOperationError::NotConnected(running.spec().id.clone())),
        }
    }

    /// Enables a disabled server. The server's file is not changed.
    pub async fn enable_server(
        &self,
        server: &str,
        actor: &str,
    ) -> Result<(), ServerOperationError> {
        self.set_enabled(server, true, actor).await
    }

    /// Disables a server until it is enabled again. The server's file is not changed.
    pub async fn disable_server(
        &self,
        server: &str,
        actor: &str,
    ) -> Result<(), ServerOperationError> {
        self.set_enabled(server, false, actor).await
    }

    async fn set_enabled(
        &self,
        server: &str,
        enabled: bool,
        actor: &str,
    ) -> Result<(), ServerOperationError> {
        let running = match enabled {
            true => self.find_trusted(server)?,
            false => self.find_server(server)?,
        };
        let core = self.core();
        // An override that agrees with the file is deleted, so that the file counts again.
        let config = Arc::clone(&core.published.load().config);
        let written = config.server(&running.key).map(|spec| spec.policy.enabled);
        let over = (written != Some(enabled)).then(|| ServerOverride {
            enabled,
            set_by: actor.to_owned(),
            at: SystemTime::now(),
        });
        match &over {
            Some(over) => core.store.set_override(&running.key, over.clone()).await,
            None => core.store.clear_override(&running.key).await,
        }
        .map_err(ServerOperationError::Store)?;
        core.overrides.rcu(|overrides| {
            let mut overrides = std::collections::BTreeMap::clone(overrides);
            match &over {
                Some(over) => overrides.insert(running.key.to_string(), over.clone()),
                None => overrides.remove(&*running.key),
            };
            overrides
        });
        let key = Arc::clone(&running.key);
        self.send_command(|reply| ReconcilerCommand::SetEnabled(key, enabled, reply))
            .await
            .ok_or(ServerOperationError::Closing)
    }

    /// The tools that have changed since their definitions were first seen or last accepted, in the
    /// order of the files.
    pub async fn changed_definitions(&self) -> Vec<ChangedDefinition> {
        self.send_command(ReconcilerCommand::ListChangedDefinitions).await.unwrap_or_default()
    }

    /// Accepts the changed definition of a tool, by any of its names, or of all tools. Returns the
    /// accepted definitions.
    pub async fn accept_definitions(
        &self,
        tool: Option<&str>,
    ) -> Result<Vec<ChangedDefinition>, ServerOperationError> {
        let tool = tool.map(str::to_owned);
        let accepted =
            self.send_command(|reply| ReconcilerCommand::AcceptDefinitions(tool, reply)).await;
        accepted.ok_or(ServerOperationError::Closing)?.map_err(ServerOperationError::Store)
    }

    /// Finds a server with trusted configuration.
    fn find_trusted(&self, server: &str) -> Result<Arc<RunningServer>, ServerOperationError> {
        let running = self.find_server(server)?;
        match running.spec().is_withheld() {
            true => Err(ServerOperationError::Untrusted(server.to_owned())),
            false => Ok(running),
        }
    }

    /// Adds a server until the host closes, and connects it. `entry` is a native entry in YAML or
    /// JSON. A server that fails to connect is not added; a disabled server is not connected.
    pub async fn add_server(&self, id: &str, entry: &str) -> Result<(), ServerOperationError> {
        let spec = compile_entry(self.core(), id, entry)?;
        let known = self.core().published.load_full();
        if known.registry.servers().any(|server| server.id() == id) {
            return Err(ServerOperationError::AlreadyConnected(id.to_owned()));
        }
        let key = spec.key();
        let added =
            self.send_command(|reply| ReconcilerCommand::AddServer(Arc::new(spec), reply)).await;
        added.ok_or(ServerOperationError::Closing)??;
        let running = self.find_server(&key)?;
        if running.state() == ServerState::Disabled {
            return Ok(());
        }
        let up = self.connect_and_publish(&running).await;
        if up.is_err() {
            let key = Arc::clone(&running.key);
            // `None` means that the host is closing, which removes the server anyway.
            let _ = self.send_command(|reply| ReconcilerCommand::RemoveServer(key, reply)).await;
        }
        up
    }

    /// Removes a server that was added at run time.
    pub async fn remove_server(&self, server: &str) -> Result<(), ServerOperationError> {
        let running = self.find_server(server)?;
        let removed = self
            .send_command(|reply| ReconcilerCommand::RemoveServer(Arc::clone(&running.key), reply))
            .await;
        match removed {
            Some(true) => Ok(()),
            Some(false) => Err(ServerOperationError::ConfiguredInFile(server.to_owned())),
            None => Err(ServerOperationError::Closing),
        }
    }
}

/// Compiles an entry like a file in the root that contains nothing else.
fn compile_entry(core: &Core, id: &str, entry: &str) -> Result<ServerSpec, ServerOperationError> {
    let bad = |text: String| ServerOperationError::BadEntry { id: id.to_owned(), text };
    let indented: String = entry.lines().map(|line| format!("    {line}\n")).collect();
    let name = serde_json::Value::from(id);
    let text = format!("version: 1\nservers:\n  {name}:\n{indented}");
    let path = core.workspace.root.join(ADDED_SOURCE);
    let named = Some(ConfigFile { path: path.clone(), dialect: Some(Dialect::Native) });
    let workspace = Workspace { root: core.root(), home: None, config_file: named };
    let files = FileSystemLookup { env: &core.conn_context.env };
    let config = compile(&workspace, &OverlayLookup { files, path: &path, text: &text });
    if let Some(problem) = config.problems.iter().find(|problem| problem.is_error()) {
        return Err(bad(problem.text.clone()));
    }
    config.servers.into_iter().next().ok_or_else(|| bad("the entry is empty".to_owned()))
}

fn list_known_servers(known: &[String]) -> String {
    match known.is_empty() {
        true => ": none is configured here".to_owned(),
        false => format!("; there are {}", known.join(", ")),
    }
}

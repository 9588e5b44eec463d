//! What a person can do to a server of a running host.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::timeout;
use toolcrib_config::{Dialect, Named, ServerSpec, Workspace, compile};
use toolcrib_upstream::conn::{CacheState, Event, Failure, MAX_SERVERS, Outlook, State, Want};

use super::core::Core;
use super::files::{Beside, Files};
use super::handle::Host;
use super::pinning::ChangedDefinition;
use super::serving::Serving;
use super::slot::patience;
use super::steward::Order;
use crate::registry::Refusal;
use crate::store::{Override, StoreError};

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    #[error("there is no server `{name}`{}", there_are(.known))]
    NoServer { name: String, known: Vec<String> },
    #[error("server `{0}` is not connected")]
    NotConnected(String),
    #[error("cannot connect to server `{server}`")]
    Failed {
        server: String,
        #[source]
        cause: Box<Failure>,
    },
    /// It is connected, and nothing of it is offered: a name is taken, or there is nothing to offer.
    #[error("cannot offer the tools of server `{server}`")]
    Refused {
        server: String,
        #[source]
        cause: Refusal,
    },
    #[error("a server `{0}` is already connected")]
    AlreadyConnected(String),
    #[error("the entry of server `{id}` cannot be used: {text}")]
    BadEntry { id: String, text: String },
    #[error("server `{0}` is configured in a file: remove it there")]
    InFile(String),
    #[error("what was decided cannot be kept")]
    Store(#[source] StoreError),
    #[error(
        "server `{0}` is not started: its folder is not trusted for what it runs (`toolcrib trust` shows it)"
    )]
    Untrusted(String),
    #[error(
        "cannot connect to server `{server}`: {max} servers are connected, which is the limit (host.max_servers)"
    )]
    TooMany { server: String, max: u32 },
    #[error("the host is ending")]
    Ending,
}

impl OpError {
    /// The server that it is about, as the caller named it.
    pub fn server(&self) -> Option<&str> {
        match self {
            OpError::NoServer { name: server, .. }
            | OpError::NotConnected(server)
            | OpError::Failed { server, .. }
            | OpError::Refused { server, .. }
            | OpError::TooMany { server, .. }
            | OpError::AlreadyConnected(server)
            | OpError::BadEntry { id: server, .. }
            | OpError::InFile(server)
            | OpError::Untrusted(server) => Some(server),
            OpError::Store(_) | OpError::Ending => None,
        }
    }

    /// The name of the tool that it is about.
    pub fn tool(&self) -> Option<&str> {
        match self {
            OpError::Refused { cause: Refusal::Tool { name, .. }, .. } => Some(name),
            _ => None,
        }
    }
}

/// How a server that was added while the host runs is told of.
const ADDED: &str = "added";

impl Host {
    /// Connects a server that is down, however often it failed before, and reads its lists. Twice is an error, and so is a
    /// server whose tools cannot be offered.
    pub async fn connect(&self, server: &str) -> Result<(), OpError> {
        let serving = self.find_trusted(server)?;
        serving.forgive_agents();
        if serving.server.main().view().life.outlook() == Outlook::Up {
            self.check_offered(&serving)?;
            return Err(OpError::AlreadyConnected(serving.spec().id.clone()));
        }
        self.bring_up(&serving).await
    }

    /// Waits until a server has shown its lists and they are published, or has failed once.
    async fn bring_up(&self, serving: &Serving) -> Result<(), OpError> {
        let main = serving.server.main();
        let connected = match main.view().life.outlook() {
            Outlook::Up => Ok(()),
            _ => main.connect().await,
        };
        self.core().listed().await;
        connected.map_err(|cause| self.failed(serving, cause))?;
        self.check_offered(serving)
    }

    fn failed(&self, serving: &Serving, cause: Failure) -> OpError {
        let server = serving.spec().id.clone();
        match cause.code {
            MAX_SERVERS => OpError::TooMany { server, max: self.core().world.connections.max() },
            _ => OpError::Failed { server, cause: Box::new(cause) },
        }
    }

    /// Whether the newest snapshot offers what the server lists.
    fn check_offered(&self, serving: &Serving) -> Result<(), OpError> {
        let published = self.core().published.load();
        let mut servers = published.snapshot.servers();
        let refusal = servers.find(|it| it.key == serving.key).and_then(|it| it.refusal.clone());
        let server = || serving.spec().id.clone();
        refusal.map_or(Ok(()), |cause| Err(OpError::Refused { server: server(), cause }))
    }

    /// Ends all sessions with a server; it stays down until somebody connects it.
    pub async fn disconnect(&self, server: &str) -> Result<(), OpError> {
        let serving = self.find(server)?;
        serving.end_leases();
        serving.server.main().tell(Event::Disconnect).await;
        self.core().listed().await;
        Ok(())
    }

    /// Ends all sessions with a server and begins anew.
    pub async fn restart(&self, server: &str) -> Result<(), OpError> {
        let mut serving = self.find_trusted(server)?;
        let key = Arc::clone(&serving.key);
        match self.order(|reply| Order::Coming(key, reply)).await.flatten() {
            // What did not start is tried again; what goes on meanwhile is left alone.
            Some(coming) => serving = coming,
            None => serving.end_leases_and_wait().await,
        }
        serving.server.main().tell(Event::Restart).await;
        let up = serving.server.main().first_try(Want::Call).await;
        let up = up.map(drop).map_err(|cause| self.failed(&serving, cause));
        self.core().listed().await;
        up.and_then(|()| self.check_offered(&serving))
    }

    /// Reads a server's lists anew.
    pub async fn refresh(&self, server: &str) -> Result<(), OpError> {
        let serving = self.find(server)?;
        let main = serving.server.main();
        if main.view().life.outlook() != Outlook::Up {
            return Err(OpError::NotConnected(serving.spec().id.clone()));
        }
        main.tell(Event::Refresh).await;
        let mut view = main.watch();
        let listed = view.wait_for(|view| view.life.cache() != CacheState::Populating);
        let listed = timeout(patience(serving.spec()), listed).await;
        let is_listed = listed.map(|view| view.map(|view| view.life.cache() == CacheState::Ready));
        self.core().listed().await;
        match is_listed {
            Ok(Ok(true)) => self.check_offered(&serving),
            _ => Err(OpError::NotConnected(serving.spec().id.clone())),
        }
    }

    /// Lets a server work again that was disabled. Its file is not changed.
    pub async fn enable(&self, server: &str, who: &str) -> Result<(), OpError> {
        self.set_enabled(server, true, who).await
    }

    /// Switches a server off until somebody enables it again. Its file is not changed.
    pub async fn disable(&self, server: &str, who: &str) -> Result<(), OpError> {
        self.set_enabled(server, false, who).await
    }

    async fn set_enabled(&self, server: &str, enabled: bool, who: &str) -> Result<(), OpError> {
        let serving = match enabled {
            true => self.find_trusted(server)?,
            false => self.find(server)?,
        };
        let core = self.core();
        // Where the file says the same, it is the file that counts again.
        let config = Arc::clone(&core.published.load().config);
        let written = config.server(&serving.key).map(|spec| spec.policy.enabled);
        let over = (written != Some(enabled)).then(|| Override {
            enabled,
            who: who.to_owned(),
            at: SystemTime::now(),
        });
        match &over {
            Some(over) => core.store.set_override(&serving.key, over.clone()).await,
            None => core.store.clear_override(&serving.key).await,
        }
        .map_err(OpError::Store)?;
        core.overrides.rcu(|overrides| {
            let mut overrides = std::collections::BTreeMap::clone(overrides);
            match &over {
                Some(over) => overrides.insert(serving.key.to_string(), over.clone()),
                None => overrides.remove(&*serving.key),
            };
            overrides
        });
        let key = Arc::clone(&serving.key);
        self.order(|reply| Order::Enable(key, enabled, reply)).await.ok_or(OpError::Ending)
    }

    /// The tools whose definitions are not those that were first seen or last accepted, in the order of the files.
    pub async fn changed_definitions(&self) -> Vec<ChangedDefinition> {
        self.order(Order::Changed).await.unwrap_or_default()
    }

    /// Accepts the changed definition of a tool, by any of its names, or of all. Those that were accepted.
    pub async fn accept(&self, tool: Option<&str>) -> Result<Vec<ChangedDefinition>, OpError> {
        let tool = tool.map(str::to_owned);
        let accepted = self.order(|reply| Order::Accept(tool, reply)).await;
        accepted.ok_or(OpError::Ending)?.map_err(OpError::Store)
    }

    /// A server that may be started.
    fn find_trusted(&self, server: &str) -> Result<Arc<Serving>, OpError> {
        let serving = self.find(server)?;
        match serving.spec().is_withheld() {
            true => Err(OpError::Untrusted(server.to_owned())),
            false => Ok(serving),
        }
    }

    /// Adds a server that no file names, until the host ends, and connects it. `entry` is a native entry, as YAML or JSON.
    /// A server that does not come up is not added; one that is disabled is not connected.
    pub async fn add(&self, id: &str, entry: &str) -> Result<(), OpError> {
        let spec = read(self.core(), id, entry)?;
        let known = self.core().published.load_full();
        if known.snapshot.servers().any(|server| server.id() == id) {
            return Err(OpError::AlreadyConnected(id.to_owned()));
        }
        let key = spec.key();
        let added = self.order(|reply| Order::Add(Arc::new(spec), reply)).await;
        added.ok_or(OpError::Ending)??;
        let serving = self.find(&key)?;
        if serving.state() == State::Disabled {
            return Ok(());
        }
        let up = self.bring_up(&serving).await;
        if up.is_err() {
            let key = Arc::clone(&serving.key);
            // None means that the host is ending, with everything that was added.
            let _ = self.order(|reply| Order::Remove(key, reply)).await;
        }
        up
    }

    /// Removes a server that was added while the host runs.
    pub async fn remove(&self, server: &str) -> Result<(), OpError> {
        let serving = self.find(server)?;
        let removed = self.order(|reply| Order::Remove(Arc::clone(&serving.key), reply)).await;
        match removed {
            Some(true) => Ok(()),
            Some(false) => Err(OpError::InFile(server.to_owned())),
            None => Err(OpError::Ending),
        }
    }
}

/// An entry is read like a file of the root that holds nothing else.
fn read(core: &Core, id: &str, entry: &str) -> Result<ServerSpec, OpError> {
    let bad = |text: String| OpError::BadEntry { id: id.to_owned(), text };
    let indented: String = entry.lines().map(|line| format!("    {line}\n")).collect();
    let name = serde_json::Value::from(id);
    let text = format!("version: 1\nservers:\n  {name}:\n{indented}");
    let path = core.workspace.root.join(ADDED);
    let named = Some(Named { path: path.clone(), dialect: Some(Dialect::Native) });
    let workspace = Workspace { root: core.root(), home: None, named };
    let files = Files { env: &core.world.env };
    let config = compile(&workspace, &Beside { files, path: &path, text: &text });
    if let Some(problem) = config.problems.iter().find(|problem| problem.is_error()) {
        return Err(bad(problem.text.clone()));
    }
    config.servers.into_iter().next().ok_or_else(|| bad("it is empty".to_owned()))
}

fn there_are(known: &[String]) -> String {
    match known.is_empty() {
        true => ": none is configured here".to_owned(),
        false => format!("; there are {}", known.join(", ")),
    }
}

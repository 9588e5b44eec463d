//! Test fixture: a host context, servers from configuration text, and their updates.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::timeout;
use toolcrib_config::model::units::Period;
use toolcrib_config::{Config, ConfigFile, Problem, ServerSpec, Workspace, compile};
use toolcrib_testkit::scripted::{Script, server_binary};
use toolcrib_upstream::auth::Accounts;
use toolcrib_upstream::conn::peer::{
    CallOptions, CallTimeouts, HandlerFuture, PeerCallError, RefuseRequests, RequestHandler,
    ServerRequest,
};
use toolcrib_upstream::conn::{
    Catalog, Conn, ConnContext, ConnListener, ConnSettings, ConnSetup, ConnUpdate, ServerLimit,
    Session, SessionClient, SharedHttpMode, TraitCache,
};
use toolcrib_upstream::process::{GracePeriods, Instance};
use toolcrib_upstream::secrets::{CredentialStore, SecretSources, StorageMode, StoreContext};
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::RawJson;
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::ClientCapabilities;

pub(crate) use toolcrib_testkit::time_limit::{TIME_LIMIT, with_time_limit};

/// A state folder with a connection context.
pub(crate) struct TestHost {
    pub(crate) folder: TempDir,
    pub(crate) context: Arc<ConnContext>,
    pub(crate) updates: Arc<UpdateLog>,
}

/// Updates of connections in order.
#[derive(Debug, Default)]
pub(crate) struct UpdateLog {
    updates: Mutex<Vec<String>>,
    more: Notify,
}

impl TestHost {
    pub(crate) fn new() -> Self {
        Self::with(GracePeriods::default(), &[])
    }

    pub(crate) fn with(graces: GracePeriods, env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::open(&folder.path().join("state")).unwrap();
        let mut all: Vec<_> =
            env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        if !env.iter().any(|(name, _)| *name == "PATH") {
            all.push(("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()));
        }
        let keep = CredentialStore::open(folder.path().join("credentials"), StorageMode::File);
        let means = StoreContext {
            instance: instance.clone(),
            env: all.clone(),
            cwd: folder.path().to_owned(),
            tls: Tls::default(),
        };
        let context = ConnContext {
            instance,
            env: all,
            accounts: Accounts::new(keep.clone(), Tls::default()),
            sources: SecretSources::new(keep, means),
            tls: Tls::default(),
            permissions: Permissions { spawn: true, network: true, docker: true }.into(),
            http_mode: SharedHttpMode::default(),
            graces,
            traits: TraitCache::default(),
            server_limit: ServerLimit::default(),
            client_info: Implementation::new("toolcrib", "0"),
        };
        TestHost { folder, context: Arc::new(context), updates: Arc::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Compiles a configuration file and returns its servers. Panics on errors.
    pub(crate) fn servers(&self, name: &str, text: &str) -> Vec<ServerSpec> {
        self.config(name, text).servers
    }

    /// Compiles a configuration file. Panics on errors.
    pub(crate) fn config(&self, name: &str, text: &str) -> Config {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let workspace = Workspace {
            root: self.path().to_owned(),
            home: None,
            config_file: Some(ConfigFile { path, dialect: None }),
        };
        let config = compile(&workspace, &FileSystem(&self.context.env));
        // References may be missing until the server starts.
        let may_come = ["env.missing", "secret.undeclared"];
        let is_wrong =
            |problem: &&Problem| problem.is_error() && !may_come.contains(&problem.code.as_str());
        let errors: Vec<_> = config.problems.iter().filter(is_wrong).collect();
        assert!(errors.is_empty(), "{errors:?}");
        config
    }

    /// Compiles one native server entry.
    pub(crate) fn server(&self, entry: &Value) -> ServerSpec {
        let text = json!({"version": 1, "servers": {"it": entry}}).to_string();
        self.servers("toolcrib.yaml", &text).remove(0)
    }

    /// Entry of a scripted server, which writes received messages to this log.
    pub(crate) fn scripted(&self, mut script: Script, log: &str) -> Value {
        script.log = Some(self.path().join(log));
        json!({"command": server_binary().unwrap(), "args": [script.to_json()]})
    }

    pub(crate) fn setup(&self, spec: ServerSpec) -> ConnSetup {
        ConnSetup {
            settings: ConnSettings::from_policy(&spec.policy, Some(Period::secs(30))),
            cwd: self.path().to_owned(),
            protocol: spec.policy.protocol.clone(),
            spec: Arc::new(spec),
            context: Arc::clone(&self.context),
            client: SessionClient {
                capabilities: ClientCapabilities::default(),
                handler: Arc::new(RefuseRequests),
            },
            clock: Arc::default(),
            catalog: None,
        }
    }

    pub(crate) fn start(&self, spec: ServerSpec) -> Conn {
        self.start_with(self.setup(spec))
    }

    pub(crate) fn start_with(&self, setup: ConnSetup) -> Conn {
        let listener: Arc<dyn ConnListener> = Arc::clone(&self.updates) as _;
        Conn::start(setup, listener)
    }

    /// Messages that a scripted server has received.
    pub(crate) fn log(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path().join(name)).unwrap_or_default();
        // The last line may be incomplete.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn methods(&self, name: &str) -> Vec<String> {
        let methods = self
            .log(name)
            .into_iter()
            .filter_map(|message| message["method"].as_str().map(str::to_owned));
        methods.collect()
    }

    pub(crate) fn count(&self, name: &str, method: &str) -> usize {
        self.methods(name).iter().filter(|found| *found == method).count()
    }

    pub(crate) async fn close(self) {
        with_time_limit(self.context.instance.close()).await;
    }
}

/// Real files with the environment of a context.
pub(crate) struct FileSystem<'a>(&'a [(String, String)]);

impl toolcrib_config::Lookup for FileSystem<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn file(&self, path: &Path) -> toolcrib_config::FileLookup {
        std::fs::read(path)
            .map_or(toolcrib_config::FileLookup::Missing, toolcrib_config::FileLookup::Content)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

impl ConnListener for UpdateLog {
    fn on_update(&self, update: ConnUpdate) {
        let text = match update {
            ConnUpdate::StateChanged(view) => format!("state {}", view.lifecycle.state().as_str()),
            ConnUpdate::CatalogRead { catalog, changes, .. } => {
                format!("listed {} ({} changes)", catalog.tools.len(), changes.len())
            }
            ConnUpdate::CatalogDiffers { changes } => format!("differs {changes:?}"),
            ConnUpdate::Notification { notification, .. } => {
                format!("notification {}", notification.method)
            }
            ConnUpdate::Anomaly(odd) => format!("odd {}", odd.code()),
        };
        self.updates.lock().unwrap().push(text);
        self.more.notify_one();
    }
}

impl UpdateLog {
    pub(crate) fn all(&self) -> Vec<String> {
        self.updates.lock().unwrap().clone()
    }

    /// Waits for `count` updates with this prefix.
    pub(crate) async fn wait_for(&self, count: usize, text: &str) {
        let updates = async {
            while self.all().iter().filter(|update| update.starts_with(text)).count() < count {
                self.more.notified().await;
            }
        };
        if timeout(TIME_LIMIT, updates).await.is_err() {
            panic!("`{text}` was not seen {count} times: {:#?}", self.all());
        }
    }
}

/// Answers every request with the same result.
#[derive(Debug)]
pub(crate) struct FixedResponse(pub(crate) Value);

impl RequestHandler for FixedResponse {
    fn handle(&self, _: ServerRequest) -> Option<HandlerFuture> {
        let answer = RawJson::from_value(&self.0).unwrap();
        Some(Box::pin(async move { Ok(answer) }))
    }
}

pub(crate) fn session_client(capabilities: Value, handler: impl RequestHandler) -> SessionClient {
    SessionClient {
        capabilities: ClientCapabilities::new(RawJson::from_value(&capabilities).unwrap()),
        handler: Arc::new(handler),
    }
}

pub(crate) fn options() -> CallOptions {
    let timeouts = CallTimeouts { request: Some(TIME_LIMIT), max: None };
    CallOptions { timeouts, ..CallOptions::default() }
}

pub(crate) async fn call_tool(
    session: &Session,
    name: &str,
    arguments: &Value,
) -> Result<Value, PeerCallError> {
    let params = RawJson::from_value(&json!({"name": name, "arguments": arguments})).unwrap();
    let body = with_time_limit(session.call("tools/call", params, options(), None)).await?;
    Ok(serde_json::from_str(body.json().text()).unwrap())
}

/// Text of a tool result.
pub(crate) fn result_text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

pub(crate) fn tool_names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools.iter().map(|tool| tool.name()).collect()
}

/// Returns whether a process exists and is no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/stat")));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim().starts_with('Z'))
}

/// Polls until the condition holds, for events without a notification.
pub(crate) async fn wait_until(condition: &str, holds: impl Fn() -> bool) {
    let poll = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if timeout(TIME_LIMIT, poll).await.is_err() {
        panic!("not within {TIME_LIMIT:?}: {condition}");
    }
}

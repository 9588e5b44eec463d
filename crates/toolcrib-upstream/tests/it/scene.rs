//! A host for tests: servers from configuration text, a world around them, and what was heard of them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::timeout;
use toolcrib_config::model::units::Period;
use toolcrib_config::{Config, Named, Problem, ServerSpec, Workspace, compile};
use toolcrib_testkit::scripted::{Script, program};
use toolcrib_upstream::auth::Accounts;
use toolcrib_upstream::conn::peer::{
    Answering, Asked, CallError, CallOptions, Handler, NoRequests, Patience,
};
use toolcrib_upstream::conn::{
    Caller, Catalog, Conn, Listener, Memory, News, ServerLimit, Session, Settings, Setup, World,
};
use toolcrib_upstream::process::{Graces, Instance};
use toolcrib_upstream::secrets::{Keep, Means, Sources, Storage};
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::Raw;
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::ClientCapabilities;

pub(crate) use toolcrib_testkit::time_limit::{LIMIT, within};

/// A folder with state, and a world in it.
pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) world: Arc<World>,
    pub(crate) heard: Arc<Heard>,
}

/// What connections said, in order.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    news: Mutex<Vec<String>>,
    more: Notify,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(Graces::default(), &[])
    }

    pub(crate) fn with(graces: Graces, env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::open(&folder.path().join("state")).unwrap();
        let mut all: Vec<_> =
            env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        if !env.iter().any(|(name, _)| *name == "PATH") {
            all.push(("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()));
        }
        let keep = Keep::open(folder.path().join("credentials"), Storage::File);
        let means = Means {
            instance: instance.clone(),
            env: all.clone(),
            cwd: folder.path().to_owned(),
            tls: Tls::default(),
        };
        let world = World {
            instance,
            env: all,
            accounts: Accounts::new(keep.clone(), Tls::default()),
            sources: Sources::new(keep, means),
            tls: Tls::default(),
            permissions: Permissions { spawn: true, network: true, docker: true }.into(),
            graces,
            memory: Memory::default(),
            connections: ServerLimit::default(),
            client: Implementation::new("toolcrib", "0"),
        };
        Scene { folder, world: Arc::new(world), heard: Arc::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The servers of a file, of which all must be good.
    pub(crate) fn servers(&self, name: &str, text: &str) -> Vec<ServerSpec> {
        self.config(name, text).servers
    }

    /// All that a file says, of which everything must be good.
    pub(crate) fn config(&self, name: &str, text: &str) -> Config {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let workspace = Workspace {
            root: self.path().to_owned(),
            home: None,
            named: Some(Named { path, dialect: None }),
        };
        let config = compile(&workspace, &Disk(&self.world.env));
        // What a value refers to may be missing until the server is started.
        let may_come = ["env.missing", "secret.undeclared"];
        let is_wrong =
            |problem: &&Problem| problem.is_error() && !may_come.contains(&problem.code.as_str());
        let errors: Vec<_> = config.problems.iter().filter(is_wrong).collect();
        assert!(errors.is_empty(), "{errors:?}");
        config
    }

    /// A native server, by its entry.
    pub(crate) fn server(&self, entry: &Value) -> ServerSpec {
        let text = json!({"version": 1, "servers": {"it": entry}}).to_string();
        self.servers("toolcrib.yaml", &text).remove(0)
    }

    /// The entry of a scripted server; what it receives is in the log of that name.
    pub(crate) fn scripted(&self, mut script: Script, log: &str) -> Value {
        script.log = Some(self.path().join(log));
        json!({"command": program().unwrap(), "args": [script.to_json()]})
    }

    pub(crate) fn setup(&self, spec: ServerSpec) -> Setup {
        Setup {
            settings: Settings::of(&spec.policy, Some(Period::secs(30))),
            cwd: self.path().to_owned(),
            protocol: spec.policy.protocol.clone(),
            spec: Arc::new(spec),
            world: Arc::clone(&self.world),
            caller: Caller {
                capabilities: ClientCapabilities::default(),
                handler: Arc::new(NoRequests),
            },
            clock: Arc::default(),
            catalog: None,
        }
    }

    pub(crate) fn start(&self, spec: ServerSpec) -> Conn {
        self.start_with(self.setup(spec))
    }

    pub(crate) fn start_with(&self, setup: Setup) -> Conn {
        let listener: Arc<dyn Listener> = Arc::clone(&self.heard) as _;
        Conn::start(setup, listener)
    }

    /// The messages that a scripted server has received.
    pub(crate) fn log(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path().join(name)).unwrap_or_default();
        // The last line may not be whole yet.
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
        within(self.world.instance.close()).await;
    }
}

/// Files as they are, and the variables of a world.
pub(crate) struct Disk<'a>(&'a [(String, String)]);

impl toolcrib_config::Lookup for Disk<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn file(&self, path: &Path) -> toolcrib_config::File {
        std::fs::read(path).map_or(toolcrib_config::File::Missing, toolcrib_config::File::Content)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

impl Listener for Heard {
    fn hear(&self, news: News) {
        let text = match news {
            News::State(view) => format!("state {}", view.life.state().as_str()),
            News::Listed { catalog, changes, .. } => {
                format!("listed {} ({} changes)", catalog.tools.len(), changes.len())
            }
            News::Differs { changes } => format!("differs {changes:?}"),
            News::Told { notification, .. } => format!("told {}", notification.method),
            News::Odd(odd) => format!("odd {}", odd.code()),
        };
        self.news.lock().unwrap().push(text);
        self.more.notify_one();
    }
}

impl Heard {
    pub(crate) fn all(&self) -> Vec<String> {
        self.news.lock().unwrap().clone()
    }

    /// Waits until this was heard so many times.
    pub(crate) async fn times(&self, count: usize, text: &str) {
        let heard = async {
            while self.all().iter().filter(|news| news.starts_with(text)).count() < count {
                self.more.notified().await;
            }
        };
        if timeout(LIMIT, heard).await.is_err() {
            panic!("`{text}` was not heard {count} times: {:#?}", self.all());
        }
    }
}

/// Answers every question with the same.
#[derive(Debug)]
pub(crate) struct Same(pub(crate) Value);

impl Handler for Same {
    fn take(&self, _: Asked) -> Option<Answering> {
        let answer = Raw::of(&self.0).unwrap();
        Some(Box::pin(async move { Ok(answer) }))
    }
}

pub(crate) fn can(capabilities: Value, handler: impl Handler) -> Caller {
    Caller {
        capabilities: ClientCapabilities::new(Raw::of(&capabilities).unwrap()),
        handler: Arc::new(handler),
    }
}

pub(crate) fn options() -> CallOptions {
    let patience = Patience { request: Some(LIMIT), max: None };
    CallOptions { patience, ..CallOptions::default() }
}

pub(crate) async fn tool(
    session: &Session,
    name: &str,
    arguments: &Value,
) -> Result<Value, CallError> {
    let params = Raw::of(&json!({"name": name, "arguments": arguments})).unwrap();
    let body = within(session.call("tools/call", params, options(), None)).await?;
    Ok(serde_json::from_str(body.json().text()).unwrap())
}

/// The text that a tool gave.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

pub(crate) fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools.iter().map(|tool| tool.name()).collect()
}

/// Whether a process is there and no corpse.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/stat")));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim().starts_with('Z'))
}

/// Looks until it is so. A sleep is the only way to wait for what tells nobody.
pub(crate) async fn until(what: &str, so: impl Fn() -> bool) {
    let look = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if timeout(LIMIT, look).await.is_err() {
        panic!("not within {LIMIT:?}: {what}");
    }
}

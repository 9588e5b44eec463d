//! Servers in containers: of a real engine, and of one that a test plays.

mod ends;
mod fake;
mod opens;
mod reap;
mod talks;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions, TopOptions};
use tempfile::TempDir;
use toolcrib_config::model::choice::Inherit;
use toolcrib_config::model::transport::{Container, DockerExec, Env, Framing, Plain, Transport};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::conn::peer::{Event, NoRequests, Peer, Receiver};
use toolcrib_upstream::process::{Graces, Instance, InstanceId};
use toolcrib_upstream::transport::{Link, OpenError};

use super::{LIMIT, World, settings, within};

/// What `make setup` imports: busybox with the scripted server, and the scripted server without anything.
const IMAGE: &str = "toolcrib-test:latest";
const BARE: &str = "toolcrib-test:bare";

const USUAL: &str = "unix:///var/run/docker.sock";

/// For servers that do not obey anyway.
const HASTY: Graces = Graces {
    close: Duration::from_millis(100),
    terminate: Duration::from_millis(300),
    kill: Duration::from_secs(10),
};

/// A host that uses a real engine.
struct Dock {
    instance: Instance,
    state: TempDir,
    world: World,
    engine: Docker,
}

impl Dock {
    async fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let instance = Instance::open(state.path()).unwrap();
        Self { instance, world: world(state.path()), state, engine: engine().await }
    }

    async fn try_open(&self, config: DockerExec) -> Result<Link, OpenError> {
        self.world.open(&Transport::DockerExec(config), &self.instance).await
    }

    async fn open(&self, config: DockerExec) -> Link {
        self.try_open(config).await.unwrap()
    }

    async fn peer(&self, config: DockerExec) -> (Peer, Receiver<Event>) {
        Peer::start(self.open(config).await, settings(NoRequests))
    }

    /// The code of the error that opening gives.
    async fn refusal(&self, config: DockerExec) -> OpenError {
        self.try_open(config).await.err().unwrap()
    }

    /// Containers that this host made and that still exist.
    async fn own(&self) -> Vec<String> {
        owned_by(&self.engine, &self.instance.id().to_string()).await
    }

    /// What the host still has to answer for.
    fn ledger(&self) -> String {
        let file = format!("ledger/{}.jsonl", self.instance.id());
        std::fs::read_to_string(self.state.path().join(file)).unwrap()
    }

    async fn end(self) {
        within(self.instance.close()).await;
        let left = owned_by(&self.engine, &self.instance.id().to_string()).await;
        assert!(left.is_empty(), "{left:?}");
    }
}

fn world(state: &Path) -> World {
    let mut world = World::new(state.to_owned());
    world.env.extend(docker_host().map(|address| ("DOCKER_HOST".to_owned(), address)));
    world.permissions.docker = true;
    world
}

/// The engine, or the news that it is missing. Its absence fails tests; it skips none.
async fn engine() -> Docker {
    let address = docker_host().unwrap_or_else(|| USUAL.to_owned());
    let made = if address.starts_with("unix:") {
        Docker::connect_with_unix(&address, 30, bollard::API_DEFAULT_VERSION)
    } else {
        Docker::connect_with_http(&address, 30, bollard::API_DEFAULT_VERSION)
    };
    let answered = match made {
        Ok(engine) => engine.negotiate_version().await,
        Err(error) => Err(error),
    };
    let engine = answered.unwrap_or_else(|error| {
        panic!("no Docker engine answers at {address} ({error}): run `make setup` (Debian package docker.io)")
    });
    for image in [IMAGE, BARE] {
        let found = engine.inspect_image(image).await;
        found.unwrap_or_else(|_| panic!("the engine has no image {image}: run `make setup`"));
    }
    engine
}

fn docker_host() -> Option<String> {
    #[allow(clippy::disallowed_methods, reason = "where the machine's engine is, only it can say")]
    std::env::var("DOCKER_HOST").ok().filter(|address| !address.is_empty())
}

async fn owned_by(engine: &Docker, instance: &str) -> Vec<String> {
    let label = format!("toolcrib.owner={instance}");
    let filters = Some(HashMap::from([("label".to_owned(), vec![label])]));
    let options = ListContainersOptions { all: true, filters, ..Default::default() };
    let found = engine.list_containers(Some(options)).await.unwrap();
    found.into_iter().filter_map(|container| container.id).collect()
}

/// The scripted server in a container.
fn served(target: Container, script: &Script) -> DockerExec {
    DockerExec {
        target,
        command: Plain::literal("scripted-server"),
        args: vec![Plain::literal(script.to_json())],
        shell: None,
        workdir: None,
        endpoint: None,
        keep_container: false,
        framing: Framing::Auto,
        env: Env { inherit: Inherit::None, file: None, unset: Vec::new(), set: BTreeMap::new() },
    }
}

fn from_image() -> Container {
    Container::FromImage(Plain::literal(IMAGE))
}

/// A server that ends neither with its input nor when it is told to.
fn stubborn() -> Script {
    Script { ignore_end: true, ignore_sigterm: true, ..Script::default() }
}

/// Somebody else's container. It removes itself when its only process ends, at the latest after five minutes.
struct Foreign {
    id: String,
    engine: Docker,
}

impl Foreign {
    async fn new() -> Self {
        Self::running(IMAGE, &["sleep", "300"]).await
    }

    async fn running(image: &str, command: &[&str]) -> Self {
        let engine = engine().await;
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(command.iter().map(|word| (*word).to_owned()).collect()),
            env: Some(vec!["OF_CONTAINER=yes".to_owned(), "UNWANTED=yes".to_owned()]),
            host_config: Some(HostConfig { auto_remove: Some(true), ..Default::default() }),
            ..Default::default()
        };
        let id = engine.create_container(None, body).await.unwrap().id;
        let foreign = Self { id, engine };
        foreign.engine.start_container(&foreign.id, None).await.unwrap();
        foreign
    }

    fn target(&self) -> Container {
        Container::Existing(Plain::literal(&self.id))
    }

    /// The command lines of all that runs in it.
    async fn processes(&self) -> Vec<String> {
        let options = TopOptions { ps_args: "-eo pid,args".to_owned() };
        let top = self.engine.top_processes(&self.id, Some(options)).await.unwrap();
        top.processes.unwrap_or_default().iter().map(|row| row[1..].join(" ")).collect()
    }

    async fn runs(&self, command: &str) -> bool {
        self.processes().await.iter().any(|process| process.contains(command))
    }

    /// A process that is nothing of ours.
    async fn bystander(&self, command: &[&str]) {
        let config = bollard::models::ExecConfig {
            cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
            ..Default::default()
        };
        let exec = self.engine.create_exec(&self.id, config).await.unwrap().id;
        let detached = bollard::exec::StartExecOptions { detach: true, ..Default::default() };
        self.engine.start_exec(&exec, Some(detached)).await.unwrap();
    }
}

/// Also while a failed test unwinds, so in a thread and a runtime of its own.
impl Drop for Foreign {
    fn drop(&mut self) {
        let container = self.id.clone();
        let removing = async move {
            let options = RemoveContainerOptions { v: true, force: true, link: false };
            // It may have ended and gone by itself.
            let _ = engine().await.remove_container(&container, Some(options)).await;
        };
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(removing);
        };
        let _ = thread::Builder::new().spawn(work).unwrap().join();
    }
}

/// Looks until it is so. A sleep is the only way to wait for what an engine does.
async fn eventually<F: Future<Output = bool>>(what: &str, so: impl Fn() -> F) {
    let deadline = Instant::now() + LIMIT;
    while !so().await {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The instances that have a ledger in this state folder.
fn instances(state: &Path) -> Vec<String> {
    let names = std::fs::read_dir(state.join("ledger")).unwrap();
    let names = names.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned)).collect()
}

fn others(state: &Path, mine: InstanceId) -> Vec<String> {
    instances(state).into_iter().filter(|id| *id != mine.to_string()).collect()
}

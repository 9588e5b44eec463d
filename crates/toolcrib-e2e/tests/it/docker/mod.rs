//! Tests servers in containers of a real Docker engine.

mod opening;
mod reap;
mod sessions;
mod termination;

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions, TopOptions};
use tempfile::TempDir;
use toolcrib_config::model::transport::{ContainerTarget, DisplayValue, DockerExec, Transport};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::conn::peer::{MailboxReceiver, Peer, PeerEvent, RefuseRequests};
use toolcrib_upstream::process::{GracePeriods, HostInstanceId, Instance};
use toolcrib_upstream::transport::{Link, OpenError};

use crate::peer_fixture::{TIME_LIMIT, TestHost, scripted_exec, settings, with_time_limit};

/// Images that `make setup` imports: busybox with the scripted server, and the scripted server alone.
const IMAGE: &str = "toolcrib-test:latest";
const BARE_IMAGE: &str = "toolcrib-test:bare";

const DEFAULT_ENDPOINT: &str = "unix:///var/run/docker.sock";

/// Grace periods for servers that ignore them.
const SHORT_GRACES: GracePeriods = GracePeriods {
    close: Duration::from_millis(100),
    terminate: Duration::from_millis(300),
    kill: Duration::from_secs(10),
};

/// A host that uses a real engine.
struct DockerTestHost {
    instance: Instance,
    state: TempDir,
    config: TestHost,
    engine: Docker,
}

impl DockerTestHost {
    async fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let instance = Instance::open(state.path()).unwrap();
        Self { instance, config: docker_host_config(state.path()), state, engine: engine().await }
    }

    async fn try_open(&self, config: DockerExec) -> Result<Link, OpenError> {
        self.config.open(&Transport::DockerExec(config), &self.instance).await
    }

    async fn open(&self, config: DockerExec) -> Link {
        self.try_open(config).await.unwrap()
    }

    async fn peer(&self, config: DockerExec) -> (Peer, MailboxReceiver<PeerEvent>) {
        Peer::start(self.open(config).await, settings(RefuseRequests))
    }

    /// The error of a failing open.
    async fn open_error(&self, config: DockerExec) -> OpenError {
        self.try_open(config).await.err().unwrap()
    }

    /// Existing containers of this host.
    async fn own_containers(&self) -> Vec<String> {
        containers_of(&self.engine, &self.instance.id().to_string()).await
    }

    /// The ledger of this host.
    fn ledger(&self) -> String {
        let file = format!("ledger/{}.jsonl", self.instance.id());
        std::fs::read_to_string(self.state.path().join(file)).unwrap()
    }

    async fn close(self) {
        with_time_limit(self.instance.close()).await;
        let left = containers_of(&self.engine, &self.instance.id().to_string()).await;
        assert!(left.is_empty(), "{left:?}");
    }
}

fn docker_host_config(state: &Path) -> TestHost {
    let mut host = TestHost::new(state.to_owned());
    host.env.extend(docker_host_variable().map(|address| ("DOCKER_HOST".to_owned(), address)));
    host.permissions.docker = true;
    host
}

/// Connects to the engine. A missing engine fails the test instead of skipping it.
async fn engine() -> Docker {
    let address = docker_host_variable().unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
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
    for image in [IMAGE, BARE_IMAGE] {
        let found = engine.inspect_image(image).await;
        found.unwrap_or_else(|_| panic!("the engine has no image {image}: run `make setup`"));
    }
    engine
}

fn docker_host_variable() -> Option<String> {
    #[allow(
        clippy::disallowed_methods,
        reason = "only the environment names the engine of the machine"
    )]
    std::env::var("DOCKER_HOST").ok().filter(|address| !address.is_empty())
}

async fn containers_of(engine: &Docker, instance: &str) -> Vec<String> {
    let label = format!("toolcrib.owner={instance}");
    let filters = Some(HashMap::from([("label".to_owned(), vec![label])]));
    let options = ListContainersOptions { all: true, filters, ..Default::default() };
    let found = engine.list_containers(Some(options)).await.unwrap();
    found.into_iter().filter_map(|container| container.id).collect()
}

fn from_image() -> ContainerTarget {
    ContainerTarget::FromImage(DisplayValue::literal(IMAGE))
}

/// A server that ignores the end of its input and SIGTERM.
fn stubborn() -> Script {
    Script { ignore_end: true, ignore_sigterm: true, ..Script::default() }
}

/// A container of another owner. It removes itself when its only process ends, at the latest after five minutes.
struct ForeignContainer {
    id: String,
    engine: Docker,
}

impl ForeignContainer {
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

    fn target(&self) -> ContainerTarget {
        ContainerTarget::Existing(DisplayValue::literal(&self.id))
    }

    /// The command lines of all processes in the container.
    async fn processes(&self) -> Vec<String> {
        let options = TopOptions { ps_args: "-eo pid,args".to_owned() };
        let top = self.engine.top_processes(&self.id, Some(options)).await.unwrap();
        top.processes.unwrap_or_default().iter().map(|row| row[1..].join(" ")).collect()
    }

    async fn has_process(&self, command: &str) -> bool {
        self.processes().await.iter().any(|process| process.contains(command))
    }

    /// Starts a process that does not belong to the host.
    async fn start_foreign_process(&self, command: &[&str]) {
        let config = bollard::models::ExecConfig {
            cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
            ..Default::default()
        };
        let exec = self.engine.create_exec(&self.id, config).await.unwrap().id;
        let detached = bollard::exec::StartExecOptions { detach: true, ..Default::default() };
        self.engine.start_exec(&exec, Some(detached)).await.unwrap();
    }
}

/// Runs during the unwinding of a failed test too, so it uses its own thread and runtime.
impl Drop for ForeignContainer {
    fn drop(&mut self) {
        let container = self.id.clone();
        let removing = async move {
            let options = RemoveContainerOptions { v: true, force: true, link: false };
            // The container may have been removed already.
            let _ = engine().await.remove_container(&container, Some(options)).await;
        };
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(removing);
        };
        let _ = thread::Builder::new().spawn(work).unwrap().join();
    }
}

/// Polls until the condition holds. The engine sends no notification.
async fn wait_until<F: Future<Output = bool>>(what: &str, so: impl Fn() -> F) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !so().await {
        assert!(Instant::now() < deadline, "not within {TIME_LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The host instances with a ledger in this state folder.
fn instances(state: &Path) -> Vec<String> {
    let names = std::fs::read_dir(state.join("ledger")).unwrap();
    let names = names.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned)).collect()
}

fn other_instances(state: &Path, mine: HostInstanceId) -> Vec<String> {
    instances(state).into_iter().filter(|id| *id != mine.to_string()).collect()
}

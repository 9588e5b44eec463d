//! Tests reaping: the next start ends leftovers of killed hosts in containers, and spares running hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use toolcrib_config::model::transport::{ContainerTarget, DisplayValue, Transport};
use toolcrib_upstream::conn::peer::{Peer, RefuseRequests};
use toolcrib_upstream::process::{Instance, reap};
use toolcrib_upstream::transport::{ContainersReaped, reap_containers};

use super::{
    DockerTestHost, ForeignContainer, SHORT_GRACES, containers_of, docker_host_config, engine,
    from_image, instances, other_instances, scripted_exec, stubborn, wait_until,
};
use crate::peer_fixture::{TIME_LIMIT, check_echo, settings, with_time_limit};

/// Makes the test binary run as a host, and names its state folder.
const HOST_STATE: &str = "TOOLCRIB_TEST_DOCKER_HOST_STATE";

/// Files in the state folder: the id of the foreign container, and the ready marker.
const CONTAINER: &str = "container";
const READY: &str = "ready";

#[tokio::test]
async fn reaping_ends_leftovers_of_killed_host_only() {
    let (mut docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    docker_host.config.graces = SHORT_GRACES;
    let (neighbour, _events) = docker_host.peer(scripted_exec(from_image(), &stubborn())).await;
    let host = HostProcess::start(docker_host.state.path(), &foreign.id);
    let ready = docker_host.state.path().join(READY);
    wait_until("the host is ready", || async { ready.exists() }).await;
    let dead = other_instances(docker_host.state.path(), docker_host.instance.id()).pop().unwrap();

    host.kill();
    assert_eq!(containers_of(&docker_host.engine, &dead).await.len(), 1);
    assert!(foreign.has_process("sleep 777").await && foreign.has_process("scripted-server").await);

    let reaped = reap_processes_and_containers(docker_host.state.path()).await;
    assert_eq!((reaped.ended.len(), reaped.left.len()), (2, 0), "{reaped:?}");
    assert!(containers_of(&docker_host.engine, &dead).await.is_empty());
    assert_eq!(foreign.processes().await, ["sleep 300"]);
    assert_eq!(instances(docker_host.state.path()), [docker_host.instance.id().to_string()]);

    check_echo(&neighbour, "still here").await;
    with_time_limit(neighbour.close(TIME_LIMIT)).await;
    docker_host.close().await;
}

#[tokio::test]
async fn host_killed_at_any_moment_leaves_nothing_after_reaping() {
    let (state, foreign) = (tempfile::tempdir().unwrap(), ForeignContainer::new().await);
    let mut dead = Vec::new();
    // Different times during container creation, start and both execs.
    for millis in (0..12).map(|round| 15 * round).chain([250, 350, 500]) {
        let host = HostProcess::start(state.path(), &foreign.id);
        wait_until("the host has started", || async { has_ledger(state.path()) }).await;
        thread::sleep(Duration::from_millis(millis));
        host.kill();
        dead.extend(instances(state.path()));
        let reaped = reap_processes_and_containers(state.path()).await;
        assert!(reaped.left.is_empty(), "after {millis} ms: {reaped:?}");
        assert_eq!(instances(state.path()), [] as [String; 0]);
        assert_eq!(foreign.processes().await, ["sleep 300"], "after {millis} ms");
    }
    let engine = engine().await;
    for instance in dead {
        assert!(containers_of(&engine, &instance).await.is_empty());
    }
}

#[tokio::test]
async fn ledger_is_kept_while_engine_is_unreachable() {
    let state = tempfile::tempdir().unwrap();
    fs::create_dir(state.path().join("ledger")).unwrap();
    let instance = format!("{:032x}", std::process::id());
    let line = format!(
        r#"{{"kind":"guest","owner":"{instance}:1","engine":"unix:///no/such.sock","container":"c0ffee","own":true}}"#
    );
    fs::write(state.path().join(format!("ledger/{instance}.jsonl")), line + "\n").unwrap();
    let reaped = reap_processes_and_containers(state.path()).await;
    assert_eq!((reaped.ended.len(), reaped.left.len()), (0, 1), "{reaped:?}");
    assert_eq!(instances(state.path()), [instance]);
}

/// Host that other tests run in a separate process and kill. Without the variable it checks that the host has two
/// remote processes and that an orderly shutdown ends them.
#[tokio::test]
async fn host() {
    #[allow(
        clippy::disallowed_methods,
        reason = "a variable is the only way to configure a test binary"
    )]
    let report = std::env::var_os(HOST_STATE).map(PathBuf::from);
    let alone = (TempDir::new().unwrap(), ForeignContainer::new());
    let Some(state) = report else {
        let (folder, foreign) = (alone.0, alone.1.await);
        let (instance, peers) = start_remote_processes(folder.path(), &foreign.id).await;
        assert!(foreign.has_process("sleep 777").await);
        drop(peers);
        with_time_limit(instance.close()).await;
        assert_eq!(foreign.processes().await, ["sleep 300"]);
        assert_eq!(instances(folder.path()), [] as [String; 0]);
        return;
    };
    let container = fs::read_to_string(state.join(CONTAINER)).unwrap();
    let _processes = start_remote_processes(&state, &container).await;
    fs::write(state.join(READY), "").unwrap();
    // Longer than any test, but finite.
    tokio::time::sleep(3 * TIME_LIMIT).await;
}

/// Starts a stubborn server in a dedicated container, and one with a stray process in the foreign container.
async fn start_remote_processes(state: &Path, container: &str) -> (Instance, Vec<Peer>) {
    let (host, instance) = (docker_host_config(state), Instance::open(state).unwrap());
    let mut shared =
        scripted_exec(ContainerTarget::Existing(DisplayValue::literal(container)), &stubborn());
    shared.shell = Some("sh -c".to_owned());
    shared.command = DisplayValue::literal("setsid sleep 777 & exec scripted-server");
    let mut peers = Vec::new();
    for config in [scripted_exec(from_image(), &stubborn()), shared] {
        let link = host.open(&Transport::DockerExec(config), &instance).await.unwrap();
        let (peer, _events) = Peer::start(link, settings(RefuseRequests));
        check_echo(&peer, "hello").await;
        peers.push(peer);
    }
    (instance, peers)
}

async fn reap_processes_and_containers(state: &Path) -> ContainersReaped {
    let reaped = reap(state, TIME_LIMIT).unwrap();
    assert!(reaped.remaining.is_empty() && reaped.notes.is_empty(), "{reaped:?}");
    with_time_limit(reap_containers(reaped.remote_leftovers, TIME_LIMIT)).await
}

fn has_ledger(state: &Path) -> bool {
    state.join("ledger").exists() && !instances(state).is_empty()
}

/// Another host with the same state folder: this test binary, run as [`host`].
struct HostProcess(Child);

impl HostProcess {
    fn start(state: &Path, container: &str) -> Self {
        fs::write(state.join(CONTAINER), container).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let (_crate_name, module) = module_path!().split_once("::").unwrap();
        command.args(["--exact", &format!("{module}::host"), "--nocapture"]);
        command.env(HOST_STATE, state).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Sends SIGKILL.
    fn kill(self) {
        drop(self);
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

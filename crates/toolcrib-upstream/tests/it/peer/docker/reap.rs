//! The next start: what a killed host left in containers is ended, what is a living host's is not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use toolcrib_config::model::transport::{Container, Plain, Transport};
use toolcrib_upstream::conn::peer::{NoRequests, Peer};
use toolcrib_upstream::process::{Instance, reap};
use toolcrib_upstream::transport::{ContainersReaped, reap_containers};

use super::super::{LIMIT, echo, settings, within};
use super::{
    Dock, Foreign, HASTY, engine, eventually, from_image, instances, others, owned_by, served,
    stubborn, world,
};

/// Tells the test binary that it is to be a host, and where.
const HOST_STATE: &str = "TOOLCRIB_TEST_DOCKER_HOST_STATE";

/// Files in its state folder: the container that is not its own, and the news that all runs.
const CONTAINER: &str = "container";
const READY: &str = "ready";

#[tokio::test]
async fn what_a_killed_host_left_in_containers_is_ended_and_a_neighbour_s_is_not() {
    let (mut dock, foreign) = (Dock::new().await, Foreign::new().await);
    dock.world.graces = HASTY;
    let (neighbour, _events) = dock.peer(served(from_image(), &stubborn())).await;
    let host = Host::start(dock.state.path(), &foreign.id);
    let ready = dock.state.path().join(READY);
    eventually("the host runs", || async { ready.exists() }).await;
    let dead = others(dock.state.path(), dock.instance.id()).pop().unwrap();

    host.kill();
    assert_eq!(owned_by(&dock.engine, &dead).await.len(), 1);
    assert!(foreign.runs("sleep 777").await && foreign.runs("scripted-server").await);

    let reaped = reap_all(dock.state.path()).await;
    assert_eq!((reaped.ended.len(), reaped.left.len()), (2, 0), "{reaped:?}");
    assert!(owned_by(&dock.engine, &dead).await.is_empty());
    assert_eq!(foreign.processes().await, ["sleep 300"]);
    assert_eq!(instances(dock.state.path()), [dock.instance.id().to_string()]);

    echo(&neighbour, "still here").await;
    within(neighbour.close(LIMIT)).await;
    dock.end().await;
}

#[tokio::test]
async fn killed_at_any_moment_a_host_leaves_nothing_in_containers() {
    let (state, foreign) = (tempfile::tempdir().unwrap(), Foreign::new().await);
    let mut dead = Vec::new();
    // Different moments of making a container, starting it, and the two execs.
    for millis in (0..12).map(|round| 15 * round).chain([250, 350, 500]) {
        let host = Host::start(state.path(), &foreign.id);
        eventually("the host has begun", || async { has_ledger(state.path()) }).await;
        thread::sleep(Duration::from_millis(millis));
        host.kill();
        dead.extend(instances(state.path()));
        let reaped = reap_all(state.path()).await;
        assert!(reaped.left.is_empty(), "after {millis} ms: {reaped:?}");
        assert_eq!(instances(state.path()), [] as [String; 0]);
        assert_eq!(foreign.processes().await, ["sleep 300"], "after {millis} ms");
    }
    let engine = engine().await;
    for instance in dead {
        assert!(owned_by(&engine, &instance).await.is_empty());
    }
}

#[tokio::test]
async fn a_ledger_stays_while_its_engine_does_not_answer() {
    let state = tempfile::tempdir().unwrap();
    fs::create_dir(state.path().join("ledger")).unwrap();
    let instance = format!("{:032x}", std::process::id());
    let line = format!(
        r#"{{"kind":"guest","owner":"{instance}:1","engine":"unix:///no/such.sock","container":"c0ffee","own":true}}"#
    );
    fs::write(state.path().join(format!("ledger/{instance}.jsonl")), line + "\n").unwrap();
    let reaped = reap_all(state.path()).await;
    assert_eq!((reaped.ended.len(), reaped.left.len()), (0, 1), "{reaped:?}");
    assert_eq!(instances(state.path()), [instance]);
}

/// The host that other tests start in a process of its own, and kill. Started by nobody, it shows what they rely
/// on: it has two guests, and its orderly end leaves none.
#[tokio::test]
async fn host() {
    #[allow(clippy::disallowed_methods, reason = "the one way to tell a test binary something")]
    let told = std::env::var_os(HOST_STATE).map(PathBuf::from);
    let alone = (TempDir::new().unwrap(), Foreign::new());
    let Some(state) = told else {
        let (folder, foreign) = (alone.0, alone.1.await);
        let (instance, peers) = guests(folder.path(), &foreign.id).await;
        assert!(foreign.runs("sleep 777").await);
        drop(peers);
        within(instance.close()).await;
        assert_eq!(foreign.processes().await, ["sleep 300"]);
        assert_eq!(instances(folder.path()), [] as [String; 0]);
        return;
    };
    let container = fs::read_to_string(state.join(CONTAINER)).unwrap();
    let _guests = guests(&state, &container).await;
    fs::write(state.join(READY), "").unwrap();
    // Longer than any test, shorter than for ever.
    tokio::time::sleep(3 * LIMIT).await;
}

/// A server in a container of the host's own, and one with a stray in somebody else's; neither obeys.
async fn guests(state: &Path, container: &str) -> (Instance, Vec<Peer>) {
    let (world, instance) = (world(state), Instance::open(state).unwrap());
    let mut shared = served(Container::Existing(Plain::literal(container)), &stubborn());
    shared.shell = Some("sh -c".to_owned());
    shared.command = Plain::literal("setsid sleep 777 & exec scripted-server");
    let mut peers = Vec::new();
    for config in [served(from_image(), &stubborn()), shared] {
        let link = world.open(&Transport::DockerExec(config), &instance).await.unwrap();
        let (peer, _events) = Peer::start(link, settings(NoRequests));
        echo(&peer, "hello").await;
        peers.push(peer);
    }
    (instance, peers)
}

async fn reap_all(state: &Path) -> ContainersReaped {
    let reaped = reap(state, LIMIT).unwrap();
    assert!(reaped.left.is_empty() && reaped.notes.is_empty(), "{reaped:?}");
    within(reap_containers(reaped.estates, LIMIT)).await
}

fn has_ledger(state: &Path) -> bool {
    state.join("ledger").exists() && !instances(state).is_empty()
}

/// Another host on the same state folder: this test binary, run as [`host`].
struct Host(Child);

impl Host {
    fn start(state: &Path, container: &str) -> Self {
        fs::write(state.join(CONTAINER), container).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "peer::docker::reap::host", "--nocapture"]);
        command.env(HOST_STATE, state).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// SIGKILL.
    fn kill(self) {
        drop(self);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

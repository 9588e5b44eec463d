//! Torture test: kills a host with many servers repeatedly and checks that the next start cleans up.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::processes::find_by_environment;
use toolcrib_testkit::scripted::{Script, server_binary};
use toolcrib_upstream::process::Containment;
use toolcrib_upstream::supervise::reap_orphans;

use crate::test_host::{wait_until, with_time_limit};

/// Default number of rounds; `TORTURE_ROUNDS` overrides it.
const DEFAULT_ROUNDS: u64 = 20;

/// The image that `make setup` imports into the engine.
const IMAGE: &str = "toolcrib-test:latest";

/// Starts a grandchild outside of the group and then becomes the server.
const STRAY_SCRIPT: &str = "setsid sleep 600 & exec \"$0\" \"$1\"";

#[tokio::test]
async fn repeatedly_killed_host_leaves_no_processes() {
    let folder = tempfile::tempdir().unwrap();
    let tag = format!("torture-{}", std::process::id());
    let foreign = ForeignContainer::start(&tag);
    let text = json!({"version": 1, "servers": server_entries(&tag, &foreign)}).to_string();
    std::fs::write(folder.path().join("toolcrib.yaml"), text).unwrap();
    let state = folder.path().join("state");
    for round in 0..rounds() {
        let host = HostProcess::start(folder.path(), &state);
        host.kill_in_round(round);
        let cleared =
            with_time_limit(reap_orphans(&state, &Containment::default(), Duration::from_secs(20)))
                .await
                .unwrap();
        assert!(cleared.processes.remaining.is_empty(), "round {round}: {cleared:?}");
        assert!(cleared.containers.left.is_empty(), "round {round}: {cleared:?}");
        wait_until("no process is left", || {
            find_by_environment(&format!("TORTURE={tag}")).is_empty()
        })
        .await;
        assert_eq!(foreign.containers(), [foreign.name.as_str()], "round {round}");
        assert!(
            foreign.has_no_servers(),
            "round {round}: a process is left in the foreign container"
        );
    }
}

/// Twenty local servers, some of which are stubborn or leave strays, one server in its own container, and one
/// in a foreign container.
fn server_entries(tag: &str, foreign: &ForeignContainer) -> Value {
    let program = server_binary().unwrap();
    let mut all = serde_json::Map::new();
    for number in 0..20 {
        let script = Script {
            ignore_sigterm: number % 3 == 0,
            ignore_end: number % 3 == 0,
            legacy_only: number % 2 == 0,
            ..Script::default()
        };
        let (command, args) = match number % 4 {
            0 => (json!("sh"), json!(["-c", STRAY_SCRIPT, program, script.to_json()])),
            _ => (json!(program), json!([script.to_json()])),
        };
        let entry = json!({"command": command, "args": args, "env": {"TORTURE": tag},
            "session": {"scope": "per_call", "discovery": "keep"}});
        all.insert(format!("s{number}"), entry);
    }
    let script = Script { legacy_only: true, ..Script::default() }.to_json();
    let docker = |target: &str, name: &str| {
        json!({"transport": {"kind": "docker_exec", target: name, "command": "scripted-server",
            "args": [script], "env": {"set": {"TORTURE": tag}}},
            "session": {"scope": "shared"}, "timeouts": {"startup": "60s"}})
    };
    all.insert("ours".to_owned(), docker("image", &foreign.image));
    all.insert("theirs".to_owned(), docker("container", &foreign.name));
    Value::Object(all)
}

/// The host, in its own process.
struct HostProcess(Child);

impl HostProcess {
    fn start(root: &Path, state: &Path) -> Self {
        let here = std::env::current_exe().unwrap();
        let program = here.ancestors().nth(2).unwrap().join("examples/torture_host");
        assert!(program.is_file(), "run `cargo build -p toolcrib-e2e --example torture_host`");
        let child = Command::new(program)
            .args([root, state])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        HostProcess(child.unwrap())
    }

    /// In even rounds the host is up and under load. In odd rounds it is killed during its start.
    fn kill_in_round(mut self, round: u64) {
        if round.is_multiple_of(2) {
            let mut line = String::new();
            let stdout = self.0.stdout.take().unwrap();
            BufReader::new(stdout).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
        }
        // Varies the moment of the kill.
        std::thread::sleep(Duration::from_millis(37 * (round % 23)));
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // The host may have been killed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A container that no host created and that must survive. Only this test uses the image's name, so the name
/// identifies the test's containers.
struct ForeignContainer {
    name: String,
    image: String,
}

impl ForeignContainer {
    fn start(tag: &str) -> Self {
        let image = format!("toolcrib-test:{tag}");
        docker(&["tag", IMAGE, &image]);
        let name = format!("{tag}-foreign");
        docker(&[
            "run",
            "-d",
            "--rm",
            "--network",
            "none",
            "--name",
            &name,
            &image,
            "sleep",
            "7200",
        ]);
        ForeignContainer { name, image }
    }

    /// Returns whether only the container's own program and the listing run in it.
    fn has_no_servers(&self) -> bool {
        !docker(&["exec", &self.name, "ps"]).contains("scripted-server")
    }

    /// Names of all containers of the test's image, in any state.
    fn containers(&self) -> Vec<String> {
        let all = docker(&["ps", "-a", "--format", "{{.Image}} {{.Names}}"]);
        let of_image =
            |line: &str| line.strip_prefix(&format!("{} ", self.image)).map(str::to_owned);
        all.lines().filter_map(of_image).collect()
    }
}

impl Drop for ForeignContainer {
    fn drop(&mut self) {
        // The next run shows whether the removal worked.
        let _ = Command::new("docker").args(["rm", "-f", "-v", &self.name]).output();
        let _ = Command::new("docker").args(["rmi", &self.image]).output();
    }
}

fn docker(args: &[&str]) -> String {
    let output = match Command::new("docker").args(args).output() {
        Ok(output) => output,
        Err(error) => panic!("the package `docker.io` is not installed: run `make setup`: {error}"),
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "docker {args:?}: {stderr} (is the engine running? `make setup`)"
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[allow(clippy::disallowed_methods, reason = "an environment variable configures the test")]
fn rounds() -> u64 {
    std::env::var("TORTURE_ROUNDS").map_or(DEFAULT_ROUNDS, |rounds| rounds.parse().unwrap())
}

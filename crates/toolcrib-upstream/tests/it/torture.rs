//! A host with many servers is killed again and again, and nothing of it is left after the next start.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::processes::marked;
use toolcrib_testkit::scripted::{Script, program};
use toolcrib_upstream::process::Containment;
use toolcrib_upstream::supervise::clear;

use crate::scene::{until, within};

/// How often, unless `TORTURE_ROUNDS` says otherwise.
const ROUNDS: u64 = 20;

/// The engine's image that setup imports.
const IMAGE: &str = "toolcrib-test:latest";

/// Leaves a grandchild that left the group, and becomes the server.
const WITH_STRAY: &str = "setsid sleep 600 & exec \"$0\" \"$1\"";

#[tokio::test]
async fn a_host_that_is_killed_again_and_again_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tag = format!("torture-{}", std::process::id());
    let foreign = Foreign::start(&tag);
    let text = json!({"version": 1, "servers": servers(&tag, &foreign)}).to_string();
    std::fs::write(folder.path().join("toolcrib.yaml"), text).unwrap();
    let state = folder.path().join("state");
    for round in 0..rounds() {
        let host = Host::start(folder.path(), &state);
        host.kill_at(round);
        let cleared =
            within(clear(&state, &Containment::default(), Duration::from_secs(20))).await.unwrap();
        assert!(cleared.processes.left.is_empty(), "round {round}: {cleared:?}");
        assert!(cleared.containers.left.is_empty(), "round {round}: {cleared:?}");
        until("no process is left", || marked(&format!("TORTURE={tag}")).is_empty()).await;
        assert_eq!(foreign.containers(), [foreign.name.as_str()], "round {round}");
        assert!(foreign.is_alone(), "round {round}: a process is left in another one's container");
    }
}

/// Twenty on this machine, of which some are stubborn or leave strays; one in a container of its own, one in
/// another one's.
fn servers(tag: &str, foreign: &Foreign) -> Value {
    let program = program().unwrap();
    let mut all = serde_json::Map::new();
    for number in 0..20 {
        let script = Script {
            ignore_sigterm: number % 3 == 0,
            ignore_end: number % 3 == 0,
            legacy_only: number % 2 == 0,
            ..Script::default()
        };
        let (command, args) = match number % 4 {
            0 => (json!("sh"), json!(["-c", WITH_STRAY, program, script.to_json()])),
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

/// The host in a process of its own.
struct Host(Child);

impl Host {
    fn start(root: &Path, state: &Path) -> Self {
        let here = std::env::current_exe().unwrap();
        let program = here.ancestors().nth(2).unwrap().join("examples/torture_host");
        assert!(program.is_file(), "run `cargo build -p toolcrib-upstream --example torture_host`");
        let child = Command::new(program)
            .args([root, state])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        Host(child.unwrap())
    }

    /// Every other round it is up and under load; in between it is killed at some moment of its start.
    fn kill_at(mut self, round: u64) {
        if round.is_multiple_of(2) {
            let mut line = String::new();
            let stdout = self.0.stdout.take().unwrap();
            BufReader::new(stdout).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
        }
        // Another moment each time; that it is a different one is all that matters.
        std::thread::sleep(Duration::from_millis(37 * (round % 23)));
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A container that no host of ours made, and that must live on. The image has a name that only this test uses, so
/// that its containers are known by it.
struct Foreign {
    name: String,
    image: String,
}

impl Foreign {
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
        Foreign { name, image }
    }

    /// Nothing runs in it but its own program and the listing itself.
    fn is_alone(&self) -> bool {
        !docker(&["exec", &self.name, "ps"]).contains("scripted-server")
    }

    /// All containers of the test's image, by name, whatever their state.
    fn containers(&self) -> Vec<String> {
        let all = docker(&["ps", "-a", "--format", "{{.Image}} {{.Names}}"]);
        let of_image =
            |line: &str| line.strip_prefix(&format!("{} ", self.image)).map(str::to_owned);
        all.lines().filter_map(of_image).collect()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // Whether it worked shows in the next run.
        let _ = Command::new("docker").args(["rm", "-f", "-v", &self.name]).output();
        let _ = Command::new("docker").args(["rmi", &self.image]).output();
    }
}

fn docker(args: &[&str]) -> String {
    let output = match Command::new("docker").args(args).output() {
        Ok(output) => output,
        Err(error) => panic!("the package `docker.io` is not installed: run `make setup`: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "docker {args:?}: {said} (is the engine running? `make setup`)"
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[allow(clippy::disallowed_methods, reason = "the one way to tell a test how long it may take")]
fn rounds() -> u64 {
    std::env::var("TORTURE_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap())
}

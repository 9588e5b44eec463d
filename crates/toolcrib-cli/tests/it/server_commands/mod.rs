//! Tests commands that talk to servers.

mod accept;
mod call;
mod dispatch;
mod docker;
mod dominds;
mod foreign_text;
mod holodeck;
mod interruption;
mod limits;
mod lists;
mod minion;
mod operations;
mod serve;
mod stray_processes;
mod terminal;
mod trust;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, server_binary};

use crate::{CommandOutput, PROGRAM, TestWorkspace};

/// Bounds a failing wait.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The variables that every server needs.
const PATH: (&str, &str) = ("PATH", "/usr/local/bin:/usr/bin:/bin");

/// The entry of a scripted server.
fn scripted_server(script: &Script) -> Value {
    json!({"command": server_binary().unwrap(), "args": [script.to_json()]})
}

fn demo_server() -> Value {
    json!({"command": PROGRAM, "args": ["demo-server"]})
}

/// A workspace with a native file.
fn native_workspace(servers: &Value) -> TestWorkspace {
    TestWorkspace::new()
        .with_file("toolcrib.yaml", &json!({"version": 1, "servers": servers}).to_string())
}

impl TestWorkspace {
    /// The JSON output of a command, whatever its exit code.
    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let ran = self.run_with_env(&args, &[PATH]);
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// The names of the listed tools.
    fn tools(&self) -> Vec<String> {
        names(&self.json(&["tools"]))
    }

    /// The output of a command that must succeed.
    fn stdout_of(&self, args: &[&str]) -> String {
        let ran = self.run_with_env(args, &[PATH]);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.out
    }

    /// Arguments, variables and folder of a server, as its tool `env` reports them.
    fn server_environment(&self, tool: &str) -> Value {
        let report = self.json(&["call", tool]);
        let text = report["text"].as_str().unwrap_or_else(|| panic!("{report}"));
        serde_json::from_str(text).unwrap()
    }

    /// A path beside the workspace.
    fn sibling_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program that records how it was started and then runs the scripted server.
    fn shim(&self, name: &str) -> Shim {
        let folder = self.sibling_path("bin");
        fs::create_dir_all(&folder).unwrap();
        let (path, log) = (folder.join(name), self.sibling_path(&format!("{name}.log")));
        let (log_path, server) = (log.display(), server_binary().unwrap());
        let server = server.display();
        let text = format!(
            "#!/bin/sh\n{{ printf '%s\\n' \"$$\" \"$(id -u)\" \"$@\"; }} > '{log_path}'\nexec '{server}' ${{SCRIPT:+\"$SCRIPT\"}}\n"
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Shim { path, log }
    }

    /// `PATH` with the programs of [`TestWorkspace::shim`] first.
    fn shim_path(&self) -> String {
        format!("{}:{}", self.sibling_path("bin").display(), PATH.1)
    }
}

/// A program in place of another.
struct Shim {
    path: PathBuf,
    log: PathBuf,
}

impl Shim {
    /// Pid, user and arguments of the start, or `None` if it was never started.
    fn start_record(&self) -> Option<(u32, u32, Vec<String>)> {
        let text = fs::read_to_string(&self.log).ok()?;
        let mut lines = text.lines().map(str::to_owned);
        let mut number = || lines.next().unwrap().parse().unwrap();
        let (pid, user) = (number(), number());
        Some((pid, user, lines.collect()))
    }
}

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The list item with this value.
fn find<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = list.as_array().and_then(|all| all.iter().find(|one| one[key] == value));
    found.unwrap_or_else(|| panic!("no {key} {value} in {list:#}"))
}

fn server<'a>(listed: &'a Value, id: &str) -> &'a Value {
    find(&listed["servers"], "id", id)
}

fn codes(problems: &Value) -> Vec<&str> {
    problems.as_array().unwrap().iter().map(|problem| problem["code"].as_str().unwrap()).collect()
}

fn parse_json(ran: &CommandOutput) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Polls until the condition holds.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started_at = Instant::now();
    while !is_so() {
        assert!(started_at.elapsed() < TIME_LIMIT, "not within the time: {what}");
        // Other processes cannot wake this thread.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A zombie does not count as alive.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_zombie = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'));
    // The leader of a killed process is a zombie while other threads still hold its pipes open.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    !is_zombie || threads > 1
}

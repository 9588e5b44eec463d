//! The commands that talk to servers.

mod accept;
mod call;
mod dispatch;
mod docker;
mod dominds;
mod endings;
mod foreign;
mod holodeck;
mod limits;
mod lists;
mod minion;
mod operations;
mod serve;
mod strays;
mod terminal;
mod trust;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, program};

use crate::{PROGRAM, Place, Ran};

/// Only bounds a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// The variables that every server needs.
const PATH: (&str, &str) = ("PATH", "/usr/local/bin:/usr/bin:/bin");

/// The entry of a scripted server.
fn scripted(script: &Script) -> Value {
    json!({"command": program().unwrap(), "args": [script.to_json()]})
}

fn demo() -> Value {
    json!({"command": PROGRAM, "args": ["demo-server"]})
}

/// A workspace with a native file.
fn native(servers: &Value) -> Place {
    Place::new().file("toolcrib.yaml", &json!({"version": 1, "servers": servers}).to_string())
}

impl Place {
    /// The JSON that a command prints, whatever its exit code.
    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let ran = self.run_with(&args, &[PATH]);
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// The names of the tools that are listed.
    fn tools(&self) -> Vec<String> {
        names(&self.json(&["tools"]))
    }

    /// Runs a command that must succeed; what it prints.
    fn out(&self, args: &[&str]) -> String {
        let ran = self.run_with(args, &[PATH]);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.out
    }

    /// What a server was given: its arguments, variables and folder, as its tool `env` tells.
    fn surroundings(&self, tool: &str) -> Value {
        let told = self.json(&["call", tool]);
        let text = told["text"].as_str().unwrap_or_else(|| panic!("{told}"));
        serde_json::from_str(text).unwrap()
    }

    /// A file beside the workspace.
    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program that notes how it was started and is the scripted server from then on.
    fn shim(&self, name: &str) -> Shim {
        let folder = self.beside("bin");
        fs::create_dir_all(&folder).unwrap();
        let (path, log) = (folder.join(name), self.beside(&format!("{name}.log")));
        let (log_path, server) = (log.display(), program().unwrap());
        let server = server.display();
        let text = format!(
            "#!/bin/sh\n{{ printf '%s\\n' \"$$\" \"$(id -u)\" \"$@\"; }} > '{log_path}'\nexec '{server}' ${{SCRIPT:+\"$SCRIPT\"}}\n"
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Shim { path, log }
    }

    /// The search path with the programs of [`Place::shim`] first.
    fn shims(&self) -> String {
        format!("{}:{}", self.beside("bin").display(), PATH.1)
    }
}

/// A program that stands for another.
struct Shim {
    path: PathBuf,
    log: PathBuf,
}

impl Shim {
    /// Its process, its user and its arguments; nothing if it was never started.
    fn started(&self) -> Option<(u32, u32, Vec<String>)> {
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

/// One of a list, by a member.
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

fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not within the time: {what}");
        // What is waited for happens in other processes: there is nothing to be woken by.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What has ended and waits for whoever started it to hear of that does not live.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

//! How a command ends: by itself or by a signal, and nothing is left of it.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, PATIENCE, Shim, is_alive, native, until};
use crate::Place;

/// A call that takes a minute, when it has begun.
struct Calling {
    place: Place,
    shim: Shim,
    child: Child,
}

impl Calling {
    fn begin() -> Self {
        let place = native(&json!({}));
        let (shim, log) = (place.shim("slow"), place.beside("messages"));
        let script = Script { log: Some(log.clone()), ..Script::default() }
            .on("tools/call slow", [Step::Sleep(60_000), Step::Answer]);
        let entry =
            json!({"command": shim.path, "env": {"SCRIPT": script.to_json().replace("$", "$$")}});
        let place = place
            .file("toolcrib.yaml", &json!({"version": 1, "servers": {"s": entry}}).to_string());
        let mut command = place.command(&["call", "s__slow"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the call has begun", || has(&log, "tools/call"));
        Calling { place, shim, child }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), signal).unwrap();
    }
}

fn has(log: &Path, method: &str) -> bool {
    let text = fs::read_to_string(log).unwrap_or_default();
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.into_iter().any(|message| message["method"] == method)
}

#[test]
fn a_signal_cancels_the_call_ends_the_server_and_is_told_by_130() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut calling = Calling::begin();
        let (pid, _, _) = calling.shim.started().unwrap();
        assert!(is_alive(pid));
        calling.signal(signal);
        let begun = std::time::Instant::now();
        let output = loop {
            if calling.child.try_wait().unwrap().is_some() {
                break calling.child.wait_with_output().unwrap();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            // The end of a process wakes nobody here.
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        let ran = calling.place.ran(&output);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (130, "", "interrupted\n"));
        assert!(has(&calling.place.beside("messages"), "notifications/cancelled"), "{signal:?}");
        assert!(!is_alive(pid), "{signal:?}");
    }
}

#[test]
fn a_doctor_that_is_called_off_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let place = native(&json!({}));
        let log = place.beside("pids");
        let script = format!("sleep 7777 & echo $$ $! > {}; wait", log.display());
        let entry = json!({"command": "sh", "args": ["-c", script.replace('$', "$$")]});
        let place = place
            .file("toolcrib.yaml", &json!({"version": 1, "servers": {"s": entry}}).to_string());
        let mut command = place.command(&["doctor"]);
        command.env(PATH.0, PATH.1).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let started = || fs::read_to_string(&log).unwrap_or_default();
        until("the server has started", || started().ends_with('\n'));
        kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), signal).unwrap();
        let ran = place.ran(&child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (130, "interrupted\n"), "{signal:?}");
        let pids: Vec<u32> = started().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert!(pids.len() == 2 && !pids.iter().any(|pid| is_alive(*pid)), "{signal:?} {pids:?}");
    }
}

#[test]
fn min_02_nothing_listens_while_a_command_runs() {
    let mut calling = Calling::begin();
    let sockets = sockets_of(calling.child.id());
    for table in ["tcp", "tcp6"] {
        for (inode, state) in listed(&format!("/proc/{}/net/{table}", calling.child.id()), 9, 3) {
            assert!(state != "0A" || !sockets.contains(&inode), "MIN-02: it listens ({table})");
        }
    }
    // Sockets of this machine only: a listening one has the flag 00010000.
    for (inode, flags) in listed(&format!("/proc/{}/net/unix", calling.child.id()), 6, 3) {
        assert!(flags != "00010000" || !sockets.contains(&inode), "MIN-02: it listens");
    }
    calling.signal(Signal::TERM);
    calling.child.wait().unwrap();
}

/// The inodes of a process's sockets.
fn sockets_of(pid: u32) -> Vec<String> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let links = links.map(|link| link.display().to_string());
    links
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect()
}

/// Two columns of a table of sockets.
fn listed(path: &str, inode: usize, other: usize) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter_map(|row| Some((row.get(inode)?.to_string(), row.get(other)?.to_string())))
        .collect()
}

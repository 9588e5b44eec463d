//! Tests the end of commands by themselves and by signals.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, Shim, TIME_LIMIT, is_alive, native_workspace, wait_until};
use crate::TestWorkspace;

/// A running call that takes a minute.
struct RunningCall {
    workspace: TestWorkspace,
    shim: Shim,
    child: Child,
}

impl RunningCall {
    fn start() -> Self {
        let workspace = native_workspace(&json!({}));
        let (shim, log) = (workspace.shim("slow"), workspace.sibling_path("messages"));
        let script = Script { log: Some(log.clone()), ..Script::default() }
            .on("tools/call slow", [Step::Sleep(60_000), Step::Respond]);
        let entry =
            json!({"command": shim.path, "env": {"SCRIPT": script.to_json().replace("$", "$$")}});
        let workspace = workspace.with_file(
            "toolcrib.yaml",
            &json!({"version": 1, "servers": {"s": entry}}).to_string(),
        );
        let mut command = workspace.command(&["call", "s__slow"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the call has started", || log_contains(&log, "tools/call"));
        RunningCall { workspace, shim, child }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), signal).unwrap();
    }
}

fn log_contains(log: &Path, method: &str) -> bool {
    let text = fs::read_to_string(log).unwrap_or_default();
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.into_iter().any(|message| message["method"] == method)
}

#[test]
fn signal_cancels_call_ends_server_and_exits_with_130() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = RunningCall::start();
        let (pid, _, _) = running.shim.start_record().unwrap();
        assert!(is_alive(pid));
        running.signal(signal);
        let started_at = std::time::Instant::now();
        let output = loop {
            if running.child.try_wait().unwrap().is_some() {
                break running.child.wait_with_output().unwrap();
            }
            assert!(started_at.elapsed() < TIME_LIMIT, "the command does not end");
            // Polling, since no notification reaches this thread.
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        let ran = running.workspace.command_output(&output);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (130, "", "interrupted\n"));
        assert!(
            log_contains(&running.workspace.sibling_path("messages"), "notifications/cancelled"),
            "{signal:?}"
        );
        assert!(!is_alive(pid), "{signal:?}");
    }
}

#[test]
fn interrupted_doctor_leaves_no_processes() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let workspace = native_workspace(&json!({}));
        let log = workspace.sibling_path("pids");
        let script = format!("sleep 7777 & echo $$ $! > {}; wait", log.display());
        let entry = json!({"command": "sh", "args": ["-c", script.replace('$', "$$")]});
        let workspace = workspace.with_file(
            "toolcrib.yaml",
            &json!({"version": 1, "servers": {"s": entry}}).to_string(),
        );
        let mut command = workspace.command(&["doctor"]);
        command.env(PATH.0, PATH.1).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let started = || fs::read_to_string(&log).unwrap_or_default();
        wait_until("the server has started", || started().ends_with('\n'));
        kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), signal).unwrap();
        let ran = workspace.command_output(&child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (130, "interrupted\n"), "{signal:?}");
        let pids: Vec<u32> = started().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert!(pids.len() == 2 && !pids.iter().any(|pid| is_alive(*pid)), "{signal:?} {pids:?}");
    }
}

#[test]
fn min_02_running_command_opens_no_listening_socket() {
    let mut running = RunningCall::start();
    let sockets = socket_inodes(running.child.id());
    for table in ["tcp", "tcp6"] {
        for (inode, state) in
            socket_table_columns(&format!("/proc/{}/net/{table}", running.child.id()), 9, 3)
        {
            assert!(state != "0A" || !sockets.contains(&inode), "MIN-02: it listens ({table})");
        }
    }
    // Unix sockets: the flag 00010000 marks a listening socket.
    for (inode, flags) in
        socket_table_columns(&format!("/proc/{}/net/unix", running.child.id()), 6, 3)
    {
        assert!(flags != "00010000" || !sockets.contains(&inode), "MIN-02: it listens");
    }
    running.signal(Signal::TERM);
    running.child.wait().unwrap();
}

/// The socket inodes of a process.
fn socket_inodes(pid: u32) -> Vec<String> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let links = links.map(|link| link.display().to_string());
    links
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect()
}

/// Two columns of a socket table.
fn socket_table_columns(path: &str, inode: usize, other: usize) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter_map(|row| Some((row.get(inode)?.to_string(), row.get(other)?.to_string())))
        .collect()
}

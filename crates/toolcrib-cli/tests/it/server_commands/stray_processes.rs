//! Tests stray processes of servers: double-forked, in their own session, without environment. They end with the host
//! as `doctor` promises.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolcrib_testkit::cgroup::TestCgroup;
use toolcrib_testkit::scripted::{Script, server_binary};

use super::{PATH, is_alive, native_workspace, wait_until};
use crate::TestWorkspace;

/// Starts a detached grandchild that records its pid, and becomes the server.
const DOUBLE_FORK: &str = "( setsid env -i /bin/sh -c 'echo $$ >> \"$0\"; exec sleep 7777' \"$0\" \
    </dev/null >/dev/null 2>&1 & ); exec \"$1\" \"$2\"";

/// A workspace with a server that leaves grandchildren, and the value of `TOOLCRIB_CGROUP`.
struct HostFixture {
    workspace: TestWorkspace,
    cgroup: Option<String>,
    /// Removed after the hosts have ended.
    _own: Option<TestCgroup>,
}

impl HostFixture {
    /// Without a named cgroup, uses one that no other test uses, if the machine allows it.
    fn new(cgroup: Option<&str>) -> Self {
        let own = TestCgroup::create().filter(|_| cgroup.is_none());
        let path = own.as_ref().map(|own| own.path().display().to_string());
        Self { _own: own, ..Self::below(cgroup.or(path.as_deref())) }
    }

    fn below(cgroup: Option<&str>) -> Self {
        let workspace = native_workspace(&json!({}));
        let args = [
            json!("-c"),
            json!(DOUBLE_FORK.replace('$', "$$")),
            json!(workspace.sibling_path("pids")),
            json!(server_binary().unwrap()),
            json!(Script::default().to_json()),
        ];
        let file = json!({"version": 1, "servers": {"s": {"command": "/bin/sh", "args": args}}});
        let workspace = workspace.with_file("toolcrib.yaml", &file.to_string());
        let cgroup =
            cgroup.map(|it| it.replace("TMP", &workspace.sibling_path("").display().to_string()));
        Self { workspace, cgroup, _own: None }
    }

    fn host(&self) -> Child {
        let mut command = self.workspace.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.env(PATH.0, PATH.1).envs(self.cgroup.as_ref().map(|it| ("TOOLCRIB_CGROUP", it)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// The process section of `doctor`, which also starts a host.
    fn doctor(&self) -> Value {
        let more = self.cgroup.as_ref().map(|it| ("TOOLCRIB_CGROUP", it.as_str()));
        let env: Vec<_> = [PATH].into_iter().chain(more).collect();
        let ran = self.workspace.run_with_env(&["doctor", "--json"], &env);
        assert_eq!(ran.code, 0, "{ran:?}");
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        report["processes"].clone()
    }

    /// Waits for this many new grandchildren.
    fn grandchildren(&self, count: usize) -> Vec<u32> {
        let file = self.workspace.sibling_path("pids");
        let pids = || -> Vec<u32> {
            let text = fs::read_to_string(&file).unwrap_or_default();
            text.lines().map(|line| line.parse().unwrap()).collect()
        };
        wait_until("the grandchildren have started", || pids().len() >= count);
        let found = pids();
        fs::remove_file(file).unwrap();
        found
    }

    /// The cgroup of the running host, from its ledger.
    fn cgroup_of_host(&self) -> Option<PathBuf> {
        let user = self.workspace.home().join(".local/state/toolcrib");
        let states = fs::read_dir(user).unwrap().map(|entry| entry.unwrap().path().join("ledger"));
        let ledgers = states.filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let texts = ledgers.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        let lines: Vec<String> =
            texts.flat_map(|text| text.lines().next().map(str::to_owned)).collect();
        let line: Value = serde_json::from_str(&lines[0]).unwrap();
        line["cgroup"].as_str().map(PathBuf::from)
    }
}

fn end_host(mut host: Child, signal: Signal) {
    kill_process(Pid::from_raw(host.id().try_into().unwrap()).unwrap(), signal).unwrap();
    host.wait().unwrap();
}

fn kill_process_by_pid(pid: u32) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// Checks both ends of a host against the report of `doctor`. `None` accepts any guarantee.
fn check(cgroup: Option<&str>, guarantee: Option<&str>) {
    let fixture = HostFixture::new(cgroup);
    let output = fixture.doctor();
    if let Some(guarantee) = guarantee {
        assert_eq!(output["guarantee"], guarantee, "{output}");
        assert!(output["why"].is_string(), "{output}");
    }
    assert_eq!(output["all_end_with_host"], true, "{output}");
    assert!(!fixture.grandchildren(1).iter().any(|pid| is_alive(*pid)), "{output}");

    let host = fixture.host();
    let ended = fixture.grandchildren(1)[0];
    assert!(is_alive(ended));
    let folder = fixture.cgroup_of_host().filter(|_| output["guarantee"] == "cgroup");
    assert!(folder.as_deref().is_none_or(Path::is_dir), "{folder:?}");
    end_host(host, Signal::TERM);
    assert!(!is_alive(ended), "{output}");
    assert!(!folder.is_some_and(|folder| folder.exists()));

    let host = fixture.host();
    let killed = fixture.grandchildren(1)[0];
    let folder = fixture.cgroup_of_host().filter(|_| output["guarantee"] == "cgroup");
    end_host(host, Signal::KILL);
    assert!(is_alive(killed), "only the next start ends the process");
    assert_eq!(fixture.doctor(), output);
    let is_left = is_alive(killed);
    if is_left {
        kill_process_by_pid(killed);
    }
    assert_eq!(output["all_end_after_kill"], !is_left, "{output}");
    assert_eq!(output["text"].as_str().unwrap().contains("stays"), is_left, "{output}");
    assert!(!folder.is_some_and(|folder| folder.exists()));
    assert!(!fixture.grandchildren(1).iter().any(|pid| is_alive(*pid)), "{output}");
}

#[test]
fn double_forked_grandchildren_end_with_host_as_doctor_reports() {
    check(None, None);
}

#[test]
fn double_forked_grandchildren_end_with_host_without_cgroups() {
    check(Some("off"), Some("subreaper"));
}

#[test]
fn double_forked_grandchildren_end_with_host_when_cgroup_creation_fails() {
    check(Some("TMP"), Some("subreaper"));
    check(Some("TMP/nothing-here"), Some("subreaper"));
}

#[test]
fn double_forked_grandchildren_of_killed_host_end_without_state_folder() {
    let fixture = HostFixture::new(None);
    let neighbour = HostFixture::below(fixture.cgroup.as_deref());
    let living = neighbour.host();
    let kept = neighbour.grandchildren(1)[0];
    let host = fixture.host();
    let orphan = fixture.grandchildren(1)[0];
    end_host(host, Signal::KILL);
    fs::remove_dir_all(fixture.workspace.home().join(".local/state/toolcrib")).unwrap();
    assert!(is_alive(orphan), "only the next start ends the process");
    // Any host start below the same cgroup.
    let next = HostFixture::below(fixture.cgroup.as_deref());
    let output = next.doctor();
    next.grandchildren(1);
    let is_left = is_alive(orphan);
    if is_left {
        kill_process_by_pid(orphan);
    }
    assert_eq!(output["all_end_after_kill"], !is_left, "{output}");
    assert!(is_alive(kept), "the process belongs to a running host");
    end_host(living, Signal::TERM);
    assert!(!is_alive(kept));
}

/// With two servers an orphan may belong to either, so it ends at the latest with the host.
#[test]
fn adopted_orphan_ends_with_host_and_foreign_process_survives() {
    let fixture = HostFixture::new(Some("off"));
    let file: Value = serde_json::from_str(&fixture.workspace.read("toolcrib.yaml")).unwrap();
    let mut servers = file["servers"].clone();
    servers["other"] = servers["s"].clone();
    let text = json!({"version": 1, "servers": servers}).to_string();
    let fixture =
        HostFixture { workspace: fixture.workspace.with_file("toolcrib.yaml", &text), ..fixture };
    let mut bystander = std::process::Command::new("sleep").arg("7777").spawn().unwrap();
    let host = fixture.host();
    let grandchildren = fixture.grandchildren(2);
    assert!(grandchildren.iter().all(|pid| is_alive(*pid)));
    end_host(host, Signal::TERM);
    assert!(!grandchildren.iter().any(|pid| is_alive(*pid)));
    assert!(is_alive(bystander.id()));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

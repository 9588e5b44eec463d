//! Processes that a server starts and lets go of: double-forked, in a session of their own, without an environment.
//! They end with the host as far as `doctor` says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolcrib_testkit::cgroup::TestCgroup;
use toolcrib_testkit::scripted::{Script, program};

use super::{PATH, is_alive, native, until};
use crate::Place;

/// Starts a grandchild that nothing leads back from, which notes its pid, and becomes the server.
const DOUBLE_FORK: &str = "( setsid env -i /bin/sh -c 'echo $$ >> \"$0\"; exec sleep 7777' \"$0\" \
    </dev/null >/dev/null 2>&1 & ); exec \"$1\" \"$2\"";

/// Where `TOOLCRIB_CGROUP` points in this test.
struct Scene {
    place: Place,
    cgroup: Option<String>,
    /// Removed after the hosts have ended.
    _own: Option<TestCgroup>,
}

impl Scene {
    /// Without a cgroup that is named, hosts have one that no other test uses, where the machine allows it.
    fn new(cgroup: Option<&str>) -> Self {
        let own = TestCgroup::create().filter(|_| cgroup.is_none());
        let path = own.as_ref().map(|own| own.path().display().to_string());
        Self { _own: own, ..Self::below(cgroup.or(path.as_deref())) }
    }

    fn below(cgroup: Option<&str>) -> Self {
        let place = native(&json!({}));
        let args = [
            json!("-c"),
            json!(DOUBLE_FORK.replace('$', "$$")),
            json!(place.beside("pids")),
            json!(program().unwrap()),
            json!(Script::default().to_json()),
        ];
        let file = json!({"version": 1, "servers": {"s": {"command": "/bin/sh", "args": args}}});
        let place = place.file("toolcrib.yaml", &file.to_string());
        let cgroup = cgroup.map(|it| it.replace("TMP", &place.beside("").display().to_string()));
        Self { place, cgroup, _own: None }
    }

    fn host(&self) -> Child {
        let mut command = self.place.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.env(PATH.0, PATH.1).envs(self.cgroup.as_ref().map(|it| ("TOOLCRIB_CGROUP", it)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// What `doctor` says of processes. It is a start of a host, too.
    fn doctor(&self) -> Value {
        let more = self.cgroup.as_ref().map(|it| ("TOOLCRIB_CGROUP", it.as_str()));
        let env: Vec<_> = [PATH].into_iter().chain(more).collect();
        let ran = self.place.run_with(&["doctor", "--json"], &env);
        assert_eq!(ran.code, 0, "{ran:?}");
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        report["processes"].clone()
    }

    /// The grandchildren that have begun since this was last asked, when there are as many as expected.
    fn grandchildren(&self, count: usize) -> Vec<u32> {
        let file = self.place.beside("pids");
        let pids = || -> Vec<u32> {
            let text = fs::read_to_string(&file).unwrap_or_default();
            text.lines().map(|line| line.parse().unwrap()).collect()
        };
        until("the grandchildren have begun", || pids().len() >= count);
        let found = pids();
        fs::remove_file(file).unwrap();
        found
    }

    /// The folder of the running host's cgroup, as its ledger has it.
    fn cgroup_of_host(&self) -> Option<PathBuf> {
        let user = self.place.home().join(".local/state/toolcrib");
        let states = fs::read_dir(user).unwrap().map(|entry| entry.unwrap().path().join("ledger"));
        let ledgers = states.filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let texts = ledgers.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        let lines: Vec<String> =
            texts.flat_map(|text| text.lines().next().map(str::to_owned)).collect();
        let line: Value = serde_json::from_str(&lines[0]).unwrap();
        line["cgroup"].as_str().map(PathBuf::from)
    }
}

fn end(mut host: Child, signal: Signal) {
    kill_process(Pid::from_raw(host.id().try_into().unwrap()).unwrap(), signal).unwrap();
    host.wait().unwrap();
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// Both ends of a host, and what `doctor` says holds; `None` where that depends on the machine.
fn check(cgroup: Option<&str>, guarantee: Option<&str>) {
    let scene = Scene::new(cgroup);
    let said = scene.doctor();
    if let Some(guarantee) = guarantee {
        assert_eq!(said["guarantee"], guarantee, "{said}");
        assert!(said["why"].is_string(), "{said}");
    }
    assert_eq!(said["all_end_with_host"], true, "{said}");
    assert!(!scene.grandchildren(1).iter().any(|pid| is_alive(*pid)), "{said}");

    let host = scene.host();
    let ended = scene.grandchildren(1)[0];
    assert!(is_alive(ended));
    let folder = scene.cgroup_of_host().filter(|_| said["guarantee"] == "cgroup");
    assert!(folder.as_deref().is_none_or(Path::is_dir), "{folder:?}");
    end(host, Signal::TERM);
    assert!(!is_alive(ended), "{said}");
    assert!(!folder.is_some_and(|folder| folder.exists()));

    let host = scene.host();
    let killed = scene.grandchildren(1)[0];
    let folder = scene.cgroup_of_host().filter(|_| said["guarantee"] == "cgroup");
    end(host, Signal::KILL);
    assert!(is_alive(killed), "it needs the next start");
    assert_eq!(scene.doctor(), said);
    let is_left = is_alive(killed);
    if is_left {
        kill(killed);
    }
    assert_eq!(said["all_end_after_kill"], !is_left, "{said}");
    assert_eq!(said["text"].as_str().unwrap().contains("stays"), is_left, "{said}");
    assert!(!folder.is_some_and(|folder| folder.exists()));
    assert!(!scene.grandchildren(1).iter().any(|pid| is_alive(*pid)), "{said}");
}

#[test]
fn double_forked_grandchildren_end_with_the_host_as_doctor_says() {
    check(None, None);
}

#[test]
fn double_forked_grandchildren_end_with_the_host_where_cgroups_are_off() {
    check(Some("off"), Some("subreaper"));
}

#[test]
fn double_forked_grandchildren_end_with_the_host_where_no_cgroup_can_be_made() {
    check(Some("TMP"), Some("subreaper"));
    check(Some("TMP/nothing-here"), Some("subreaper"));
}

#[test]
fn double_forked_grandchildren_of_a_killed_host_end_although_its_state_folder_was_deleted() {
    let scene = Scene::new(None);
    let neighbour = Scene::below(scene.cgroup.as_deref());
    let living = neighbour.host();
    let kept = neighbour.grandchildren(1)[0];
    let host = scene.host();
    let orphan = scene.grandchildren(1)[0];
    end(host, Signal::KILL);
    fs::remove_dir_all(scene.place.home().join(".local/state/toolcrib")).unwrap();
    assert!(is_alive(orphan), "it needs the next start");
    // The start of any host below the same cgroup.
    let next = Scene::below(scene.cgroup.as_deref());
    let said = next.doctor();
    next.grandchildren(1);
    let is_left = is_alive(orphan);
    if is_left {
        kill(orphan);
    }
    assert_eq!(said["all_end_after_kill"], !is_left, "{said}");
    assert!(is_alive(kept), "a living host's");
    end(living, Signal::TERM);
    assert!(!is_alive(kept));
}

/// Two servers: the orphan of the one that ends may be the other's, so it ends at the latest with the host.
#[test]
fn an_adopted_orphan_ends_with_the_host_and_nobody_elses_process_does() {
    let scene = Scene::new(Some("off"));
    let file: Value = serde_json::from_str(&scene.place.read("toolcrib.yaml")).unwrap();
    let mut servers = file["servers"].clone();
    servers["other"] = servers["s"].clone();
    let text = json!({"version": 1, "servers": servers}).to_string();
    let scene = Scene { place: scene.place.file("toolcrib.yaml", &text), ..scene };
    let mut bystander = std::process::Command::new("sleep").arg("7777").spawn().unwrap();
    let host = scene.host();
    let grandchildren = scene.grandchildren(2);
    assert!(grandchildren.iter().all(|pid| is_alive(*pid)));
    end(host, Signal::TERM);
    assert!(!grandchildren.iter().any(|pid| is_alive(*pid)));
    assert!(is_alive(bystander.id()));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

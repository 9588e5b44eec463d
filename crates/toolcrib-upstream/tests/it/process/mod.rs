//! Children on a real system: shells and small programs, known by their pids, each wait with a limit.

mod reap;
mod spawn;
mod stop;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use toolcrib_upstream::process::{Graces, Instance, InstanceId, Launch};

/// Generous, because it only bounds a failure.
const LIMIT: Duration = Duration::from_secs(20);

/// A script file: notes its pid under the given name, whole or not at all, and then obeys nobody.
const STUBBORN: &str = "trap '' TERM HUP; echo $$ > .$1 && mv .$1 $1; while :; do sleep 600; done";

/// A script that starts a stubborn grandchild in its group and one that leaves it, and waits for them.
const GRANDCHILDREN: &str = "sh ./stubborn member & setsid sh ./stubborn stray & wait";

/// A host instance with a state folder of its own, and a folder in which children leave notes.
struct Scene {
    instance: Instance,
    state: TempDir,
    notes: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let instance = Instance::open(state.path()).unwrap();
        let notes = notes(state.path());
        fs::create_dir(&notes).unwrap();
        fs::write(notes.join("stubborn"), STUBBORN).unwrap();
        Self { instance, state, notes }
    }

    /// A shell script that runs in the folder for notes. The shell is the test's choice, not the product's.
    fn script(&self, script: &str) -> Launch {
        shell(script, &self.notes)
    }

    fn ledgers(&self) -> usize {
        ledgers(self.state.path())
    }
}

fn notes(state: &Path) -> PathBuf {
    state.join("notes")
}

fn shell(script: &str, cwd: &Path) -> Launch {
    let mut launch = Launch::new("/bin/sh", cwd);
    launch.args = vec!["-c".into(), script.into()];
    launch.env = BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]);
    launch.graces = patient();
    launch
}

/// Graces that no well-behaved child uses up, not even on a busy machine.
fn patient() -> Graces {
    Graces { close: LIMIT, terminate: LIMIT, kill: LIMIT }
}

/// Graces for children that do not obey anyway.
fn hasty() -> Graces {
    let moment = Duration::from_millis(50);
    Graces { close: moment, terminate: moment, kill: LIMIT }
}

fn ledgers(state: &Path) -> usize {
    fs::read_dir(state.join("ledger")).unwrap().count()
}

fn noted_pid(folder: &Path, name: &str) -> u32 {
    let file = folder.join(name);
    eventually(name, || file.exists());
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// A process that can still do something: a zombie cannot.
fn alive(pid: u32) -> bool {
    stat_fields(pid).is_some_and(|fields| fields[0] != "Z")
}

/// Not even a zombie is left.
fn vanished(pid: u32) -> bool {
    stat_fields(pid).is_none()
}

fn group_of(pid: u32) -> u32 {
    stat_fields(pid).unwrap()[2].parse().unwrap()
}

fn start_of(pid: u32) -> u64 {
    stat_fields(pid).unwrap()[19].parse().unwrap()
}

/// The fields of `/proc/<pid>/stat` after the name; the first is the state.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Everything that carries a mark of this instance.
fn marked(instance: InstanceId) -> Vec<String> {
    let mark = format!("TOOLCRIB_OWNER={instance}:").into_bytes();
    let carries = |pid: &String| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.windows(mark.len()).any(|part| part == mark))
    };
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).filter(carries).collect()
}

/// Looks until it is so. A sleep is the only way to wait for what another process does.
fn eventually(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

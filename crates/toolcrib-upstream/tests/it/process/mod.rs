//! Tests of child processes with real shells and programs, identified by pid. Every wait has a timeout.

mod reap;
mod spawn;
mod stop;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use toolcrib_upstream::process::{GracePeriods, HostInstanceId, Instance, LaunchSpec};

/// Generous, because it only bounds failures.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A script that atomically writes its pid to the file `$1` and then ignores SIGTERM and SIGHUP.
const STUBBORN_SCRIPT: &str =
    "trap '' TERM HUP; echo $$ > .$1 && mv .$1 $1; while :; do sleep 600; done";

/// A script that starts one stubborn grandchild in its group and one outside of it, and waits for both.
const GRANDCHILDREN_SCRIPT: &str = "sh ./stubborn member & setsid sh ./stubborn stray & wait";

/// An instance with its own state folder, and a folder for files that children write.
struct ProcessFixture {
    instance: Instance,
    state: TempDir,
    notes: PathBuf,
}

impl ProcessFixture {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let instance = Instance::open(state.path()).unwrap();
        let notes = notes(state.path());
        fs::create_dir(&notes).unwrap();
        fs::write(notes.join("stubborn"), STUBBORN_SCRIPT).unwrap();
        Self { instance, state, notes }
    }

    /// Launches a shell script in the notes folder. The test chooses the shell, not the product.
    fn script(&self, script: &str) -> LaunchSpec {
        shell(script, &self.notes)
    }

    fn ledger_count(&self) -> usize {
        ledger_count(self.state.path())
    }
}

fn notes(state: &Path) -> PathBuf {
    state.join("notes")
}

fn shell(script: &str, cwd: &Path) -> LaunchSpec {
    let mut launch = LaunchSpec::new("/bin/sh", cwd);
    launch.args = vec!["-c".into(), script.into()];
    launch.env = BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]);
    launch.graces = long_grace_periods();
    launch
}

/// Grace periods that no well-behaved child exceeds, even on a busy machine.
fn long_grace_periods() -> GracePeriods {
    GracePeriods { close: TEST_TIMEOUT, terminate: TEST_TIMEOUT, kill: TEST_TIMEOUT }
}

/// Short grace periods, for children that ignore them anyway.
fn short_grace_periods() -> GracePeriods {
    let moment = Duration::from_millis(50);
    GracePeriods { close: moment, terminate: moment, kill: TEST_TIMEOUT }
}

fn ledger_count(state: &Path) -> usize {
    fs::read_dir(state.join("ledger")).unwrap().count()
}

fn recorded_pid(folder: &Path, name: &str) -> u32 {
    let file = folder.join(name);
    wait_until(name, || file.exists());
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// Returns whether the process runs. A zombie does not.
fn is_alive(pid: u32) -> bool {
    stat_fields(pid).is_some_and(|fields| fields[0] != "Z")
}

/// Returns whether the process is gone, including its zombie.
fn is_reaped(pid: u32) -> bool {
    stat_fields(pid).is_none()
}

fn process_group(pid: u32) -> u32 {
    stat_fields(pid).unwrap()[2].parse().unwrap()
}

fn start_time(pid: u32) -> u64 {
    stat_fields(pid).unwrap()[19].parse().unwrap()
}

/// The fields of `/proc/<pid>/stat` after the name. The first one is the state.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Pids of all processes with an owner mark of this instance.
fn marked_processes(instance: HostInstanceId) -> Vec<String> {
    let mark = format!("TOOLCRIB_OWNER={instance}:").into_bytes();
    let carries = |pid: &String| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.windows(mark.len()).any(|part| part == mark))
    };
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).filter(carries).collect()
}

/// Polls until the condition holds. Polling is the only way to wait for other processes.
fn wait_until(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !so() {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

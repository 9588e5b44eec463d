//! Tests of reaping: orphans of a killed host end, other processes survive.

use std::fs;
use std::io;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use toolcrib_testkit::cgroup::TestCgroup;
use toolcrib_upstream::process::{
    CgroupParent, Containment, Instance, OWNER_VARIABLE, Orphan, OwnershipProof, ReapReport, reap,
    reap_cgroups,
};

use super::{
    GRANDCHILDREN_SCRIPT, ProcessFixture, TEST_TIMEOUT, is_alive, ledger_count, notes,
    recorded_pid, shell, start_time, wait_until,
};

/// Environment variable that makes the test binary act as a host with this state folder.
const HOST_STATE: &str = "TOOLCRIB_TEST_HOST_STATE";

/// File in the state folder with the scripts that the host starts, one per line.
const SCRIPTS: &str = "scripts";

/// File in the state folder with the parent of the host's cgroup. Without the file the host uses no cgroup.
const CGROUP: &str = "cgroup";

const PLAIN_SCRIPT: &str = "echo $$ > .plain && mv .plain plain; exec sleep 600";

/// Its leader has cleared its parent-death signal, as a set-uid program would.
const DETACHED_SCRIPT: &str = "exec setpriv --pdeathsig clear sh ./stubborn detached";

/// Its leader has also removed its owner mark, so that only the ledger identifies it.
const UNMARKED_SCRIPT: &str =
    "exec env -u TOOLCRIB_OWNER setpriv --pdeathsig clear sh ./stubborn elusive";

#[tokio::test]
async fn reap_kills_orphans_of_a_killed_host_and_spares_live_hosts() {
    let fixture = ProcessFixture::new();
    let neighbour = fixture.instance.spawn(fixture.script("exec cat")).await.unwrap();
    let host = HostProcess::start(&fixture, &[PLAIN_SCRIPT, GRANDCHILDREN_SCRIPT, UNMARKED_SCRIPT]);
    let pid = |name| recorded_pid(&fixture.notes, name);
    let (plain, orphans) = (pid("plain"), ["member", "stray", "elusive"].map(pid));
    wait_until("the ledger records them", || recorded_leaders(&fixture) == 4);
    assert_eq!(fixture.ledger_count(), 2);

    let _cgroup = host.kill();
    wait_until("the leader exits with its host", || !is_alive(plain));
    assert!(orphans.iter().all(|pid| is_alive(*pid)), "these need a reaper: {orphans:?}");

    let reaped = reap(fixture.state.path(), TEST_TIMEOUT).unwrap();
    assert!(!orphans.iter().any(|pid| is_alive(*pid)), "{orphans:?}");
    let proofs = orphans.map(|pid| find_killed(&reaped, pid).map(|orphan| orphan.proof));
    assert_eq!(
        proofs,
        [Some(OwnershipProof::Mark), Some(OwnershipProof::Mark), Some(OwnershipProof::Leader)]
    );
    assert!(reaped.killed.iter().all(|orphan| orphan.program.as_deref() == Some("sh")));
    assert!(reaped.remaining.is_empty() && reaped.notes.is_empty(), "{reaped:?}");

    assert!(is_alive(neighbour.pid()));
    assert_eq!((reaped.live_ledgers, fixture.ledger_count()), (1, 1));
}

#[tokio::test]
async fn reap_cleans_up_after_a_host_killed_at_any_moment() {
    let fixture = ProcessFixture::new();
    for round in 0..20 {
        let host =
            HostProcess::start(&fixture, &[PLAIN_SCRIPT, GRANDCHILDREN_SCRIPT, DETACHED_SCRIPT]);
        wait_until("the host has created its ledger", || fixture.ledger_count() == 2);
        // Hits different moments of the three spawns, including the first one.
        thread::sleep(Duration::from_millis(round));
        let _cgroup = host.kill();
        let reaped = reap(fixture.state.path(), TEST_TIMEOUT).unwrap();
        assert!(reaped.remaining.is_empty() && reaped.notes.is_empty(), "{reaped:?}");
        assert_eq!(fixture.ledger_count(), 1, "round {round}");
        // A child before its `execve` is dying, but the reaper does not wait for it.
        wait_until("no process is left", || processes_in_folder(&fixture.notes).is_empty());
    }
}

#[tokio::test]
async fn reap_cgroups_works_without_ledgers_and_spares_live_hosts() {
    let (fixture, other) = (ProcessFixture::new(), ProcessFixture::new());
    let host = HostProcess::start(&fixture, &[GRANDCHILDREN_SCRIPT, UNMARKED_SCRIPT]);
    let pids = ["member", "stray", "elusive"].map(|name| recorded_pid(&fixture.notes, name));
    let place = containment(fixture.state.path());
    if place.cgroup == CgroupParent::Never {
        // This machine has no cgroups for tests, so the reaper must find nothing.
        assert!(reap_cgroups(&place, TEST_TIMEOUT).killed.is_empty());
        return;
    }
    let living = Instance::open_with(other.state.path(), &place).unwrap();
    let neighbour = living.spawn(other.script("exec cat")).await.unwrap();
    let reaped = reap_cgroups(&place, TEST_TIMEOUT);
    assert!(reaped.killed.is_empty() && pids.iter().all(|pid| is_alive(*pid)), "{reaped:?}");

    let _cgroup = host.kill();
    fs::remove_dir_all(fixture.state.path().join("ledger")).unwrap();
    let reaped = reap_cgroups(&place, TEST_TIMEOUT);
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "{reaped:?}");
    assert!(pids.iter().all(|pid| find_killed(&reaped, *pid).is_some()), "{reaped:?}");
    assert!(reaped.remaining.is_empty() && reaped.notes.is_empty(), "{reaped:?}");
    assert!(is_alive(neighbour.pid()), "a child of a live host");
    assert!(reap_cgroups(&place, TEST_TIMEOUT).killed.is_empty(), "nothing is left to do");
    living.close().await;
}

/// Entry point of the host process that other tests start and kill. Run as a test, it checks their
/// assumption: the ledger exists while the host runs and is removed by a clean close.
#[tokio::test]
async fn host_entry_point() {
    #[allow(clippy::disallowed_methods, reason = "environment variables configure the test binary")]
    let Some(state) = std::env::var_os(HOST_STATE).map(PathBuf::from) else {
        let folder = DeadHostFolder::new();
        let instance = Instance::open(folder.path()).unwrap();
        assert_eq!(ledger_count(folder.path()), 1);
        instance.close().await;
        assert_eq!(ledger_count(folder.path()), 0);
        return;
    };
    let instance = Instance::open_with(&state, &containment(&state)).unwrap();
    let mut children = Vec::new();
    for script in fs::read_to_string(state.join(SCRIPTS)).unwrap().lines() {
        children.push(instance.spawn(shell(script, &notes(&state))).await.unwrap());
    }
    // Longer than any test, but bounded.
    tokio::time::sleep(3 * TEST_TIMEOUT).await;
}

#[test]
fn reap_spares_recycled_pids() {
    let folder = DeadHostFolder::new();
    let bystander = Bystander::unmarked();
    let start = start_time(bystander.pid());

    folder.ledger(1).started(bystander.pid(), start - 1).write();
    let reaped = reap(folder.path(), TEST_TIMEOUT).unwrap();
    assert!(reaped.killed.is_empty() && is_alive(bystander.pid()), "{reaped:?}");
    assert_eq!(ledger_count(folder.path()), 0);

    // With the correct start time the process is killed, so the check above is effective.
    folder.ledger(1).started(bystander.pid(), start).write();
    let reaped = reap(folder.path(), TEST_TIMEOUT).unwrap();
    assert_eq!(
        find_killed(&reaped, bystander.pid()).map(|orphan| orphan.proof),
        Some(OwnershipProof::Leader)
    );
    assert!(!is_alive(bystander.pid()));
}

#[test]
fn reap_finds_children_without_a_recorded_pid_by_mark() {
    let folder = DeadHostFolder::new();
    let (ours, neighbours) = (folder.marked(1), folder.marked(2));
    folder.ledger(1).intent().write();
    let reaped = reap(folder.path(), TEST_TIMEOUT).unwrap();
    assert_eq!(
        find_killed(&reaped, ours.pid()).map(|orphan| orphan.proof),
        Some(OwnershipProof::Mark)
    );
    assert_eq!(reaped.killed.len(), 1);
    assert!(!is_alive(ours.pid()) && is_alive(neighbours.pid()));
}

#[test]
fn reap_finds_processes_that_exec_repeatedly() {
    let folder = DeadHostFolder::new();
    let script = folder.path().join("restless");
    fs::write(&script, "exec sh \"$0\"").unwrap();
    // In the middle of `execve` the process shows no mark. A single scan would miss some rounds.
    for _ in 0..30 {
        let restless = folder.spawn(1, Command::new("sh").arg(&script));
        folder.ledger(1).intent().write();
        reap(folder.path(), TEST_TIMEOUT).unwrap();
        assert!(!is_alive(restless.pid()));
    }
}

#[test]
fn damaged_ledger_lines_are_skipped_with_a_note() {
    let folder = DeadHostFolder::new();
    let orphan = Bystander::unmarked();
    let ledger = folder.ledger(1).line("{\"kind\":\"sta").line("\u{0}\u{0}\u{0}");
    ledger.started(orphan.pid(), start_time(orphan.pid())).write();
    let reaped = reap(folder.path(), TEST_TIMEOUT).unwrap();
    assert!(find_killed(&reaped, orphan.pid()).is_some());
    assert!(matches!(&reaped.notes[..], [note] if note.contains("2 damaged lines")), "{reaped:?}");
    assert_eq!(ledger_count(folder.path()), 0);
}

#[test]
fn ledger_of_a_newer_version_stays() {
    let folder = DeadHostFolder::new();
    let owner = folder.owner(1);
    folder.ledger(1).line(&format!("{{\"kind\":\"new\",\"owner\":\"{owner}\"}}")).write();
    let file = folder.path().join("ledger").join(folder.file_name(1));
    let before = fs::read(&file).unwrap();
    let reaped = reap(folder.path(), TEST_TIMEOUT).unwrap();
    assert!(
        matches!(&reaped.notes[..], [note] if note.ends_with("stays: a newer version wrote it")),
        "{reaped:?}"
    );
    assert_eq!(ledger_count(folder.path()), 1);
    assert!(fs::read(&file).unwrap() == before);
}

#[test]
fn foreign_ledger_files_are_ignored() {
    let state = DeadHostFolder::new();
    let orphan = Bystander::unmarked();
    let text = state.ledger(1).started(orphan.pid(), start_time(orphan.pid())).text;
    let folder = state.path().join("ledger");
    fs::write(state.path().join("elsewhere"), &text).unwrap();
    symlink(state.path().join("elsewhere"), folder.join(state.file_name(1))).unwrap();
    fs::write(folder.join("notes.txt"), &text).unwrap();
    let foreign = folder.join(state.file_name(2));
    fs::write(&foreign, &text).unwrap();
    // Only root can change the owner. Otherwise the file is an ordinary ledger without live entries.
    let given_away = chown(&foreign, Some(4242), None).is_ok();

    let reaped = reap(state.path(), TEST_TIMEOUT).unwrap();
    assert!(reaped.killed.is_empty() && is_alive(orphan.pid()), "{reaped:?}");
    assert_eq!(ledger_count(state.path()), if given_away { 3 } else { 2 });
}

#[test]
fn concurrent_reaps_do_not_conflict() {
    let folder = DeadHostFolder::new();
    let orphans: Vec<Bystander> = (1..=8).map(|number| folder.marked(number)).collect();
    for number in 1..=8 {
        folder.ledger(number).intent().write();
    }
    thread::scope(|scope| {
        let reapers = [(); 2].map(|()| scope.spawn(|| reap(folder.path(), TEST_TIMEOUT).unwrap()));
        for reaped in reapers.map(|reaper| reaper.join().unwrap()) {
            assert!(reaped.remaining.is_empty() && reaped.notes.is_empty(), "{reaped:?}");
        }
    });
    assert!(!orphans.iter().any(|orphan| is_alive(orphan.pid())));
    assert_eq!(ledger_count(folder.path()), 0);
}

#[test]
fn reap_of_an_unused_folder_succeeds() {
    let folder = DeadHostFolder::new();
    let reaped = reap(&folder.path().join("never used"), TEST_TIMEOUT).unwrap();
    assert!(reaped.killed.is_empty() && reaped.notes.is_empty());
}

/// Counts recorded leaders in all ledgers.
fn recorded_leaders(fixture: &ProcessFixture) -> usize {
    let files = fs::read_dir(fixture.state.path().join("ledger")).unwrap();
    let text = |file: io::Result<fs::DirEntry>| fs::read_to_string(file.unwrap().path()).unwrap();
    files.map(|file| text(file).matches("\"started\"").count()).sum()
}

fn find_killed(reaped: &ReapReport, pid: u32) -> Option<&Orphan> {
    reaped.killed.iter().find(|orphan| orphan.pid == pid)
}

/// Running processes whose working directory is the folder. A child of a test cannot hide its directory.
fn processes_in_folder(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().unwrap();
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let pids = names.filter_map(|name| name.into_string().ok());
    pids.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder))
        .collect()
}

/// Another host on the same state folder: this test binary, run as [`host_entry_point`].
struct HostProcess(Child, Option<TestCgroup>);

/// Containment of a host with this state folder.
fn containment(state: &Path) -> Containment {
    let cgroup = match fs::read_to_string(state.join(CGROUP)) {
        Ok(folder) => CgroupParent::Folder(folder.into()),
        Err(_) => CgroupParent::Never,
    };
    Containment { cgroup, adopt_orphans: false }
}

impl HostProcess {
    fn start(fixture: &ProcessFixture, scripts: &[&str]) -> Self {
        let state = fixture.state.path();
        fs::write(state.join(SCRIPTS), scripts.join("\n")).unwrap();
        let cgroup = TestCgroup::create();
        if let Some(cgroup) = &cgroup {
            fs::write(state.join(CGROUP), cgroup.path().to_str().unwrap()).unwrap();
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process::reap::host_entry_point", "--nocapture"]);
        command.env(HOST_STATE, state).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap(), cgroup)
    }

    /// Sends SIGKILL on drop. Dropping the returned cgroup removes it after its members have exited.
    fn kill(mut self) -> Option<TestCgroup> {
        self.1.take()
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A state folder of dead instances, numbered from 1.
struct DeadHostFolder {
    state: TempDir,
    /// Keeps the owner marks of parallel tests apart.
    number: u32,
}

impl DeadHostFolder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(state.path().join("ledger")).unwrap();
        Self { state, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    fn path(&self) -> &Path {
        self.state.path()
    }

    fn instance(&self, number: u8) -> String {
        format!("{:08x}{:08x}{number:016x}", std::process::id(), self.number)
    }

    fn owner(&self, number: u8) -> String {
        format!("{}:1", self.instance(number))
    }

    fn file_name(&self, number: u8) -> String {
        format!("{}.jsonl", self.instance(number))
    }

    fn ledger(&self, number: u8) -> LedgerFile {
        let file = self.path().join("ledger").join(self.file_name(number));
        LedgerFile { file, owner: self.owner(number), text: String::new() }
    }

    fn marked(&self, number: u8) -> Bystander {
        self.spawn(number, Command::new("sleep").arg("600"))
    }

    fn spawn(&self, number: u8, command: &mut Command) -> Bystander {
        Bystander(command.env(OWNER_VARIABLE, self.owner(number)).spawn().unwrap())
    }
}

/// A process that no instance started, even if it has an owner mark.
struct Bystander(Child);

impl Bystander {
    fn unmarked() -> Self {
        let mut command = Command::new("sleep");
        Self(command.arg("600").env_remove(OWNER_VARIABLE).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The ledger of a dead instance.
struct LedgerFile {
    file: PathBuf,
    owner: String,
    text: String,
}

impl LedgerFile {
    fn line(mut self, line: &str) -> Self {
        self.text += line;
        self.text += "\n";
        self
    }

    fn intent(self) -> Self {
        let line = format!(r#"{{"kind":"intent","owner":"{}","program":"sleep"}}"#, self.owner);
        self.line(&line)
    }

    fn started(self, pid: u32, start: u64) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let pids = fs::read_link("/proc/self/ns/pid").unwrap();
        let line = format!(
            r#"{{"kind":"started","owner":"{}","program":"sleep","pid":{pid},"start":{start},"boot":"{}","pids":"{}"}}"#,
            self.owner,
            boot.trim(),
            pids.display(),
        );
        self.line(&line)
    }

    fn write(self) {
        fs::write(self.file, self.text).unwrap();
    }
}

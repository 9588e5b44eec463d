//! The next start: what a killed host left is ended, what is somebody else's is not.

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
    CgroupParent, Containment, Instance, OWNER_VARIABLE, Orphan, Proof, Reaped, reap, reap_cgroups,
};

use super::{
    GRANDCHILDREN, LIMIT, Scene, alive, eventually, ledgers, noted_pid, notes, shell, start_of,
};

/// Tells the test binary that it is to be a host, and where.
const HOST_STATE: &str = "TOOLCRIB_TEST_HOST_STATE";

/// A file in its state folder: what the host is to start, one script a line.
const SCRIPTS: &str = "scripts";

/// A file in its state folder: below which cgroup the host makes its own; none if there is no such file.
const CGROUP: &str = "cgroup";

const PLAIN: &str = "echo $$ > .plain && mv .plain plain; exec sleep 600";

/// Its leader has shaken off the signal that comes when its host dies, as a set-uid program would.
const DETACHED: &str = "exec setpriv --pdeathsig clear sh ./stubborn detached";

/// Its leader has shaken off its mark as well: only the ledger knows it.
const ELUSIVE: &str = "exec env -u TOOLCRIB_OWNER setpriv --pdeathsig clear sh ./stubborn elusive";

#[tokio::test]
async fn what_a_killed_host_left_is_ended_and_a_neighbours_child_is_not() {
    let scene = Scene::new();
    let neighbour = scene.instance.spawn(scene.script("exec cat")).await.unwrap();
    let host = Host::start(&scene, &[PLAIN, GRANDCHILDREN, ELUSIVE]);
    let pid = |name| noted_pid(&scene.notes, name);
    let (plain, orphans) = (pid("plain"), ["member", "stray", "elusive"].map(pid));
    eventually("the ledger knows them", || noted_leaders(&scene) == 4);
    assert_eq!(scene.ledgers(), 2);

    let _cgroup = host.kill();
    eventually("a leader dies with its host", || !alive(plain));
    assert!(orphans.iter().all(|pid| alive(*pid)), "these need a reaper: {orphans:?}");

    let reaped = reap(scene.state.path(), LIMIT).unwrap();
    assert!(!orphans.iter().any(|pid| alive(*pid)), "{orphans:?}");
    let proofs = orphans.map(|pid| killed(&reaped, pid).map(|orphan| orphan.proof));
    assert_eq!(proofs, [Some(Proof::Mark), Some(Proof::Mark), Some(Proof::Leader)]);
    assert!(reaped.killed.iter().all(|orphan| orphan.program.as_deref() == Some("sh")));
    assert!(reaped.left.is_empty() && reaped.notes.is_empty(), "{reaped:?}");

    assert!(alive(neighbour.pid()));
    assert_eq!((reaped.held, scene.ledgers()), (1, 1));
}

#[tokio::test]
async fn killed_at_any_moment_a_host_leaves_nothing_after_the_next_start() {
    let scene = Scene::new();
    for round in 0..20 {
        let host = Host::start(&scene, &[PLAIN, GRANDCHILDREN, DETACHED]);
        eventually("the host has begun", || scene.ledgers() == 2);
        // Different moments of its three spawns, the first ones included.
        thread::sleep(Duration::from_millis(round));
        let _cgroup = host.kill();
        let reaped = reap(scene.state.path(), LIMIT).unwrap();
        assert!(reaped.left.is_empty() && reaped.notes.is_empty(), "{reaped:?}");
        assert_eq!(scene.ledgers(), 1, "round {round}");
        // A child that had not yet become its program is dying, but nobody waits for it.
        eventually("nobody is left", || in_folder(&scene.notes).is_empty());
    }
}

#[tokio::test]
async fn cgroups_of_a_killed_host_are_emptied_without_its_ledger_and_those_of_living_hosts_are_not()
{
    let (scene, other) = (Scene::new(), Scene::new());
    let host = Host::start(&scene, &[GRANDCHILDREN, ELUSIVE]);
    let pids = ["member", "stray", "elusive"].map(|name| noted_pid(&scene.notes, name));
    let place = containment(scene.state.path());
    if place.cgroup == CgroupParent::Never {
        // This machine has no cgroups for tests: nothing may be found then.
        assert!(reap_cgroups(&place, LIMIT).killed.is_empty());
        return;
    }
    let living = Instance::open_with(other.state.path(), &place).unwrap();
    let neighbour = living.spawn(other.script("exec cat")).await.unwrap();
    let reaped = reap_cgroups(&place, LIMIT);
    assert!(reaped.killed.is_empty() && pids.iter().all(|pid| alive(*pid)), "{reaped:?}");

    let _cgroup = host.kill();
    fs::remove_dir_all(scene.state.path().join("ledger")).unwrap();
    let reaped = reap_cgroups(&place, LIMIT);
    assert!(!pids.iter().any(|pid| alive(*pid)), "{reaped:?}");
    assert!(pids.iter().all(|pid| killed(&reaped, *pid).is_some()), "{reaped:?}");
    assert!(reaped.left.is_empty() && reaped.notes.is_empty(), "{reaped:?}");
    assert!(alive(neighbour.pid()), "a living host's child");
    assert!(reap_cgroups(&place, LIMIT).killed.is_empty(), "nothing is left to do");
    living.close().await;
}

/// The host that other tests start in a process of its own, and kill. Started by nobody, it shows
/// what they rely on: its ledger is there while it lives and gone after an orderly end.
#[tokio::test]
async fn host() {
    #[allow(clippy::disallowed_methods, reason = "the one way to tell a test binary something")]
    let Some(state) = std::env::var_os(HOST_STATE).map(PathBuf::from) else {
        let past = Past::new();
        let instance = Instance::open(past.path()).unwrap();
        assert_eq!(ledgers(past.path()), 1);
        instance.close().await;
        assert_eq!(ledgers(past.path()), 0);
        return;
    };
    let instance = Instance::open_with(&state, &containment(&state)).unwrap();
    let mut children = Vec::new();
    for script in fs::read_to_string(state.join(SCRIPTS)).unwrap().lines() {
        children.push(instance.spawn(shell(script, &notes(&state))).await.unwrap());
    }
    // Longer than any test, shorter than for ever.
    tokio::time::sleep(3 * LIMIT).await;
}

#[test]
fn a_pid_that_has_passed_to_another_process_is_left_alone() {
    let past = Past::new();
    let bystander = Bystander::unmarked();
    let start = start_of(bystander.pid());

    past.ledger(1).started(bystander.pid(), start - 1).write();
    let reaped = reap(past.path(), LIMIT).unwrap();
    assert!(reaped.killed.is_empty() && alive(bystander.pid()), "{reaped:?}");
    assert_eq!(ledgers(past.path()), 0);

    // With its true start time it is killed: the test above would notice.
    past.ledger(1).started(bystander.pid(), start).write();
    let reaped = reap(past.path(), LIMIT).unwrap();
    assert_eq!(killed(&reaped, bystander.pid()).map(|orphan| orphan.proof), Some(Proof::Leader));
    assert!(!alive(bystander.pid()));
}

#[test]
fn a_child_whose_pid_was_never_noted_is_found_by_its_mark() {
    let past = Past::new();
    let (ours, neighbours) = (past.marked(1), past.marked(2));
    past.ledger(1).intent().write();
    let reaped = reap(past.path(), LIMIT).unwrap();
    assert_eq!(killed(&reaped, ours.pid()).map(|orphan| orphan.proof), Some(Proof::Mark));
    assert_eq!(reaped.killed.len(), 1);
    assert!(!alive(ours.pid()) && alive(neighbours.pid()));
}

#[test]
fn a_process_that_runs_one_program_after_another_is_found() {
    let past = Past::new();
    let script = past.path().join("restless");
    fs::write(&script, "exec sh \"$0\"").unwrap();
    // In the middle of `execve` it shows no mark; a single look would miss some of these.
    for _ in 0..30 {
        let restless = past.spawn(1, Command::new("sh").arg(&script));
        past.ledger(1).intent().write();
        reap(past.path(), LIMIT).unwrap();
        assert!(!alive(restless.pid()));
    }
}

#[test]
fn damaged_lines_are_skipped_with_a_note() {
    let past = Past::new();
    let orphan = Bystander::unmarked();
    let ledger = past.ledger(1).line("{\"kind\":\"sta").line("\u{0}\u{0}\u{0}");
    ledger.started(orphan.pid(), start_of(orphan.pid())).write();
    let reaped = reap(past.path(), LIMIT).unwrap();
    assert!(killed(&reaped, orphan.pid()).is_some());
    assert!(matches!(&reaped.notes[..], [note] if note.contains("2 damaged lines")), "{reaped:?}");
    assert_eq!(ledgers(past.path()), 0);
}

#[test]
fn a_ledger_of_a_newer_version_stays() {
    let past = Past::new();
    let owner = past.owner(1);
    past.ledger(1).line(&format!("{{\"kind\":\"new\",\"owner\":\"{owner}\"}}")).write();
    let reaped = reap(past.path(), LIMIT).unwrap();
    assert_eq!((reaped.notes.len(), ledgers(past.path())), (1, 1));
}

#[test]
fn what_is_not_this_users_ledger_is_left_alone() {
    let past = Past::new();
    let orphan = Bystander::unmarked();
    let text = past.ledger(1).started(orphan.pid(), start_of(orphan.pid())).text;
    let folder = past.path().join("ledger");
    fs::write(past.path().join("elsewhere"), &text).unwrap();
    symlink(past.path().join("elsewhere"), folder.join(past.file_name(1))).unwrap();
    fs::write(folder.join("notes.txt"), &text).unwrap();
    let foreign = folder.join(past.file_name(2));
    fs::write(&foreign, &text).unwrap();
    // Only root can give a file away; without, the file is an ordinary ledger with nothing of its own.
    let given_away = chown(&foreign, Some(4242), None).is_ok();

    let reaped = reap(past.path(), LIMIT).unwrap();
    assert!(reaped.killed.is_empty() && alive(orphan.pid()), "{reaped:?}");
    assert_eq!(ledgers(past.path()), if given_away { 3 } else { 2 });
}

#[test]
fn two_reapers_at_once_do_no_harm() {
    let past = Past::new();
    let orphans: Vec<Bystander> = (1..=8).map(|number| past.marked(number)).collect();
    for number in 1..=8 {
        past.ledger(number).intent().write();
    }
    thread::scope(|scope| {
        let reapers = [(); 2].map(|()| scope.spawn(|| reap(past.path(), LIMIT).unwrap()));
        for reaped in reapers.map(|reaper| reaper.join().unwrap()) {
            assert!(reaped.left.is_empty() && reaped.notes.is_empty(), "{reaped:?}");
        }
    });
    assert!(!orphans.iter().any(|orphan| alive(orphan.pid())));
    assert_eq!(ledgers(past.path()), 0);
}

#[test]
fn nothing_to_reap_is_no_error() {
    let past = Past::new();
    let reaped = reap(&past.path().join("never used"), LIMIT).unwrap();
    assert!(reaped.killed.is_empty() && reaped.notes.is_empty());
}

/// In all ledgers of the scene.
fn noted_leaders(scene: &Scene) -> usize {
    let files = fs::read_dir(scene.state.path().join("ledger")).unwrap();
    let text = |file: io::Result<fs::DirEntry>| fs::read_to_string(file.unwrap().path()).unwrap();
    files.map(|file| text(file).matches("\"started\"").count()).sum()
}

fn killed(reaped: &Reaped, pid: u32) -> Option<&Orphan> {
    reaped.killed.iter().find(|orphan| orphan.pid == pid)
}

/// Living processes whose working directory is the folder: no child of a test can hide that.
fn in_folder(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().unwrap();
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let pids = names.filter_map(|name| name.into_string().ok());
    pids.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder))
        .collect()
}

/// Another host on the same state folder: this test binary, run as [`host`].
struct Host(Child, Option<TestCgroup>);

/// Where a host in this state folder puts its children.
fn containment(state: &Path) -> Containment {
    let cgroup = match fs::read_to_string(state.join(CGROUP)) {
        Ok(folder) => CgroupParent::Folder(folder.into()),
        Err(_) => CgroupParent::Never,
    };
    Containment { cgroup, adopt_orphans: false }
}

impl Host {
    fn start(scene: &Scene, scripts: &[&str]) -> Self {
        let state = scene.state.path();
        fs::write(state.join(SCRIPTS), scripts.join("\n")).unwrap();
        let cgroup = TestCgroup::create();
        if let Some(cgroup) = &cgroup {
            fs::write(state.join(CGROUP), cgroup.path().to_str().unwrap()).unwrap();
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process::reap::host", "--nocapture"]);
        command.env(HOST_STATE, state).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap(), cgroup)
    }

    /// SIGKILL. The cgroup is removed when it is dropped, after its members have ended.
    fn kill(mut self) -> Option<TestCgroup> {
        self.1.take()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A state folder that dead instances have used, numbered from 1.
struct Past {
    state: TempDir,
    /// No test meets another one's marks, however they are run.
    number: u32,
}

impl Past {
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

    fn ledger(&self, number: u8) -> Ledger {
        let file = self.path().join("ledger").join(self.file_name(number));
        Ledger { file, owner: self.owner(number), text: String::new() }
    }

    fn marked(&self, number: u8) -> Bystander {
        self.spawn(number, Command::new("sleep").arg("600"))
    }

    fn spawn(&self, number: u8, command: &mut Command) -> Bystander {
        Bystander(command.env(OWNER_VARIABLE, self.owner(number)).spawn().unwrap())
    }
}

/// A process that is no instance's child, even if it carries a mark.
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

/// What a dead instance wrote.
struct Ledger {
    file: PathBuf,
    owner: String,
    text: String,
}

impl Ledger {
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

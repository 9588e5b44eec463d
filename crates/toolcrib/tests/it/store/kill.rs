//! Tests that a host killed at any moment keeps acknowledged writes and a valid file.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;

/// Tells the test binary to act as a host in this state folder.
const HOST_STATE: &str = "TOOLCRIB_TEST_STORE_STATE";

/// A file in the state folder with one line per acknowledged switch.
const NOTES: &str = "acknowledged";

#[tokio::test]
async fn killed_host_keeps_acknowledged_switches() {
    let folder = folder();
    let mut known = 0;
    for round in 0..5 {
        let mut host = Killed(start(folder.path()));
        let deadline = Instant::now() + TIMEOUT;
        // The number grows in each round, so the host is killed at different moments.
        while acknowledged(folder.path()) < known + 1 + round * 7 {
            assert!(Instant::now() < deadline, "the host does not write");
            assert_eq!(host.0.try_wait().unwrap(), None, "the host ended by itself");
            // Progress of another process can only be polled.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(host);
        known = acknowledged(folder.path());
        let store = open(folder.path()).await;
        assert!(problem_codes(&store).is_empty(), "round {round}");
        let kept = store.switches("d").await.unwrap().len();
        assert!(
            kept == known || kept == known + 1,
            "round {round}: {known} acknowledged, {kept} stored"
        );
        // One switch may have been written without its line in the notes.
        let notes = OpenOptions::new().append(true).open(folder.path().join(NOTES));
        notes.unwrap().write_all(&b"\n".repeat(kept - known)).unwrap();
        known = kept;
        assert!(store.close(TIMEOUT).await);
    }
}

/// The host that the other test starts as a process and kills. Run alone, it checks the other test's assumption that
/// each switch counts once.
#[tokio::test]
async fn host() {
    #[allow(clippy::disallowed_methods, reason = "the only way to configure a test binary")]
    let Some(state) = std::env::var_os(HOST_STATE).map(PathBuf::from) else {
        let folder = folder();
        write_switches(folder.path(), 3).await;
        assert_eq!(acknowledged(folder.path()), 3);
        assert_eq!(open(folder.path()).await.switches("d").await.unwrap().len(), 3);
        return;
    };
    write_switches(&state, 100_000).await;
}

async fn write_switches(state: &Path, count: usize) {
    let store = open(state).await;
    let mut notes = OpenOptions::new().create(true).append(true).open(state.join(NOTES)).unwrap();
    let begin = acknowledged(state);
    for i in begin..begin + count {
        store.set_switch("d", &i.to_string(), false).await.unwrap();
        notes.write_all(b"\n").unwrap();
        store.record(call("t"));
    }
}

fn acknowledged(state: &Path) -> usize {
    fs::read(state.join(NOTES)).map_or(0, |notes| notes.len())
}

fn start(state: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program)
        .args(["--exact", "store::kill::host"])
        .env(HOST_STATE, state)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills and reaps the process when the test ends in any way.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

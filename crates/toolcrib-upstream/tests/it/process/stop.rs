//! Tests of stopping: the stop sequence, dropped handles, closed instances, and no zombies.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;
use toolcrib_upstream::process::{
    Child, GracePeriods, LaunchSpec, ProcessExit, StopMethod, StopOutcome,
};

use super::{
    GRANDCHILDREN_SCRIPT, ProcessFixture, TEST_TIMEOUT, is_alive, is_reaped, long_grace_periods,
    marked_processes, recorded_pid, short_grace_periods, wait_until,
};

/// Starts a script, waits until it is ready, and stops it.
async fn check(script: &str, graces: GracePeriods, method: StopMethod, exit: ProcessExit) {
    let fixture = ProcessFixture::new();
    let launch = LaunchSpec {
        graces,
        ..fixture.script(&format!("{script}; touch ready; while :; do sleep 600; done"))
    };
    let child = fixture.instance.spawn(launch).await.unwrap();
    let pid = child.pid();
    wait_until("ready", || fixture.notes.join("ready").exists());
    assert_eq!(with_timeout(child.stop()).await, StopOutcome { method, exit, survivors: vec![] });
    assert!(is_reaped(pid), "not even a zombie is left");
}

#[tokio::test]
async fn dis_16_child_exits_by_itself_when_stdin_closes() {
    let fixture = ProcessFixture::new();
    let child =
        fixture.instance.spawn(fixture.script("cat; echo saw the end >&2; exit 7")).await.unwrap();
    let (pid, tail) = (child.pid(), child.stderr().clone());
    let ended = with_timeout(child.stop()).await;
    assert_eq!(
        ended,
        StopOutcome {
            method: StopMethod::Voluntary,
            exit: ProcessExit::Code(7),
            survivors: vec![]
        }
    );
    assert_eq!(tail.text(), "saw the end\n");
    assert!(is_reaped(pid));
}

#[tokio::test]
async fn child_ignoring_stdin_is_terminated() {
    let graces = GracePeriods { close: short_grace_periods().close, ..long_grace_periods() };
    check("true", graces, StopMethod::Terminated, ProcessExit::Signal(15)).await;
    check(
        "trap 'exit 4' TERM; sleep 600 & touch ready; wait",
        graces,
        StopMethod::Terminated,
        ProcessExit::Code(4),
    )
    .await;
}

#[tokio::test]
async fn child_ignoring_sigterm_is_killed() {
    check("trap '' TERM", short_grace_periods(), StopMethod::Killed, ProcessExit::Signal(9)).await;
}

#[tokio::test]
async fn grandchildren_end_with_the_child() {
    let (_fixture, child, pids) =
        spawn_with_grandchildren(GRANDCHILDREN_SCRIPT, short_grace_periods()).await;
    assert!(with_timeout(child.stop()).await.survivors.is_empty());
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "{pids:?}");
}

#[tokio::test]
async fn grandchildren_end_after_the_child_exits_by_itself() {
    let script = GRANDCHILDREN_SCRIPT.replace("wait", "read end; exit 5");
    let (_fixture, mut child, pids) =
        spawn_with_grandchildren(&script, short_grace_periods()).await;
    drop(child.stdin.take());
    assert_eq!(with_timeout(child.exited()).await, ProcessExit::Code(5));
    wait_until("no process is left", || !pids.iter().any(|pid| is_alive(*pid)));
    let ended = with_timeout(child.stop()).await;
    assert_eq!(
        ended,
        StopOutcome {
            method: StopMethod::Voluntary,
            exit: ProcessExit::Code(5),
            survivors: vec![]
        }
    );
}

#[tokio::test]
async fn dropped_child_is_killed_with_its_descendants() {
    // The grace periods exceed the test's timeout, so the drop itself must kill.
    let (_fixture, child, pids) =
        spawn_with_grandchildren(GRANDCHILDREN_SCRIPT, long_grace_periods()).await;
    let pid = child.pid();
    drop(child);
    wait_until("all processes have exited", || {
        is_reaped(pid) && !pids.iter().any(|pid| is_alive(*pid))
    });
}

#[tokio::test]
async fn cancelled_stop_kills_at_once() {
    let (_fixture, child, pids) =
        spawn_with_grandchildren(GRANDCHILDREN_SCRIPT, long_grace_periods()).await;
    let pid = child.pid();
    assert!(
        timeout(short_grace_periods().close, child.stop()).await.is_err(),
        "the grace period is not over"
    );
    wait_until("all processes have exited", || {
        is_reaped(pid) && !pids.iter().any(|pid| is_alive(*pid))
    });
}

#[tokio::test]
async fn cancelled_spawn_leaves_no_process() {
    let fixture = ProcessFixture::new();
    for _ in 0..10 {
        // Long enough to send the request, too short for the response.
        let spawn = fixture.instance.spawn(fixture.script("exec sleep 600"));
        let _ = timeout(Duration::ZERO, spawn).await;
    }
    // Closing would kill as well. Another spawn proves that the child thread has processed the earlier
    // requests.
    with_timeout(fixture.instance.spawn(fixture.script("true"))).await.unwrap();
    wait_until("no process is left", || marked_processes(fixture.instance.id()).is_empty());
}

#[tokio::test]
async fn min_27_close_ends_all_children_and_removes_the_ledger() {
    let (fixture, child, pids) =
        spawn_with_grandchildren(GRANDCHILDREN_SCRIPT, long_grace_periods()).await;
    assert_eq!(fixture.ledger_count(), 1);
    with_timeout(fixture.instance.close()).await;
    assert!(is_reaped(child.pid()) && !pids.iter().any(|pid| is_alive(*pid)));
    assert!(marked_processes(fixture.instance.id()).is_empty());
    assert_eq!(fixture.ledger_count(), 0);
    assert_eq!(
        with_timeout(child.stop()).await,
        StopOutcome { method: StopMethod::Killed, exit: ProcessExit::Signal(9), survivors: vec![] }
    );
    let error = fixture.instance.spawn(fixture.script("true")).await.unwrap_err();
    assert_eq!(error.code(), "stdio.spawn.closed");
}

#[tokio::test]
async fn dropped_instance_kills_its_children() {
    let (fixture, child, pids) =
        spawn_with_grandchildren(GRANDCHILDREN_SCRIPT, long_grace_periods()).await;
    let ProcessFixture { instance, state, .. } = fixture;
    drop(instance);
    wait_until("all processes have exited", || {
        is_reaped(child.pid()) && !pids.iter().any(|pid| is_alive(*pid))
    });
    wait_until("the ledger is gone", || super::ledger_count(state.path()) == 0);
}

#[tokio::test]
async fn many_children_start_and_stop_concurrently() {
    let fixture = ProcessFixture::new();
    let mut children = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let (instance, launch) = (fixture.instance.clone(), fixture.script("exec cat"));
        children.spawn(async move {
            let child = instance.spawn(launch).await.unwrap();
            let pid = child.pid();
            (pid, child.stop().await)
        });
    }
    for (pid, ended) in with_timeout(children.join_all()).await {
        assert_eq!(
            ended,
            StopOutcome {
                method: StopMethod::Voluntary,
                exit: ProcessExit::Code(0),
                survivors: vec![]
            }
        );
        assert!(is_reaped(pid));
    }
}

/// A child with two stubborn grandchildren and their pids. Only one of them is in its group.
async fn spawn_with_grandchildren(
    script: &str,
    graces: GracePeriods,
) -> (ProcessFixture, Child, [u32; 2]) {
    let fixture = ProcessFixture::new();
    let launch = LaunchSpec { graces, ..fixture.script(script) };
    let child = fixture.instance.spawn(launch).await.unwrap();
    let pids = ["member", "stray"].map(|name| recorded_pid(&fixture.notes, name));
    assert_eq!(pids.map(super::process_group), [child.pid(), pids[1]]);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    (fixture, child, pids)
}

async fn with_timeout<T>(wait: impl Future<Output = T>) -> T {
    timeout(TEST_TIMEOUT, wait).await.unwrap()
}

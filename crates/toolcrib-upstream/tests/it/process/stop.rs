//! How children end: by the ladder, by a dropped handle, with their instance; never as a zombie.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;
use toolcrib_upstream::process::{Child, Ended, Exit, Graces, Launch, Means};

use super::{
    GRANDCHILDREN, LIMIT, Scene, alive, eventually, hasty, marked, noted_pid, patient, vanished,
};

/// Starts a script, waits until it says that it is ready, stops it.
async fn check(script: &str, graces: Graces, means: Means, exit: Exit) {
    let scene = Scene::new();
    let launch = Launch {
        graces,
        ..scene.script(&format!("{script}; touch ready; while :; do sleep 600; done"))
    };
    let child = scene.instance.spawn(launch).await.unwrap();
    let pid = child.pid();
    eventually("ready", || scene.notes.join("ready").exists());
    assert_eq!(soon(child.stop()).await, Ended { means, exit, left: vec![] });
    assert!(vanished(pid), "not even a zombie is left");
}

#[tokio::test]
async fn dis_16_an_obedient_child_sees_the_end_of_stdin_and_ends_itself() {
    let scene = Scene::new();
    let child =
        scene.instance.spawn(scene.script("cat; echo saw the end >&2; exit 7")).await.unwrap();
    let (pid, tail) = (child.pid(), child.stderr().clone());
    let ended = soon(child.stop()).await;
    assert_eq!(ended, Ended { means: Means::Itself, exit: Exit::Code(7), left: vec![] });
    assert_eq!(tail.text(), "saw the end\n");
    assert!(vanished(pid));
}

#[tokio::test]
async fn a_child_that_does_not_read_is_terminated() {
    let graces = Graces { close: hasty().close, ..patient() };
    check("true", graces, Means::Terminated, Exit::Signal(15)).await;
    check(
        "trap 'exit 4' TERM; sleep 600 & touch ready; wait",
        graces,
        Means::Terminated,
        Exit::Code(4),
    )
    .await;
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed() {
    check("trap '' TERM", hasty(), Means::Killed, Exit::Signal(9)).await;
}

#[tokio::test]
async fn grandchildren_end_with_the_child() {
    let (_scene, child, pids) = with_grandchildren(GRANDCHILDREN, hasty()).await;
    assert!(soon(child.stop()).await.left.is_empty());
    assert!(!pids.iter().any(|pid| alive(*pid)), "{pids:?}");
}

#[tokio::test]
async fn grandchildren_of_a_child_that_ended_by_itself_do_not_stay() {
    let script = GRANDCHILDREN.replace("wait", "read end; exit 5");
    let (_scene, mut child, pids) = with_grandchildren(&script, hasty()).await;
    drop(child.stdin.take());
    assert_eq!(soon(child.exited()).await, Exit::Code(5));
    eventually("nobody is left", || !pids.iter().any(|pid| alive(*pid)));
    let ended = soon(child.stop()).await;
    assert_eq!(ended, Ended { means: Means::Itself, exit: Exit::Code(5), left: vec![] });
}

#[tokio::test]
async fn a_dropped_child_is_killed_with_its_family() {
    // No grace would be over in time: the drop itself must do it.
    let (_scene, child, pids) = with_grandchildren(GRANDCHILDREN, patient()).await;
    let pid = child.pid();
    drop(child);
    eventually("all are gone", || vanished(pid) && !pids.iter().any(|pid| alive(*pid)));
}

#[tokio::test]
async fn a_stop_that_is_given_up_kills() {
    let (_scene, child, pids) = with_grandchildren(GRANDCHILDREN, patient()).await;
    let pid = child.pid();
    assert!(timeout(hasty().close, child.stop()).await.is_err(), "its grace is not over");
    eventually("all are gone", || vanished(pid) && !pids.iter().any(|pid| alive(*pid)));
}

#[tokio::test]
async fn a_spawn_that_is_given_up_leaves_nothing() {
    let scene = Scene::new();
    for _ in 0..10 {
        // Long enough to send the request, too short for the answer.
        let spawn = scene.instance.spawn(scene.script("exec sleep 600"));
        let _ = timeout(Duration::ZERO, spawn).await;
    }
    // Closing would kill as well, so another spawn shows that the keeper has come past these.
    soon(scene.instance.spawn(scene.script("true"))).await.unwrap();
    eventually("nobody is left", || marked(scene.instance.id()).is_empty());
}

#[tokio::test]
async fn min_27_closing_ends_everything_and_removes_the_ledger() {
    let (scene, child, pids) = with_grandchildren(GRANDCHILDREN, patient()).await;
    assert_eq!(scene.ledgers(), 1);
    soon(scene.instance.close()).await;
    assert!(vanished(child.pid()) && !pids.iter().any(|pid| alive(*pid)));
    assert!(marked(scene.instance.id()).is_empty());
    assert_eq!(scene.ledgers(), 0);
    assert_eq!(
        soon(child.stop()).await,
        Ended { means: Means::Killed, exit: Exit::Signal(9), left: vec![] }
    );
    let error = scene.instance.spawn(scene.script("true")).await.unwrap_err();
    assert_eq!(error.code(), "stdio.spawn.closed");
}

#[tokio::test]
async fn a_dropped_instance_takes_its_children_along() {
    let (scene, child, pids) = with_grandchildren(GRANDCHILDREN, patient()).await;
    let Scene { instance, state, .. } = scene;
    drop(instance);
    eventually("all are gone", || vanished(child.pid()) && !pids.iter().any(|pid| alive(*pid)));
    eventually("the ledger is gone", || super::ledgers(state.path()) == 0);
}

#[tokio::test]
async fn many_children_come_and_go_at_once() {
    let scene = Scene::new();
    let mut children = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let (instance, launch) = (scene.instance.clone(), scene.script("exec cat"));
        children.spawn(async move {
            let child = instance.spawn(launch).await.unwrap();
            let pid = child.pid();
            (pid, child.stop().await)
        });
    }
    for (pid, ended) in soon(children.join_all()).await {
        assert_eq!(ended, Ended { means: Means::Itself, exit: Exit::Code(0), left: vec![] });
        assert!(vanished(pid));
    }
}

/// A child with two stubborn grandchildren, and their pids; only one of them is in its group.
async fn with_grandchildren(script: &str, graces: Graces) -> (Scene, Child, [u32; 2]) {
    let scene = Scene::new();
    let launch = Launch { graces, ..scene.script(script) };
    let child = scene.instance.spawn(launch).await.unwrap();
    let pids = ["member", "stray"].map(|name| noted_pid(&scene.notes, name));
    assert_eq!(pids.map(super::group_of), [child.pid(), pids[1]]);
    assert!(pids.iter().all(|pid| alive(*pid)));
    (scene, child, pids)
}

async fn soon<T>(wait: impl Future<Output = T>) -> T {
    timeout(LIMIT, wait).await.unwrap()
}

//! Servers that do not start, die, fall silent or are gone: what is tried again, and what is told.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{Event, FailureKind, State, Want, Words};

use crate::scene::{Scene, is_alive, tool, until, within};

/// Quick tries, so that a test sees several.
fn quick(mut entry: Value, retry: u32, reconnect: u32) -> Value {
    let waits = |max: u32| json!({"max": max, "initial": "10ms", "max_delay": "20ms"});
    entry["lifecycle"] = json!({"retry": waits(retry), "reconnect": waits(reconnect)});
    entry
}

/// A server that ends at once so many times, and then behaves.
fn fails_first(scene: &Scene, times: usize) -> Script {
    let mut turns = vec![vec![Step::Exit(7)]; times];
    turns.push(Vec::new());
    Script { legacy_only: true, ..Script::default() }
        .start([Step::Turns { count: scene.path().join("turns"), turns }])
}

fn starts(scene: &Scene) -> usize {
    std::fs::metadata(scene.path().join("turns")).map_or(0, |file| file.len() as usize)
}

#[tokio::test]
async fn min_61_dkr_27_a_start_is_tried_as_often_as_policy_says_and_not_once_more() {
    // DKR-27 as well.
    let scene = Scene::new();
    let mut entry = quick(scene.scripted(fails_first(&scene, 99), "log"), 3, 0);
    entry["protocol"] = json!("legacy");
    let conn = scene.start(scene.server(&entry));
    let failure = within(conn.ready(Want::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection);
    assert!(
        failure.message.contains("the server ended during the handshake"),
        "{}",
        failure.message
    );
    assert_eq!(starts(&scene), 4); // one, and three again
    let life = conn.view().life;
    assert_eq!((life.state(), life.attempts(), life.next_retry()), (State::Failed, 4, None));
    assert!(life.last_error().is_some()); // MIN-32
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn min_30_a_start_that_succeeds_after_failures_is_a_success() {
    let scene = Scene::new();
    let mut entry = quick(scene.scripted(fails_first(&scene, 2), "log"), 5, 0);
    entry["protocol"] = json!("legacy");
    let conn = scene.start(scene.server(&entry));
    within(conn.ready(Want::Call)).await.unwrap();
    assert_eq!(starts(&scene), 3);
    let life = conn.view().life;
    assert_eq!((life.state(), life.attempts()), (State::Ready, 0)); // DKR-30
    assert!(life.last_connected().is_some()); // MIN-32
    let states = scene.heard.all();
    let expected = ["connecting", "backoff", "connecting", "backoff", "connecting", "ready"]
        .map(|word| format!("state {word}"));
    let states: Vec<_> = states.into_iter().filter(|news| news.starts_with("state")).collect();
    assert_eq!(states, expected); // MIN-29, MIN-30
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn min_31_a_lost_server_comes_back_by_itself() {
    let scene = Scene::new();
    let script = Script::default().on("tools/call die", [Step::Exit(1)]);
    let entry = quick(scene.scripted(script, "log"), 0, 5);
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let first = ticket.session.peer().facts().pid.unwrap();
    let error = tool(&ticket.session, "die", &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "Transport closed");
    drop(ticket);
    scene.heard.times(2, "state ready").await;
    assert!(scene.heard.all().contains(&"state reconnecting".to_owned()));
    let view = conn.view();
    assert_ne!(view.session.unwrap().peer().facts().pid, Some(first));
    assert_eq!(view.life.restarts(), 1);
    assert_eq!(scene.count("log", "tools/list"), 2); // MIN-34
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    tool(&ticket.session, "echo", &json!({})).await.unwrap();
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn min_63_without_automatic_reconnection_a_lost_server_stays_lost() {
    let scene = Scene::new();
    let script = Script::default().on("tools/call die", [Step::Exit(1)]);
    let mut entry = quick(scene.scripted(script, "log"), 0, 0);
    entry["lifecycle"]["reconnect"]["on_demand"] = json!(false);
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    tool(&ticket.session, "die", &json!({})).await.unwrap_err();
    drop(ticket);
    scene.heard.times(1, "state failed").await;
    let failure = within(conn.ready(Want::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection);
    assert_eq!(conn.view().life.word(Words::Minion), "error"); // MIN-31: never `disconnected`
    assert_eq!(scene.count("log", "tools/list"), 1);
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn dkr_25_and_26_a_silent_session_is_ended_before_the_next_begins() {
    let scene = Scene::new();
    // It stops answering anything but says nothing of it.
    let script = Script { legacy_only: true, ..Script::default() }.on("ping", []);
    let mut entry = quick(scene.scripted(script, "log"), 0, 5);
    entry["lifecycle"]["liveness"] = json!({"ping_every": "50ms", "stale_after": "300ms"});
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let first = ticket.session.peer().facts().pid.unwrap();
    drop(ticket);
    scene.heard.times(1, "state degraded").await; // a ping was missed
    scene.heard.times(2, "state ready").await;
    let second = conn.view().session.unwrap().peer().facts().pid.unwrap();
    assert_ne!(first, second);
    assert!(!is_alive(first)); // DKR-26: it had ended when the next one was there
    assert!(scene.count("log", "ping") >= 2); // DKR-24
    let error = conn.view().life.last_error().unwrap().1.clone();
    assert_eq!(error.kind, FailureKind::Timeout);
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn dkr_25_traffic_alone_keeps_a_session_alive() {
    let scene = Scene::new();
    let script = Script { legacy_only: true, ..Script::default() }.on("ping", []);
    let mut entry = scene.scripted(script, "log");
    entry["lifecycle"] = json!({"liveness": {"ping_every": "100ms", "stale_after": "1s"}});
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let begun = tokio::time::Instant::now();
    // Time has to pass in which nothing but calls is answered.
    while begun.elapsed() < Duration::from_millis(2500) {
        tool(&ticket.session, "echo", &json!({})).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(conn.view().life.restarts(), 0);
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn what_will_be_the_same_again_is_not_tried_again() {
    let scene = Scene::new();
    for (entry, kind, code) in [
        (
            json!({"command": "no-such-program-at-all"}),
            FailureKind::Connection,
            "stdio.spawn.not_found",
        ),
        (
            json!({"command": "true", "env": {"A": "${NOT_SET}"}}),
            FailureKind::Config,
            "env.missing",
        ),
    ] {
        let conn = scene.start(scene.server(&quick(entry, 2, 0)));
        let failure = within(conn.ready(Want::Call)).await.unwrap_err();
        assert_eq!((failure.kind, failure.code), (kind, code));
        assert!(failure.message.starts_with("failed to create transport: "), "{}", failure.message); // MIN-23
        assert!(failure.fix.is_some());
        let attempts = if kind == FailureKind::Config { 1 } else { 3 };
        assert_eq!(conn.view().life.attempts(), attempts, "{code}");
    }
    scene.close().await;
}

#[tokio::test]
async fn a_restart_that_is_asked_for_ends_the_old_session_first() {
    let scene = Scene::new();
    let conn = scene.start(scene.server(&scene.scripted(Script::default(), "log")));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let pid = ticket.session.peer().facts().pid.unwrap();
    drop(ticket);
    within(conn.tell(Event::Restart)).await;
    until("the old one has ended", || !is_alive(pid)).await;
    within(conn.ready(Want::Call)).await.unwrap();
    assert_eq!(conn.view().life.restarts(), 1);
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn a_server_that_is_killed_between_two_calls_is_there_for_the_second() {
    let scene = Scene::new();
    let entry = quick(scene.scripted(Script::default(), "log"), 0, 5);
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let pid = ticket.session.peer().facts().pid.unwrap();
    drop(ticket);
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
    scene.heard.times(2, "state ready").await;
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    tool(&ticket.session, "echo", &json!({})).await.unwrap();
    assert_ne!(ticket.session.peer().facts().pid, Some(pid));
    drop((ticket, conn));
    scene.close().await;
}

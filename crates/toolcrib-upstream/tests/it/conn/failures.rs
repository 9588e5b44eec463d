//! Failed, crashed, silent and unreachable servers: retries and reported states.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{ConnEvent, Demand, FailureKind, ServerState, StateVocabulary};

use crate::test_host::{TestHost, call_tool, is_alive, wait_until, with_time_limit};

/// Sets short retry delays.
fn quick(mut entry: Value, retry: u32, reconnect: u32) -> Value {
    let waits = |max: u32| json!({"max": max, "initial": "10ms", "max_delay": "20ms"});
    entry["lifecycle"] = json!({"retry": waits(retry), "reconnect": waits(reconnect)});
    entry
}

/// Script of a server that exits at once `times` times and then works.
fn fails_first(host: &TestHost, times: usize) -> Script {
    let mut turns = vec![vec![Step::Exit(7)]; times];
    turns.push(Vec::new());
    Script { legacy_only: true, ..Script::default() }
        .start([Step::Sequence { count: host.path().join("turns"), turns }])
}

fn starts(host: &TestHost) -> usize {
    std::fs::metadata(host.path().join("turns")).map_or(0, |file| file.len() as usize)
}

#[tokio::test]
async fn min_61_dkr_27_start_attempts_match_the_retry_policy() {
    let host = TestHost::new();
    let mut entry = quick(host.scripted(fails_first(&host, 99), "log"), 3, 0);
    entry["protocol"] = json!("legacy");
    let conn = host.start(host.server(&entry));
    let failure = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection);
    assert!(
        failure.message.contains("the server exited during the handshake"),
        "{}",
        failure.message
    );
    assert_eq!(starts(&host), 4); // one start and three retries
    let lifecycle = conn.view().lifecycle;
    assert_eq!(
        (lifecycle.state(), lifecycle.attempts(), lifecycle.next_retry()),
        (ServerState::Failed, 4, None)
    );
    assert!(lifecycle.last_error().is_some()); // MIN-32
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn min_30_a_start_that_succeeds_after_failures_is_a_success() {
    let host = TestHost::new();
    let mut entry = quick(host.scripted(fails_first(&host, 2), "log"), 5, 0);
    entry["protocol"] = json!("legacy");
    let conn = host.start(host.server(&entry));
    with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(starts(&host), 3);
    let lifecycle = conn.view().lifecycle;
    assert_eq!((lifecycle.state(), lifecycle.attempts()), (ServerState::Ready, 0)); // DKR-30
    assert!(lifecycle.last_connected().is_some()); // MIN-32
    let states = host.updates.all();
    let expected = ["connecting", "backoff", "connecting", "backoff", "connecting", "ready"]
        .map(|word| format!("state {word}"));
    let states: Vec<_> = states.into_iter().filter(|update| update.starts_with("state")).collect();
    assert_eq!(states, expected); // MIN-29, MIN-30
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn min_31_lost_server_reconnects() {
    let host = TestHost::new();
    let script = Script::default().on("tools/call die", [Step::Exit(1)]);
    let entry = quick(host.scripted(script, "log"), 0, 5);
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let first = permit.session.peer().link_info().pid.unwrap();
    let error = call_tool(&permit.session, "die", &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "Transport closed");
    drop(permit);
    host.updates.wait_for(2, "state ready").await;
    assert!(host.updates.all().contains(&"state reconnecting".to_owned()));
    let view = conn.view();
    assert_ne!(view.session.unwrap().peer().link_info().pid, Some(first));
    assert_eq!(view.lifecycle.restarts(), 1);
    assert_eq!(host.count("log", "tools/list"), 2); // MIN-34
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn min_63_lost_server_stays_down_without_auto_reconnect() {
    let host = TestHost::new();
    let script = Script::default().on("tools/call die", [Step::Exit(1)]);
    let mut entry = quick(host.scripted(script, "log"), 0, 0);
    entry["lifecycle"]["reconnect"]["on_demand"] = json!(false);
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    call_tool(&permit.session, "die", &json!({})).await.unwrap_err();
    drop(permit);
    host.updates.wait_for(1, "state failed").await;
    let failure = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection);
    assert_eq!(conn.view().lifecycle.state_label(StateVocabulary::Minion), "error"); // MIN-31: never `disconnected`
    assert_eq!(host.count("log", "tools/list"), 1);
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn dkr_25_and_26_a_silent_session_is_ended_before_the_next_begins() {
    let host = TestHost::new();
    // The server ignores pings.
    let script = Script { legacy_only: true, ..Script::default() }.on("ping", []);
    let mut entry = quick(host.scripted(script, "log"), 0, 5);
    entry["lifecycle"]["liveness"] = json!({"ping_every": "50ms", "stale_after": "300ms"});
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let first = permit.session.peer().link_info().pid.unwrap();
    drop(permit);
    host.updates.wait_for(1, "state degraded").await; // a ping was missed
    host.updates.wait_for(2, "state ready").await;
    let second = conn.view().session.unwrap().peer().link_info().pid.unwrap();
    assert_ne!(first, second);
    assert!(!is_alive(first)); // DKR-26: it had ended before the next session was ready
    assert!(host.count("log", "ping") >= 2); // DKR-24
    let error = conn.view().lifecycle.last_error().unwrap().1.clone();
    assert_eq!(error.kind, FailureKind::Timeout);
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn dkr_25_traffic_keeps_a_session_alive() {
    let host = TestHost::new();
    let script = Script { legacy_only: true, ..Script::default() }.on("ping", []);
    let mut entry = host.scripted(script, "log");
    entry["lifecycle"] = json!({"liveness": {"ping_every": "100ms", "stale_after": "1s"}});
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let started_at = tokio::time::Instant::now();
    // Only calls produce traffic during this time.
    while started_at.elapsed() < Duration::from_millis(2500) {
        call_tool(&permit.session, "echo", &json!({})).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(conn.view().lifecycle.restarts(), 0);
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn permanent_failures_are_not_retried() {
    let host = TestHost::new();
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
        let conn = host.start(host.server(&quick(entry, 2, 0)));
        let failure = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
        assert_eq!((failure.kind, failure.code), (kind, code));
        assert!(failure.message.starts_with("failed to create transport: "), "{}", failure.message); // MIN-23
        assert!(failure.fix.is_some());
        let attempts = if kind == FailureKind::Config { 1 } else { 3 };
        assert_eq!(conn.view().lifecycle.attempts(), attempts, "{code}");
    }
    host.close().await;
}

#[tokio::test]
async fn explicit_restart_ends_the_old_session_first() {
    let host = TestHost::new();
    let conn = host.start(host.server(&host.scripted(Script::default(), "log")));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let pid = permit.session.peer().link_info().pid.unwrap();
    drop(permit);
    with_time_limit(conn.send_event(ConnEvent::Restart)).await;
    wait_until("the old process ends", || !is_alive(pid)).await;
    with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(conn.view().lifecycle.restarts(), 1);
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn killed_server_is_reconnected_before_the_next_call() {
    let host = TestHost::new();
    let entry = quick(host.scripted(Script::default(), "log"), 0, 5);
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let pid = permit.session.peer().link_info().pid.unwrap();
    drop(permit);
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
    host.updates.wait_for(2, "state ready").await;
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    assert_ne!(permit.session.peer().link_info().pid, Some(pid));
    drop((permit, conn));
    host.close().await;
}

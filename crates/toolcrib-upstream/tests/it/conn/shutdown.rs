//! Ends of connections: drained, killed, idle or dropped.

use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{ConnEvent, Demand, ServerState};

use crate::test_host::{TestHost, call_tool, is_alive, wait_until, with_time_limit};

#[tokio::test]
async fn dom_79_call_in_flight_completes_before_its_server_retires() {
    let host = TestHost::new();
    let script = Script::default().on("tools/call slow", [Step::Sleep(500), Step::Respond]);
    let conn = host.start(host.server(&host.scripted(script, "log")));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let pid = permit.session.peer().link_info().pid.unwrap();
    let arguments = json!({});
    let call = async {
        let answered = call_tool(&permit.session, "slow", &arguments).await;
        assert!(is_alive(pid));
        drop(permit);
        answered
    };
    let retire = async {
        wait_until("the call", || host.count("log", "tools/call") == 1).await;
        with_time_limit(conn.send_event(ConnEvent::Retire)).await;
        assert_eq!(conn.view().lifecycle.state(), ServerState::Draining);
        // New calls are refused.
        with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
    };
    let (answered, ()) = tokio::join!(call, retire);
    answered.unwrap();
    with_time_limit(conn.wait_until_ended()).await;
    assert!(!is_alive(pid));
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn dom_81_server_that_does_not_drain_is_killed_after_the_limit() {
    let host = TestHost::new();
    let script = Script { ignore_sigterm: true, ignore_end: true, ..Script::default() }
        .on("tools/call never", []);
    let mut entry = host.scripted(script, "log");
    entry["lifecycle"] = json!({"drain_kill": "200ms"});
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let pid = permit.session.peer().link_info().pid.unwrap();
    let arguments = json!({});
    let call = call_tool(&permit.session, "never", &arguments);
    let retire = async {
        wait_until("the call", || host.count("log", "tools/call") == 1).await;
        with_time_limit(conn.send_event(ConnEvent::Retire)).await;
    };
    let (answered, ()) = tokio::join!(call, retire);
    assert_eq!(answered.unwrap_err().to_string(), "Transport closed");
    with_time_limit(conn.wait_until_ended()).await;
    wait_until("the process is killed", || !is_alive(pid)).await;
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn dis_16_min_27_retire_stops_the_process() {
    let host = TestHost::new();
    let conn = host.start(host.server(&host.scripted(Script::default(), "log")));
    with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let pid = conn.view().session.unwrap().peer().link_info().pid.unwrap();
    with_time_limit(conn.send_event(ConnEvent::Retire)).await;
    with_time_limit(conn.wait_until_ended()).await;
    assert!(!is_alive(pid));
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn idle_session_ends_and_reconnects_on_demand() {
    let host = TestHost::new();
    let mut entry = host.scripted(Script::default(), "log");
    entry["session"] = json!({"scope": "per_conversation", "idle": "100ms"});
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let pid = permit.session.peer().link_info().pid.unwrap();
    // A used session never goes idle.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(is_alive(pid));
    drop(permit);
    host.updates.wait_for(1, "state idle").await;
    wait_until("the process ends", || !is_alive(pid)).await;
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn min_22_cancelled_connect_leaves_no_process() {
    let host = TestHost::new();
    let script = Script { ignore_sigterm: true, ..Script::default() }
        .on("server/discover", [])
        .on("initialize", []);
    let conn = host.start(host.server(&host.scripted(script, "log")));
    let wait = conn.acquire_session(Demand::Call);
    let stop = async {
        wait_until("the first request", || !host.log("log").is_empty()).await;
        with_time_limit(conn.send_event(ConnEvent::Disconnect)).await;
    };
    let (refused, ()) = tokio::join!(with_time_limit(wait), stop);
    assert!(refused.unwrap_err().message.contains("it is stopped"));
    with_time_limit(conn.send_event(ConnEvent::Connect)).await;
    assert_eq!(conn.view().lifecycle.state(), ServerState::Connecting);
    drop(conn);
    host.close().await;
}

/// An idle timeout and a new demand may coincide.
#[tokio::test]
async fn demand_during_idle_shutdown_is_served() {
    let host = TestHost::new();
    let mut entry = host.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    entry["protocol"] = json!("legacy");
    entry["session"] = json!({"scope": "per_conversation", "idle": "2ms"});
    let conn = host.start(host.server(&entry));
    for round in 0..150 {
        let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
        call_tool(&permit.session, "echo", &json!({})).await.unwrap();
        drop(permit);
        // About the idle time.
        tokio::time::sleep(Duration::from_micros(1500 + 10 * round)).await;
    }
    drop(conn);
    host.close().await;
}

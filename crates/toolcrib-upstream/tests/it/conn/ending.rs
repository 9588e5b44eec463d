//! How a connection ends: drained, killed, idle, or dropped. Nothing of it is left.

use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{Event, State, Want};

use crate::scene::{Scene, is_alive, tool, until, within};

#[tokio::test]
async fn dom_79_a_call_in_flight_ends_in_peace_before_its_server_does() {
    let scene = Scene::new();
    let script = Script::default().on("tools/call slow", [Step::Sleep(500), Step::Answer]);
    let conn = scene.start(scene.server(&scene.scripted(script, "log")));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let pid = ticket.session.peer().facts().pid.unwrap();
    let arguments = json!({});
    let call = async {
        let answered = tool(&ticket.session, "slow", &arguments).await;
        assert!(is_alive(pid));
        drop(ticket);
        answered
    };
    let retire = async {
        until("the call", || scene.count("log", "tools/call") == 1).await;
        within(conn.tell(Event::Retire)).await;
        assert_eq!(conn.view().life.state(), State::Draining);
        // Nobody new gets in.
        within(conn.ready(Want::Call)).await.unwrap_err();
    };
    let (answered, ()) = tokio::join!(call, retire);
    answered.unwrap();
    within(conn.ended()).await;
    assert!(!is_alive(pid));
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn dom_81_a_server_that_does_not_drain_is_killed_after_the_limit() {
    let scene = Scene::new();
    let script = Script { ignore_sigterm: true, ignore_end: true, ..Script::default() }
        .on("tools/call never", []);
    let mut entry = scene.scripted(script, "log");
    entry["lifecycle"] = json!({"drain_kill": "200ms"});
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let pid = ticket.session.peer().facts().pid.unwrap();
    let arguments = json!({});
    let call = tool(&ticket.session, "never", &arguments);
    let retire = async {
        until("the call", || scene.count("log", "tools/call") == 1).await;
        within(conn.tell(Event::Retire)).await;
    };
    let (answered, ()) = tokio::join!(call, retire);
    assert_eq!(answered.unwrap_err().to_string(), "Transport closed");
    within(conn.ended()).await;
    until("it was killed", || !is_alive(pid)).await;
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn dis_16_min_27_retiring_ends_the_process_in_good_order() {
    // MIN-27 as well.
    let scene = Scene::new();
    let conn = scene.start(scene.server(&scene.scripted(Script::default(), "log")));
    within(conn.ready(Want::Call)).await.unwrap();
    let pid = conn.view().session.unwrap().peer().facts().pid.unwrap();
    within(conn.tell(Event::Retire)).await;
    within(conn.ended()).await;
    assert!(!is_alive(pid));
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn an_unused_lease_is_ended_and_wakes_up_again() {
    let scene = Scene::new();
    let mut entry = scene.scripted(Script::default(), "log");
    entry["session"] = json!({"scope": "per_conversation", "idle": "100ms"});
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let pid = ticket.session.peer().facts().pid.unwrap();
    // As long as it is used it is not idle, however long that is.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(is_alive(pid));
    drop(ticket);
    scene.heard.times(1, "state idle").await;
    until("its process ended", || !is_alive(pid)).await;
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    tool(&ticket.session, "echo", &json!({})).await.unwrap();
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn min_22_a_connect_that_is_called_off_leaves_nothing() {
    let scene = Scene::new();
    let script = Script { ignore_sigterm: true, ..Script::default() }
        .on("server/discover", [])
        .on("initialize", []);
    let conn = scene.start(scene.server(&scene.scripted(script, "log")));
    let wait = conn.ready(Want::Call);
    let stop = async {
        until("it was asked", || !scene.log("log").is_empty()).await;
        within(conn.tell(Event::Disconnect)).await;
    };
    let (refused, ()) = tokio::join!(within(wait), stop);
    assert!(refused.unwrap_err().message.contains("it is stopped"));
    within(conn.tell(Event::Connect)).await;
    assert_eq!(conn.view().life.state(), State::Connecting);
    drop(conn);
    scene.close().await;
}

/// The end of what is idle and the beginning of a use may come at the same moment.
#[tokio::test]
async fn whoever_comes_just_when_a_session_is_ended_as_idle_is_served_all_the_same() {
    let scene = Scene::new();
    let mut entry = scene.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    entry["protocol"] = json!("legacy");
    entry["session"] = json!({"scope": "per_conversation", "idle": "2ms"});
    let conn = scene.start(scene.server(&entry));
    for round in 0..150 {
        let ticket = within(conn.ready(Want::Call)).await.unwrap();
        tool(&ticket.session, "echo", &json!({})).await.unwrap();
        drop(ticket);
        // About as long as the session may be idle.
        tokio::time::sleep(Duration::from_micros(1500 + 10 * round)).await;
    }
    drop(conn);
    scene.close().await;
}

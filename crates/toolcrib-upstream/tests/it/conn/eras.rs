//! Which era is spoken, how it is found out, and what each asks of a call.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_config::model::transport::Framing;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{FailureKind, Learned, Outlook, Want};
use toolcrib_wire::{Era, Version};

use crate::scene::{Same, Scene, can, text, tool, within};

async fn spoken(scene: &Scene, script: Script, protocol: &str) -> Result<Version, FailureKind> {
    let mut entry = scene.scripted(script, "log");
    entry["protocol"] = json!(protocol);
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.map_err(|failure| failure.kind)?;
    tool(&ticket.session, "echo", &json!({"a": 1})).await.unwrap();
    Ok(ticket.session.agreed().version.clone())
}

#[tokio::test]
async fn the_newest_era_that_both_know_is_spoken() {
    let both = Script::default;
    let legacy = || Script { legacy_only: true, ..Script::default() };
    let modern = || Script { modern_only: true, ..Script::default() };
    for (script, protocol, expected) in [
        (both(), "auto", Ok(Version::V2026_07_28)),
        (both(), "legacy", Ok(Version::V2025_11_25)),
        (both(), "2024-11-05", Ok(Version::V2024_11_05)),
        (legacy(), "auto", Ok(Version::V2025_11_25)),
        (legacy(), "modern", Err(FailureKind::Protocol)),
        (modern(), "auto", Ok(Version::V2026_07_28)),
        (modern(), "legacy", Err(FailureKind::Protocol)),
    ] {
        let scene = Scene::new();
        assert_eq!(spoken(&scene, script, protocol).await, expected, "{protocol}");
        scene.close().await;
    }
}

#[tokio::test]
async fn a_server_that_is_slow_to_answer_the_first_question_is_asked_the_second_too() {
    let scene = Scene::new();
    let script = Script { legacy_only: true, ..Script::default() }.on("server/discover", []);
    assert_eq!(spoken(&scene, script, "auto").await, Ok(Version::V2025_11_25));
    assert_eq!(scene.methods("log")[..2], ["server/discover", "initialize"]);
    scene.close().await;
}

#[tokio::test]
async fn a_server_that_ends_at_the_first_question_is_started_once_more() {
    let scene = Scene::new();
    let script = Script::default().on("server/discover", [Step::Exit(3)]);
    assert_eq!(spoken(&scene, script, "auto").await, Ok(Version::V2025_11_25));
    assert_eq!(scene.methods("log")[..2], ["server/discover", "initialize"]);
    scene.close().await;
}

#[tokio::test]
async fn what_was_spoken_is_remembered_and_asked_anew_when_it_no_longer_holds() {
    let scene = Scene::new();
    let entry = scene.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    let spec = scene.server(&entry);
    let hash = spec.hash;
    let conn = scene.start(spec.clone());
    within(conn.ready(Want::Call)).await.unwrap();
    assert_eq!(scene.world.memory.of(hash).era, Some(Era::Legacy));
    drop(conn);
    let before = scene.count("log", "server/discover");
    let conn = scene.start(spec.clone());
    within(conn.ready(Want::Call)).await.unwrap();
    assert_eq!(scene.count("log", "server/discover"), before); // it was not asked again
    drop(conn);
    // The server has changed, and what is remembered is wrong.
    scene.world.memory.learn(hash, Learned { era: Some(Era::Modern), framing: None });
    let conn = scene.start(spec);
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    assert_eq!(ticket.session.agreed().era, Era::Legacy);
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn dis_47_dkr_08_a_server_that_only_knows_content_length_is_spoken_to_in_it() {
    // DKR-08 as well.
    let scene = Scene::new();
    let script = Script { content_length: true, legacy_only: true, ..Script::default() };
    let mut entry = scene.scripted(script, "log");
    // It says nothing to lines, and only after this time it is known that it will not.
    entry["timeouts"] = json!({"startup": "1500ms"});
    let spec = scene.server(&entry);
    let conn = scene.start(spec.clone());
    // DIS-53: whoever waits fails at the limit; the server comes up in the background.
    let failure = within(conn.ready(Want::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout, "{failure:?}");
    let mut view = conn.watch();
    within(view.wait_for(|view| view.life.outlook() == Outlook::Up)).await.unwrap();
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let said = tool(&ticket.session, "echo", &json!({"word": "größer 🙂"})).await.unwrap();
    assert!(text(&said).contains("größer 🙂"));
    assert_eq!(scene.world.memory.of(spec.hash).framing, Some(Framing::ContentLength));
    drop((ticket, conn));
    scene.close().await;
}

/// DIS-52: what is remembered outlives hosts, so that a wrong memory must not.
#[tokio::test]
async fn a_remembered_framing_is_forgotten_after_a_silent_start() {
    let scene = Scene::new();
    let silent = Script::default()
        .on("server/discover", [Step::Sleep(600_000)])
        .on("initialize", [Step::Sleep(600_000)]);
    let mut entry = scene.scripted(silent, "log");
    entry["timeouts"] = json!({"startup": "500ms"});
    let spec = scene.server(&entry);
    for era in [None, Some(Era::Legacy)] {
        let learned = Learned { era, framing: Some(Framing::ContentLength) };
        scene.world.memory.learn(spec.hash, learned);
        let conn = scene.start(spec.clone());
        within(conn.ready(Want::Call)).await.unwrap_err();
        assert_eq!(scene.world.memory.of(spec.hash), Learned::default());
        drop(conn);
    }
    scene.close().await;
}

#[tokio::test]
async fn each_request_of_the_modern_era_says_who_asks() {
    let scene = Scene::new();
    let mut setup = scene.setup(scene.server(&scene.scripted(Script::default(), "log")));
    setup.caller = can(json!({"elicitation": {"form": {}}}), Same(json!({"action": "decline"})));
    let conn = scene.start_with(setup);
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    tool(&ticket.session, "echo", &json!({})).await.unwrap();
    let log = scene.log("log");
    for method in ["server/discover", "tools/list", "tools/call"] {
        let message = log.iter().find(|message| message["method"] == method).unwrap();
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{method}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "toolcrib");
        let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*capabilities, json!({"elicitation": {"form": {}}}));
    }
    drop((ticket, conn));
    scene.close().await;
}

fn asks(key: &str, state: &str) -> Step {
    let request = json!({"method": "elicitation/create", "params": {"message": "who?"}});
    Step::Result(
        json!({"resultType": "input_required", "inputRequests": {key: request}, "requestState": state}),
    )
}

#[tokio::test]
async fn a_server_of_the_modern_era_asks_until_it_has_what_it_needs() {
    let scene = Scene::new();
    let turns = vec![vec![asks("first", "s1")], vec![asks("second", "s2")], vec![Step::Answer]];
    let script = Script { modern_only: true, ..Script::default() }
        .on("tools/call who", [Step::Turns { count: scene.path().join("turns"), turns }]);
    let mut setup = scene.setup(scene.server(&scene.scripted(script, "log")));
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    setup.caller = can(json!({"elicitation": {}}), Same(answer.clone()));
    let conn = scene.start_with(setup);
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    tool(&ticket.session, "who", &json!({"a": 1})).await.unwrap();
    let calls: Vec<Value> =
        scene.log("log").into_iter().filter(|message| message["method"] == "tools/call").collect();
    assert_eq!(calls.len(), 3);
    assert!(calls[0]["params"].get("inputResponses").is_none());
    assert_eq!(calls[1]["params"]["inputResponses"], json!({"first": answer}));
    assert_eq!(calls[1]["params"]["requestState"], "s1");
    assert_eq!(calls[2]["params"]["inputResponses"], json!({"second": answer}));
    assert_eq!(calls[2]["params"]["requestState"], "s2");
    assert!(calls.iter().all(|call| call["params"]["arguments"] == json!({"a": 1})));
    let ids: std::collections::HashSet<_> =
        calls.iter().map(|call| call["id"].to_string()).collect();
    assert_eq!(ids.len(), 3); // each is a request of its own
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn questions_without_end_and_without_answer_fail_their_call() {
    let scene = Scene::new();
    let script = Script { modern_only: true, ..Script::default() }
        .on("tools/call endless", [asks("again", "s")])
        .on("tools/call odd", [Step::Result(json!({"resultType": "input_required"}))]);
    let mut setup = scene.setup(scene.server(&scene.scripted(script, "log")));
    setup.caller = can(json!({"elicitation": {}}), Same(json!({"action": "decline"})));
    let conn = scene.start_with(setup);
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let endless = tool(&ticket.session, "endless", &json!({})).await.unwrap_err();
    assert!(endless.to_string().contains("16 rounds"), "{endless}");
    let odd = tool(&ticket.session, "odd", &json!({})).await.unwrap_err();
    assert_eq!(odd.to_string(), "the answer is malformed");
    let nobody = can(json!({}), toolcrib_upstream::conn::peer::NoRequests);
    let params = toolcrib_wire::Raw::of(&json!({"name": "endless"})).unwrap();
    let call = ticket.session.call("tools/call", params, crate::scene::options(), Some(&nobody));
    let unanswered = within(call).await.unwrap_err();
    assert_eq!(unanswered.to_string(), "the server's `elicitation/create` cannot be answered");
    tool(&ticket.session, "echo", &json!({})).await.unwrap();
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn dkr_23_min_20_a_server_that_is_not_ready_in_time_has_failed() {
    // MIN-20 as well.
    let scene = Scene::new();
    let script = Script::default().on("initialize", []).on("server/discover", []);
    let mut entry = scene.scripted(script, "log");
    entry["timeouts"] = json!({"startup": "300ms"});
    entry["transport"] = json!({"framing": "newline"});
    entry["lifecycle"] = json!({"retry": {"max": 0}});
    let conn = scene.start(scene.server(&entry));
    let failure = within(conn.ready(Want::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(failure.message.contains("not ready within 0.3 s"), "{}", failure.message);
    drop(conn);
    tokio::time::sleep(Duration::from_millis(1)).await; // lets the task end before its world does
    scene.close().await;
}

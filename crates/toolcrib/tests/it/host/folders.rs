//! Dialogs in different folders, and what each has switched off for itself.

use serde_json::{Value, json};
use toolcrib::Dialog;
use toolcrib::host::DialogRequest;
use toolcrib::shape::ErrorKind;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;
use toolcrib_upstream::conn::State;

use super::stage::{
    Stage, call, counted, counting, dialog, dialog_in, has_problem, is_alive, kind, names, request,
    text, until, wrongs,
};

#[tokio::test]
async fn dis_02_10_each_folder_has_its_own_servers() {
    let stage = Stage::new();
    let script = |tool: &str| Script { tools: vec![tool.to_owned()], ..counting() };
    let one = stage.dispatch("one", &json!({"fs": stage.scripted(script("left"), "one-log")}));
    let two = stage.dispatch("two", &json!({"fs": stage.scripted(script("right"), "two-log")}));
    let host = stage.host().await;
    let (in_one, in_two) = (dialog_in(&host, &one).await, dialog_in(&host, &two).await);
    // DIS-02: the same id, two servers, disjoint lists.
    let (left, right) = (names(&in_one).await, names(&in_two).await);
    assert!(left.contains(&"fs__left".to_owned()) && !left.contains(&"fs__right".to_owned()));
    assert!(right.contains(&"fs__right".to_owned()) && !right.contains(&"fs__left".to_owned()));
    assert_eq!(names(&dialog(&host, "default").await).await, [""; 0]);
    let (left, right) =
        (counted(&in_one, "fs__count").await.0, counted(&in_two, "fs__count").await.0);
    assert_ne!(left, right);
    // DIS-10: each runs where its conversation is.
    for (dialog, folder) in [(&in_one, &one), (&in_two, &two)] {
        let env: Value = serde_json::from_str(&text(dialog, "fs__env", &json!({})).await).unwrap();
        assert_eq!(env["cwd"], json!(folder));
    }
    // What a person says of one is not said of the other.
    let keys: Vec<_> = host.servers().into_iter().map(|server| server.key).collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
    within(host.disable(&keys[0], "a person")).await.unwrap();
    let states: Vec<_> = host.servers().into_iter().map(|server| server.state).collect();
    assert_eq!(states, [State::Disabled, State::Ready]);
    assert_eq!(counted(&in_two, "fs__count").await, (right, 2));
    // A folder that nobody is in any more has no servers.
    within(in_two.end()).await;
    until("its server has ended", || !is_alive(right)).await;
    until("it is forgotten", || host.servers().len() == 1).await;
    within(host.close()).await;
}

#[tokio::test]
async fn problems_of_a_folder_go_with_its_last_dialog() {
    let stage = Stage::new();
    let one = stage.dispatch("one", &json!({"bad": {"command": 7}}));
    let host = stage.host().await;
    let (first, second) = (dialog_in(&host, &one).await, dialog_in(&host, &one).await);
    let errors = || host.problems().into_iter().filter(|it| it.is_error()).collect::<Vec<_>>();
    assert_eq!(errors().len(), 1, "{:?}", errors());
    assert!(
        errors()[0]
            .source
            .as_deref()
            .is_some_and(|source| source.starts_with(one.to_str().unwrap()))
    );
    within(host.reload()).await.unwrap();
    assert_eq!(errors().len(), 1, "{:?}", errors());
    within(first.end()).await;
    assert_eq!(errors().len(), 1);
    within(second.end()).await;
    until("nothing is wrong any more", || host.problems().is_empty()).await;
    within(host.close()).await;
}

#[tokio::test]
async fn dis_11_17_a_server_begins_with_the_first_turn_and_only_once() {
    let stage = Stage::new();
    let slow = counting().start([Step::Sleep(200)]);
    let folder = stage.dispatch("one", &json!({"fs": stage.scripted(slow, "fs")}));
    let host = stage.host().await;
    let one = dialog_in(&host, &folder).await;
    // DIS-11: nothing before somebody looks.
    assert_eq!(host.servers()[0].state, State::Idle);
    assert_eq!(stage.log("fs").len(), 0);
    // DIS-17: ten at once, one start; and it is the same one in later turns.
    let nothing = json!({});
    let calls = (0..10).map(|_| call(&one, "fs__count", &nothing));
    let done = futures_util::future::join_all(calls).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    let pid = counted(&one, "fs__count").await;
    assert_eq!(pid.1, 11);
    drop(within(one.turn()).await);
    assert_eq!(counted(&one, "fs__count").await, (pid.0, 12));
    assert_eq!(stage.count("fs", "initialize"), 1);
    // A host that starts anew begins with nothing either: what is known of a server does not stand for it.
    within(host.close()).await;
    let host = stage.host().await;
    let one = dialog_in(&host, &folder).await;
    assert_eq!(stage.count("fs", "initialize"), 1);
    assert_eq!(names(&one).await.len(), 4);
    assert_eq!(stage.count("fs", "initialize"), 2);
    within(host.close()).await;
}

#[tokio::test]
async fn dis_32_35_a_server_that_is_away_is_not_offered_and_hinders_nobody() {
    let stage = Stage::new();
    let turns = vec![vec![], vec![Step::Exit(1)]];
    let dying = counting()
        .on("tools/call die", [Step::Exit(1)])
        .start([Step::Turns { count: stage.log_path("starts"), turns }]);
    let folder = stage.dispatch(
        "one",
        &json!({
            "dying": stage.scripted(dying, "dying"),
            "dead": {"command": "/nowhere/at/all"},
            "good": stage.scripted(counting(), "good"),
        }),
    );
    let host = stage.host().await;
    let one = dialog_in(&host, &folder).await;
    // DIS-35: one that cannot start costs the turn nothing but its own tools.
    let seen = names(&one).await;
    let of = |seen: &[String], id: &str| seen.iter().filter(|name| name.starts_with(id)).count();
    assert_eq!((of(&seen, "dying__"), of(&seen, "dead__"), of(&seen, "good__")), (5, 0, 4));
    assert_eq!(kind(call(&one, "dying__die", &json!({})).await), ErrorKind::Connection);
    // DIS-32: the next turn does not have it, and has the others.
    until("it is known to be away", || {
        host.servers().iter().any(|it| it.spec.id == "dying" && it.state == State::Failed)
    })
    .await;
    let seen = names(&one).await;
    assert_eq!((of(&seen, "dying__"), of(&seen, "good__")), (0, 4));
    assert!(counted(&one, "good__count").await.1 == 1);
    within(host.close()).await;
}

#[tokio::test]
async fn a_server_that_was_lost_comes_back_for_whoever_wants_it() {
    let stage = Stage::new();
    let script = counting().on("tools/call die", [Step::Exit(1)]);
    let folder = stage.dispatch("one", &json!({"fs": stage.scripted(script, "fs")}));
    let host = stage.host().await;
    let one = dialog_in(&host, &folder).await;
    let pid = counted(&one, "fs__count").await.0;
    assert_eq!(kind(call(&one, "fs__die", &json!({})).await), ErrorKind::Connection);
    until("it is known to be away", || host.servers()[0].state == State::Failed).await;
    // DOM-94: the list starts it and does not wait for it; the call does.
    assert_eq!(names(&one).await.len(), 0);
    assert_ne!(counted(&one, "fs__count").await.0, pid);
    assert_eq!(names(&one).await.len(), 5);
    within(host.close()).await;
}

async fn dialog_named(host: &toolcrib::Host, id: &str) -> Dialog {
    let request = DialogRequest { id: Some(id.to_owned()), ..DialogRequest::default() };
    within(host.dialog(request)).await.unwrap()
}

fn switched(dialog: &Dialog) -> Vec<(String, bool)> {
    dialog.switches().into_iter().map(|(server, on)| (server.id().to_owned(), on)).collect()
}

#[tokio::test]
async fn dis_33_34_a_dialog_switches_servers_for_itself_and_that_is_kept() {
    let stage = Stage::new();
    let entry = |name: &str| {
        let mut entry = stage.scripted(Script::default(), name);
        entry["session"] = json!({"scope": "shared"});
        entry
    };
    stage.servers(&json!({"freecad": entry("freecad"), "other": entry("other")}));
    let host = stage.host().await;
    let (one, two) = (dialog_named(&host, "one").await, dialog_named(&host, "two").await);
    until("both are up", || host.status().ready == 2).await;
    // DIS-34: get, toggle, get.
    assert_eq!(switched(&one), [("freecad".to_owned(), true), ("other".to_owned(), true)]);
    let turn = within(one.turn()).await;
    within(one.switch("freecad", false)).await.unwrap();
    assert_eq!(switched(&one), [("freecad".to_owned(), false), ("other".to_owned(), true)]);
    // The turn that goes on is as it was; the next one lacks it.
    assert_eq!(turn.tools().len(), 6);
    within(turn.call(request("freecad__echo", &json!({})))).await.unwrap();
    drop(turn);
    assert_eq!(names(&one).await.len(), 3);
    assert_eq!(kind(call(&one, "freecad__echo", &json!({})).await), ErrorKind::UnknownTool);
    // DIS-33: only there.
    assert_eq!((names(&two).await.len(), switched(&two)[0].1), (6, true));
    assert!(within(one.switch("nobody", false)).await.is_err());
    within(host.close()).await;
    // DIS-34: another host knows it still, until the dialog ends.
    let host = stage.host().await;
    until("both are up", || host.status().ready == 2).await;
    let one = dialog_named(&host, "one").await;
    assert_eq!((switched(&one)[0].1, names(&one).await.len()), (false, 3));
    within(one.switch("freecad", true)).await.unwrap();
    assert_eq!(names(&one).await.len(), 6);
    within(one.switch("freecad", false)).await.unwrap();
    within(one.end()).await;
    assert!(switched(&dialog_named(&host, "one").await)[0].1);
    within(host.close()).await;
}

#[tokio::test]
async fn dis_45_starting_programs_and_using_the_network_are_two_permissions() {
    let web =
        toolcrib_testkit::http::HttpServer::start(|_| toolcrib_testkit::http::Reply::status(500));
    let web = web.await.unwrap();
    for (spawn, network) in [(false, true), (true, false)] {
        let stage = Stage::new();
        stage.native(&json!({
            "version": 1,
            "host": {"permissions": {"spawn": spawn, "network": network}},
            "servers": {
                "here": stage.scripted(Script::default(), "here"),
                "there": {"url": web.url("/mcp"), "lifecycle": {"retry": {"max": 0}}},
            },
        }));
        let seen = web.requests().len();
        let host = stage.host().await;
        let states: Vec<_> = host.servers().into_iter().map(|server| server.state).collect();
        assert_eq!(states[0] == State::Ready, spawn, "{:?}", wrongs(&host));
        assert_eq!(stage.log("here").is_empty(), !spawn);
        assert_eq!(web.requests().len() > seen, network);
        let refused = if spawn { "there" } else { "here" };
        let told = host.problems().into_iter().find(|it| it.server.as_deref() == Some(refused));
        assert!(told.unwrap().code.ends_with(".forbidden"), "{:?}", host.problems());
        within(host.close()).await;
    }
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_refused() {
    let stage = Stage::new();
    let host = stage.host().await;
    let request = DialogRequest { cwd: Some("/nowhere/at/all".into()), ..DialogRequest::default() };
    assert!(within(host.dialog(request)).await.is_err());
    // Another name of the root is the root.
    let named = stage.root().join("../root");
    assert_eq!(dialog_in(&host, &named).await.cwd(), stage.root());
    assert!(!has_problem(&host, "x", ""));
    within(host.close()).await;
}

//! When lists are read: before anybody asks, or for whoever asks first.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib::Event;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;
use toolcrib_upstream::conn::State;

use super::stage::{Stage, counting, dialog, hear, names, server, text, until};

#[tokio::test]
async fn dom_22_the_first_list_has_the_tools_of_a_slow_server() {
    let stage = Stage::new();
    stage.minds(&json!({"a": stage.minded(Script::default().start([Step::Sleep(500)]), "a")}));
    let host = within(stage.builder().start()).await.unwrap();
    // Nobody waited for it to be ready but the list itself.
    let one = dialog(&host, "default").await;
    assert_eq!(names(&one).await, ["a_echo", "a_fail", "a_env"]);
    within(host.close()).await;
}

#[tokio::test]
async fn dom_23_a_lazy_host_reads_again_before_each_turn() {
    let stage = Stage::new();
    let write = |tool: &str| {
        let mut entry =
            stage.scripted(Script { tools: vec![tool.into()], ..Script::default() }, "a");
        entry["lifecycle"] = json!({"connect": "on_first_list"});
        stage.native(&json!({"version": 1, "host": {"reload": {"mode": "per_turn"}}, "servers": {"a": entry}}));
    };
    write("first");
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    // Longer than a start takes: nothing runs before it is wanted.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((server(&host, "a").state, stage.log("a").len()), (State::Idle, 0));
    assert!(names(&one).await.contains(&"a__first".to_owned()));
    // Edit and list again: there it is.
    write("second");
    let seen = names(&one).await;
    assert!(seen.contains(&"a__second".to_owned()) && !seen.contains(&"a__first".to_owned()));
    // Nothing changed, nothing is read: the version stays.
    let version = host.version();
    drop(names(&one).await);
    assert_eq!(host.version(), version);
    within(host.close()).await;
}

#[tokio::test]
async fn dkr_13_14_a_server_is_listed_once_however_many_ask() {
    let stage = Stage::new();
    let mut entry = stage.scripted(Script::default().start([Step::Sleep(200)]), "a");
    entry["lifecycle"] = json!({"connect": "on_first_list"});
    stage.servers(&json!({"a": entry}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    // DKR-14: ten at once, one discovery. DKR-13: later lists read what is known.
    let lists = futures_util::future::join_all((0..10).map(|_| names(&one))).await;
    assert!(lists.iter().all(|list| list.len() == 3), "{lists:?}");
    for _ in 0..10 {
        assert_eq!(names(&one).await.len(), 3);
    }
    assert_eq!(stage.count("a", "tools/list"), 1);
    within(host.close()).await;
}

fn listed(tools: &[&str]) -> Step {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    Step::Result(
        json!({"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
    )
}

/// A server whose list becomes another one, and that says so when its tool `grow` is called.
fn growing(stage: &Stage) -> Script {
    let turns = vec![vec![listed(&["grow", "old"])], vec![listed(&["grow", "new", "more"])]];
    let changed = Step::Notify {
        method: "notifications/tools/list_changed".into(),
        params: json!({}),
        times: 1,
    };
    Script { legacy_only: true, ..Script::default() }
        .on("tools/list", [Step::Turns { count: stage.log_path("lists"), turns }])
        .on("tools/call grow", [changed, Step::Answer])
}

#[tokio::test]
async fn dkr_44_a_list_that_changes_is_followed_and_told() {
    let stage = Stage::new();
    let mut entry = stage.scripted(growing(&stage), "a");
    entry["session"] = json!({"scope": "shared"});
    stage.servers(&json!({"a": entry}));
    let host = stage.host().await;
    until("it is up", || server(&host, "a").state == State::Ready).await;
    let one = dialog(&host, "default").await;
    assert_eq!(names(&one).await, ["a__grow", "a__old"]);
    let mut listening = host.listen();
    let turn = within(one.turn()).await;
    text(&one, "a__grow", &json!({})).await;
    let changes = hear(&mut listening, |event| match event {
        Event::Listed { changes, .. } => Some(changes.len()),
        _ => None,
    })
    .await;
    assert_eq!(changes, 3);
    hear(&mut listening, |event| matches!(event, Event::Published { .. }).then_some(())).await;
    assert_eq!(names(&one).await, ["a__grow", "a__new", "a__more"]);
    assert_eq!(turn.tools().len(), 2);
    within(host.close()).await;
}

#[tokio::test]
async fn min_64_a_changed_list_waits_for_a_refresh_where_policy_says_so() {
    let stage = Stage::new();
    let mut entry = stage.scripted(growing(&stage), "a");
    entry["session"] = json!({"scope": "shared"});
    entry["discovery"] = json!({"on_list_changed": "mark_stale"});
    stage.servers(&json!({"a": entry}));
    let host = stage.host().await;
    until("it is up", || server(&host, "a").state == State::Ready).await;
    let one = dialog(&host, "default").await;
    text(&one, "a__grow", &json!({})).await;
    until("it is known to be stale", || server(&host, "a").cache.as_str() == "stale").await;
    assert_eq!(names(&one).await, ["a__grow", "a__old"]);
    let mut listening = host.listen();
    within(host.refresh("a")).await.unwrap();
    assert_eq!(names(&one).await, ["a__grow", "a__new", "a__more"]);
    // The change names the tool and what became of it.
    let told = hear(&mut listening, |event| match event {
        Event::Listed { changes, .. } => {
            Some(changes.iter().map(ToString::to_string).collect::<Vec<_>>())
        }
        _ => None,
    })
    .await;
    assert!(
        told.iter().any(|change| change.contains("old") && change.contains("removed")),
        "{told:?}"
    );
    within(host.close()).await;
}

#[tokio::test]
async fn a_server_in_the_background_is_listed_as_it_was_until_it_is_up() {
    let stage = Stage::new();
    let turns = vec![vec![], vec![Step::Sleep(3000)]];
    let slow = Step::Turns { count: stage.log_path("starts"), turns };
    stage.servers(&json!({"a": stage.scripted(counting().start([slow]), "a")}));
    let host = stage.host().await;
    until("it is up", || server(&host, "a").tools == 4).await;
    // What is kept is written beside.
    tokio::time::sleep(Duration::from_millis(300)).await;
    within(host.close()).await;
    let host = within(stage.builder().start()).await.unwrap();
    within(host.ready()).await;
    assert_eq!(server(&host, "a").state, State::Connecting);
    assert_eq!(names(&dialog(&host, "default").await).await.len(), 4);
    within(host.close()).await;
}

//! A changed server and the one before it: who serves when.

use serde_json::{Value, json};
use toolcrib::host::Outcome;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;
use toolcrib_upstream::conn::State;

use super::stage::{
    Stage, counted, counting, dialog, has_problem, is_alive, names, server, text, until, wrongs,
};

/// A script whose first starts are given, in a file that counts them.
fn starting(stage: &Stage, turns: Vec<Vec<Step>>, script: Script) -> Script {
    script.start([Step::Turns { count: stage.log_path("starts"), turns }])
}

#[tokio::test]
async fn dom_76_the_old_one_serves_until_the_new_one_is_good() {
    let stage = Stage::new();
    stage.minds(&json!({"a": stage.minded(counting(), "a")}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let old = counted(&one, "a_count").await.0;
    let script = Script { tools: vec!["new".into()], ..counting() }.start([Step::Sleep(800)]);
    stage.minds(&json!({"a": stage.minded(script, "a")}));
    let reload = host.reload();
    tokio::pin!(reload);
    let mut calls = 1;
    let reload = loop {
        tokio::select! {
            reload = &mut reload => break reload.unwrap(),
            answer = counted(&one, "a_count") => {
                calls += 1;
                // Whoever answers, somebody does; before the swap it is the old one.
                assert!(answer == (old, calls) || names(&one).await.contains(&"a_new".to_owned()));
            }
        }
    };
    assert!(calls > 5, "{calls}");
    assert_eq!(reload.steps[0].outcome, Outcome::Done);
    assert!(names(&one).await.contains(&"a_new".to_owned()));
    let new = counted(&one, "a_count").await.0;
    assert_ne!(new, old);
    until("the old one has ended", || !is_alive(old)).await;
    within(host.close()).await;
}

#[tokio::test]
async fn dom_77_what_does_not_start_leaves_the_old_one_serving_and_hinders_nobody() {
    let stage = Stage::new();
    let (a, b) = (stage.minded(counting(), "a"), stage.minded(counting(), "b"));
    stage.minds(&json!({"a": a, "b": b}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let (old_a, old_b) = (counted(&one, "a_count").await.0, counted(&one, "b_count").await.0);
    let broken = stage.minded(counting().start([Step::Exit(3)]), "a");
    let mut changed = b.clone();
    changed["env"] = json!({"X": "1"});
    stage.minds(&json!({"a": broken, "b": changed}));
    let reload = within(host.reload()).await.unwrap();
    assert!(matches!(reload.steps[0].outcome, Outcome::Failed(_)), "{reload:?}");
    assert_eq!(reload.steps[1].outcome, Outcome::Done);
    // DOM-77: A is the old one, B the new one. DOM-82: the problem names the server and the reason.
    assert_eq!(counted(&one, "a_count").await, (old_a, 2));
    assert_ne!(counted(&one, "b_count").await.0, old_b);
    let kept: Vec<_> =
        host.problems().into_iter().filter(|it| it.code == "reload.kept_last_good").collect();
    assert_eq!(kept.len(), 1, "{:?}", wrongs(&host));
    assert!(kept[0].text.contains("`a`") && kept[0].source.as_deref() == Some(".minds/mcp.yaml"));
    // What is written again as it was is what already serves.
    stage.minds(&json!({"a": a, "b": changed}));
    within(host.reload()).await.unwrap();
    assert_eq!(counted(&one, "a_count").await, (old_a, 3));
    assert!(wrongs(&host).is_empty(), "{:?}", wrongs(&host));
    within(host.close()).await;
}

#[tokio::test]
async fn what_did_not_start_is_tried_again_by_its_policy_and_takes_over() {
    let stage = Stage::new();
    stage.servers(&json!({"a": stage.scripted(counting(), "a")}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let old = counted(&one, "a__count").await.0;
    let exits = vec![vec![Step::Exit(1)]; 6];
    let turns = exits.into_iter().chain([vec![]]).collect();
    let mut entry = stage.scripted(starting(&stage, turns, counting()), "a");
    entry["lifecycle"] =
        json!({"retry": {"max": 20, "initial": "100ms", "max_delay": "100ms", "jitter": 0}});
    entry["protocol"] = json!("legacy");
    stage.servers(&json!({"a": entry}));
    within(host.reload()).await.unwrap();
    assert!(has_problem(&host, "reload.kept_last_good", "a"), "{:?}", wrongs(&host));
    assert_eq!(counted(&one, "a__count").await, (old, 2));
    until("the new one has taken over", || wrongs(&host).is_empty()).await;
    assert_ne!(counted(&one, "a__count").await.0, old);
    until("the old one has ended", || !is_alive(old)).await;
    within(host.close()).await;
}

#[tokio::test]
async fn what_nobody_tries_again_can_be_restarted() {
    let stage = Stage::new();
    stage.minds(&json!({"a": stage.minded(counting(), "a")}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let old = counted(&one, "a_count").await.0;
    let turns = vec![vec![Step::Exit(1)], vec![]];
    stage.minds(&json!({"a": stage.minded(starting(&stage, turns, counting()), "a")}));
    within(host.reload()).await.unwrap();
    assert!(has_problem(&host, "reload.kept_last_good", "a"));
    within(host.restart("a")).await.unwrap();
    assert!(wrongs(&host).is_empty(), "{:?}", wrongs(&host));
    assert_ne!(counted(&one, "a_count").await.0, old);
    within(host.close()).await;
}

#[tokio::test]
async fn dom_83_a_list_that_breaks_off_is_no_list() {
    let stage = Stage::new();
    let tools = |count: usize| (0..count).map(|n| format!("t{n}")).collect::<Vec<_>>();
    stage.minds(&json!({"a": stage.minded(Script { tools: tools(4), ..counting() }, "a")}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let before = names(&one).await;
    // The second page fails.
    let turns =
        vec![vec![Step::Answer], vec![Step::Error { code: -32603, message: "broken".into() }]];
    let listing = Step::Turns { count: stage.log_path("pages"), turns };
    let script = Script { tools: tools(8), page: 5, ..counting() }.on("tools/list", [listing]);
    stage.minds(&json!({"a": stage.minded(script, "a")}));
    within(host.reload()).await.unwrap();
    assert_eq!(names(&one).await, before);
    assert!(has_problem(&host, "reload.kept_last_good", "a"));
    assert_eq!(stage.count("a", "tools/list"), 3);
    within(host.close()).await;
}

#[tokio::test]
async fn what_cannot_stand_beside_the_old_one_comes_after_it() {
    let stage = Stage::new();
    // A lock that only one of them can have, as of a port.
    let lock = stage.log_path("lock").display().to_string();
    let locked = |script: Script| {
        let program = stage.scripted(script, "a");
        let shell = "exec flock --nonblock \"$0\" \"$1\" \"$2\"";
        json!({"command": "sh", "args": ["-c", shell, lock, program["command"], program["args"][0]],
            "replace": "stop_first", "session": {"scope": "shared"}, "lifecycle": {"retry": {"max": 0}}})
    };
    stage.servers(&json!({"a": locked(counting())}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let old = counted(&one, "a__count").await.0;
    for number in 0..2 {
        let mut entry = locked(Script { tools: vec![format!("new{number}")], ..counting() });
        entry["env"] = json!({"N": number.to_string()});
        stage.servers(&json!({"a": entry}));
        within(host.reload()).await.unwrap();
    }
    until("the last one serves", || {
        server(&host, "a").state == State::Ready && server(&host, "a").tools == 5
    })
    .await;
    assert!(names(&one).await.contains(&"a__new1".to_owned()));
    assert!(!is_alive(old));
    let env: Value = serde_json::from_str(&text(&one, "a__env", &json!({})).await).unwrap();
    assert_eq!(env["env"]["N"], "1");
    until("nothing drains any more", || host.status().draining == 0).await;
    within(host.close()).await;
}

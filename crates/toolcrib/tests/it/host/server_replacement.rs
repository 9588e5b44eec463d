//! Replacement of a changed server by its successor.

use serde_json::{Value, json};
use toolcrib::ReloadOutcome;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_upstream::conn::ServerState;

use super::workspace::{
    TestWorkspace, call_count, call_text, counting_script, has_problem, is_alive, open_dialog,
    problem_codes, server_status, tool_names, wait_until,
};

/// A script with given first starts. A file counts the starts.
fn script_with_starts(workspace: &TestWorkspace, turns: Vec<Vec<Step>>, script: Script) -> Script {
    script.start([Step::Sequence { count: workspace.log_path("starts"), turns }])
}

#[tokio::test]
async fn dom_76_old_server_serves_until_its_successor_is_ready() {
    let workspace = TestWorkspace::new();
    workspace.write_minds(&json!({"a": workspace.minds_entry(counting_script(), "a")}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let old = call_count(&one, "a_count").await.0;
    let script =
        Script { tools: vec!["new".into()], ..counting_script() }.start([Step::Sleep(800)]);
    workspace.write_minds(&json!({"a": workspace.minds_entry(script, "a")}));
    let reload = host.reload();
    tokio::pin!(reload);
    let mut calls = 1;
    let reload = loop {
        tokio::select! {
            reload = &mut reload => break reload.unwrap(),
            answer = call_count(&one, "a_count") => {
                calls += 1;
                // Every call is answered; before the swap by the old server.
                assert!(answer == (old, calls) || tool_names(&one).await.contains(&"a_new".to_owned()));
            }
        }
    };
    assert!(calls > 5, "{calls}");
    assert_eq!(reload.steps[0].outcome, ReloadOutcome::Done);
    assert!(tool_names(&one).await.contains(&"a_new".to_owned()));
    let new = call_count(&one, "a_count").await.0;
    assert_ne!(new, old);
    wait_until("the old process has ended", || !is_alive(old)).await;
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dom_77_failed_successor_leaves_the_old_server_running() {
    let workspace = TestWorkspace::new();
    let (a, b) = (
        workspace.minds_entry(counting_script(), "a"),
        workspace.minds_entry(counting_script(), "b"),
    );
    workspace.write_minds(&json!({"a": a, "b": b}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let (old_a, old_b) = (call_count(&one, "a_count").await.0, call_count(&one, "b_count").await.0);
    let broken = workspace.minds_entry(counting_script().start([Step::Exit(3)]), "a");
    let mut changed = b.clone();
    changed["env"] = json!({"X": "1"});
    workspace.write_minds(&json!({"a": broken, "b": changed}));
    let reload = with_time_limit(host.reload()).await.unwrap();
    assert!(matches!(reload.steps[0].outcome, ReloadOutcome::Failed(_)), "{reload:?}");
    assert_eq!(reload.steps[1].outcome, ReloadOutcome::Done);
    // DOM-77: `a` is the old server, `b` the new one. DOM-82: the problem names the server and the
    // reason.
    assert_eq!(call_count(&one, "a_count").await, (old_a, 2));
    assert_ne!(call_count(&one, "b_count").await.0, old_b);
    let kept: Vec<_> =
        host.problems().into_iter().filter(|it| it.code == "reload.kept_last_good").collect();
    assert_eq!(kept.len(), 1, "{:?}", problem_codes(&host));
    assert!(kept[0].text.contains("`a`") && kept[0].source.as_deref() == Some(".minds/mcp.yaml"));
    // Restoring the old definition keeps the running server.
    workspace.write_minds(&json!({"a": a, "b": changed}));
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(call_count(&one, "a_count").await, (old_a, 3));
    assert!(problem_codes(&host).is_empty(), "{:?}", problem_codes(&host));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn failed_successor_is_retried_and_takes_over() {
    let workspace = TestWorkspace::new();
    workspace.write_servers(&json!({"a": workspace.scripted_entry(counting_script(), "a")}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let old = call_count(&one, "a__count").await.0;
    let exits = vec![vec![Step::Exit(1)]; 6];
    let turns = exits.into_iter().chain([vec![]]).collect();
    let mut entry =
        workspace.scripted_entry(script_with_starts(&workspace, turns, counting_script()), "a");
    entry["lifecycle"] =
        json!({"retry": {"max": 20, "initial": "100ms", "max_delay": "100ms", "jitter": 0}});
    entry["protocol"] = json!("legacy");
    workspace.write_servers(&json!({"a": entry}));
    with_time_limit(host.reload()).await.unwrap();
    assert!(has_problem(&host, "reload.kept_last_good", "a"), "{:?}", problem_codes(&host));
    assert_eq!(call_count(&one, "a__count").await, (old, 2));
    wait_until("the successor has taken over", || problem_codes(&host).is_empty()).await;
    assert_ne!(call_count(&one, "a__count").await.0, old);
    wait_until("the old process has ended", || !is_alive(old)).await;
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn failed_successor_can_be_restarted() {
    let workspace = TestWorkspace::new();
    workspace.write_minds(&json!({"a": workspace.minds_entry(counting_script(), "a")}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let old = call_count(&one, "a_count").await.0;
    let turns = vec![vec![Step::Exit(1)], vec![]];
    workspace.write_minds(&json!({"a": workspace.minds_entry(script_with_starts(&workspace, turns, counting_script()), "a")}));
    with_time_limit(host.reload()).await.unwrap();
    assert!(has_problem(&host, "reload.kept_last_good", "a"));
    with_time_limit(host.restart_server("a")).await.unwrap();
    assert!(problem_codes(&host).is_empty(), "{:?}", problem_codes(&host));
    assert_ne!(call_count(&one, "a_count").await.0, old);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dom_83_incomplete_list_is_not_published() {
    let workspace = TestWorkspace::new();
    let tools = |count: usize| (0..count).map(|n| format!("t{n}")).collect::<Vec<_>>();
    workspace.write_minds(
        &json!({"a": workspace.minds_entry(Script { tools: tools(4), ..counting_script() }, "a")}),
    );
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let before = tool_names(&one).await;
    // The second page fails.
    let turns =
        vec![vec![Step::Respond], vec![Step::Error { code: -32603, message: "broken".into() }]];
    let listing = Step::Sequence { count: workspace.log_path("pages"), turns };
    let script =
        Script { tools: tools(8), page: 5, ..counting_script() }.on("tools/list", [listing]);
    workspace.write_minds(&json!({"a": workspace.minds_entry(script, "a")}));
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(tool_names(&one).await, before);
    assert!(has_problem(&host, "reload.kept_last_good", "a"));
    assert_eq!(workspace.count_messages("a", "tools/list"), 3);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn stop_first_successor_starts_after_the_old_server_ends() {
    let workspace = TestWorkspace::new();
    // A lock that only one process can hold, like a port.
    let lock = workspace.log_path("lock").display().to_string();
    let locked = |script: Script| {
        let program = workspace.scripted_entry(script, "a");
        let shell = "exec flock --nonblock \"$0\" \"$1\" \"$2\"";
        json!({"command": "sh", "args": ["-c", shell, lock, program["command"], program["args"][0]],
            "replace": "stop_first", "session": {"scope": "shared"}, "lifecycle": {"retry": {"max": 0}}})
    };
    workspace.write_servers(&json!({"a": locked(counting_script())}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let old = call_count(&one, "a__count").await.0;
    for number in 0..2 {
        let mut entry = locked(Script { tools: vec![format!("new{number}")], ..counting_script() });
        entry["env"] = json!({"N": number.to_string()});
        workspace.write_servers(&json!({"a": entry}));
        with_time_limit(host.reload()).await.unwrap();
    }
    wait_until("the last definition runs", || {
        server_status(&host, "a").state == ServerState::Ready
            && server_status(&host, "a").tools == 5
    })
    .await;
    assert!(tool_names(&one).await.contains(&"a__new1".to_owned()));
    assert!(!is_alive(old));
    let env: Value = serde_json::from_str(&call_text(&one, "a__env", &json!({})).await).unwrap();
    assert_eq!(env["env"]["N"], "1");
    wait_until("no server drains", || host.status().draining == 0).await;
    with_time_limit(host.close()).await;
}

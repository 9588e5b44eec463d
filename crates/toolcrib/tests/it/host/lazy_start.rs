//! When lists are read: in the background, or for the first list.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib::HostEvent;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_upstream::conn::ServerState;

use super::workspace::{
    TestWorkspace, call_text, counting_script, open_dialog, server_status, tool_names,
    wait_for_event, wait_until,
};

#[tokio::test]
async fn dom_22_first_list_waits_for_a_slow_server() {
    let workspace = TestWorkspace::new();
    workspace.write_minds(
        &json!({"a": workspace.minds_entry(Script::default().start([Step::Sleep(500)]), "a")}),
    );
    let host = with_time_limit(workspace.builder().start()).await.unwrap();
    // Only the list itself waits for the server.
    let one = open_dialog(&host, "default").await;
    assert_eq!(tool_names(&one).await, ["a_echo", "a_fail", "a_env"]);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dom_23_per_turn_host_rereads_files_before_each_turn() {
    let workspace = TestWorkspace::new();
    let write = |tool: &str| {
        let mut entry =
            workspace.scripted_entry(Script { tools: vec![tool.into()], ..Script::default() }, "a");
        entry["lifecycle"] = json!({"connect": "on_first_list"});
        workspace.write_native(&json!({"version": 1, "host": {"reload": {"mode": "per_turn"}}, "servers": {"a": entry}}));
    };
    write("first");
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    // Longer than a start takes: no server starts before it is needed.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((server_status(&host, "a").state, workspace.log("a").len()), (ServerState::Idle, 0));
    assert!(tool_names(&one).await.contains(&"a__first".to_owned()));
    // The next list after an edit has the new tool.
    write("second");
    let seen = tool_names(&one).await;
    assert!(seen.contains(&"a__second".to_owned()) && !seen.contains(&"a__first".to_owned()));
    // Without a change nothing is read, so the version stays.
    let version = host.snapshot_version();
    drop(tool_names(&one).await);
    assert_eq!(host.snapshot_version(), version);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dkr_13_14_concurrent_lists_share_one_discovery() {
    let workspace = TestWorkspace::new();
    let mut entry = workspace.scripted_entry(Script::default().start([Step::Sleep(200)]), "a");
    entry["lifecycle"] = json!({"connect": "on_first_list"});
    workspace.write_servers(&json!({"a": entry}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    // DKR-14: ten concurrent lists cause one discovery. DKR-13: later lists use its result.
    let lists = futures_util::future::join_all((0..10).map(|_| tool_names(&one))).await;
    assert!(lists.iter().all(|list| list.len() == 3), "{lists:?}");
    for _ in 0..10 {
        assert_eq!(tool_names(&one).await.len(), 3);
    }
    assert_eq!(workspace.count_messages("a", "tools/list"), 1);
    with_time_limit(host.close()).await;
}

fn list_result(tools: &[&str]) -> Step {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    Step::Result(
        json!({"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
    )
}

/// A server that changes its list, and announces the change when its tool `grow` is called.
fn growing_script(workspace: &TestWorkspace) -> Script {
    let turns =
        vec![vec![list_result(&["grow", "old"])], vec![list_result(&["grow", "new", "more"])]];
    let changed = Step::Notify {
        method: "notifications/tools/list_changed".into(),
        params: json!({}),
        times: 1,
    };
    Script { legacy_only: true, ..Script::default() }
        .on("tools/list", [Step::Sequence { count: workspace.log_path("lists"), turns }])
        .on("tools/call grow", [changed, Step::Respond])
}

#[tokio::test]
async fn dkr_44_changed_list_is_reread_and_announced() {
    let workspace = TestWorkspace::new();
    let mut entry = workspace.scripted_entry(growing_script(&workspace), "a");
    entry["session"] = json!({"scope": "shared"});
    workspace.write_servers(&json!({"a": entry}));
    let host = workspace.start_host().await;
    wait_until("the server is ready", || server_status(&host, "a").state == ServerState::Ready)
        .await;
    let one = open_dialog(&host, "default").await;
    assert_eq!(tool_names(&one).await, ["a__grow", "a__old"]);
    let mut events = host.subscribe();
    let turn = with_time_limit(one.turn()).await;
    call_text(&one, "a__grow", &json!({})).await;
    let changes = wait_for_event(&mut events, |event| match event {
        HostEvent::ListsChanged { changes, .. } => Some(changes.len()),
        _ => None,
    })
    .await;
    assert_eq!(changes, 3);
    wait_for_event(&mut events, |event| {
        matches!(event, HostEvent::SnapshotPublished { .. }).then_some(())
    })
    .await;
    assert_eq!(tool_names(&one).await, ["a__grow", "a__new", "a__more"]);
    assert_eq!(turn.tools().len(), 2);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_64_changed_list_waits_for_a_refresh_by_policy() {
    let workspace = TestWorkspace::new();
    let mut entry = workspace.scripted_entry(growing_script(&workspace), "a");
    entry["session"] = json!({"scope": "shared"});
    entry["discovery"] = json!({"on_list_changed": "mark_stale"});
    workspace.write_servers(&json!({"a": entry}));
    let host = workspace.start_host().await;
    wait_until("the server is ready", || server_status(&host, "a").state == ServerState::Ready)
        .await;
    let one = open_dialog(&host, "default").await;
    call_text(&one, "a__grow", &json!({})).await;
    wait_until("the cache is stale", || server_status(&host, "a").cache.as_str() == "stale").await;
    assert_eq!(tool_names(&one).await, ["a__grow", "a__old"]);
    let mut events = host.subscribe();
    with_time_limit(host.refresh_server("a")).await.unwrap();
    assert_eq!(tool_names(&one).await, ["a__grow", "a__new", "a__more"]);
    // The change names the tool and the kind of change.
    let reported = wait_for_event(&mut events, |event| match event {
        HostEvent::ListsChanged { changes, .. } => {
            Some(changes.iter().map(ToString::to_string).collect::<Vec<_>>())
        }
        _ => None,
    })
    .await;
    assert!(
        reported.iter().any(|change| change.contains("old") && change.contains("removed")),
        "{reported:?}"
    );
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn background_server_is_listed_from_the_store_until_ready() {
    let workspace = TestWorkspace::new();
    let turns = vec![vec![], vec![Step::Sleep(3000)]];
    let slow = Step::Sequence { count: workspace.log_path("starts"), turns };
    workspace.write_servers(
        &json!({"a": workspace.scripted_entry(counting_script().start([slow]), "a")}),
    );
    let host = workspace.start_host().await;
    wait_until("the server is ready", || server_status(&host, "a").tools == 4).await;
    // The catalog is stored in the background.
    tokio::time::sleep(Duration::from_millis(300)).await;
    with_time_limit(host.close()).await;
    let host = with_time_limit(workspace.builder().start()).await.unwrap();
    with_time_limit(host.wait_until_ready()).await;
    assert_eq!(server_status(&host, "a").state, ServerState::Connecting);
    assert_eq!(tool_names(&open_dialog(&host, "default").await).await.len(), 4);
    with_time_limit(host.close()).await;
}

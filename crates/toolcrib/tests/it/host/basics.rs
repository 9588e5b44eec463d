//! The life of a host from start to close.

use serde_json::json;
use toolcrib::ErrorKind;
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{
    TestWorkspace, call_text, call_tool, is_alive, open_dialog, server_status, tool_names,
    wait_until,
};

#[tokio::test]
async fn host_lists_calls_reloads_and_leaves_no_process() {
    let workspace = TestWorkspace::new();
    workspace.write_servers(&json!({"one": workspace.scripted_entry(Script::default(), "one")}));
    let host = workspace.start_host().await;
    let dialog = open_dialog(&host, "default").await;
    let seen = tool_names(&dialog).await;
    assert!(seen.contains(&"one__echo".to_owned()), "{seen:?}");
    let called = call_tool(&dialog, "one__echo", &json!({"text": "hello"})).await.unwrap();
    assert!(called.result.raw().text().contains("hello"));
    assert_eq!((called.facts.server.as_str(), called.facts.attempts), ("one", 1));
    let unknown = call_tool(&dialog, "one__nothing", &json!({})).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::UnknownTool);

    let (version, pid) = (host.snapshot_version(), server_status(&host, "one").pid);
    workspace.write_servers(&json!({
        "one": workspace.scripted_entry(Script::default(), "one"),
        "two": workspace.scripted_entry(Script::default(), "two"),
    }));
    let reload = with_time_limit(host.reload()).await.unwrap();
    assert_eq!(reload.steps.len(), 2);
    assert!(host.snapshot_version() > version);
    assert!(call_text(&dialog, "two__echo", &json!({"text": "hi"})).await.contains("hi"));
    assert_eq!(server_status(&host, "one").pid, pid);
    let pids: Vec<u32> = host.servers().iter().filter_map(|server| server.pid).collect();
    assert_eq!(pids.len(), 2);
    with_time_limit(host.close()).await;
    wait_until("no process is left", || pids.iter().all(|pid| !is_alive(*pid))).await;
}

//! Sessions that a dialog leases, from the first call to the release.

use std::time::Duration;

use serde_json::json;
use toolcrib::ErrorKind;
use toolcrib_testkit::scripted::Step;
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{
    TestWorkspace, call_count, call_text, call_tool, counting_script, error_kind, is_alive,
    open_dialog, request, server_status, tool_names, wait_until,
};

#[tokio::test]
async fn dom_59_to_63_dialog_keeps_its_process_until_release() {
    let workspace = TestWorkspace::new();
    workspace.write_minds(&json!({"a": workspace.minds_entry(counting_script(), "a")}));
    let host = workspace.start_host().await;
    let (one, two, idle) = (
        open_dialog(&host, "default").await,
        open_dialog(&host, "default").await,
        open_dialog(&host, "default").await,
    );
    // DOM-59, DOM-61: two concurrent dialogs have two processes and share no state.
    let (first, other) = tokio::join!(call_count(&one, "a_count"), call_count(&two, "a_count"));
    assert_ne!(first.0, other.0);
    assert_eq!((first.1, other.1), (1, 1));
    // DOM-60: the same process serves the dialog's later calls.
    assert_eq!(call_count(&one, "a_count").await, (first.0, 2));
    assert_eq!(call_count(&one, "a_count").await, (first.0, 3));
    // DOM-62: one reminder for any number of calls.
    let reminders = one.reminders();
    assert_eq!(reminders.len(), 1);
    assert!(reminders[0].text.contains("mcp_release") && reminders[0].server == "a");
    assert!(idle.reminders().is_empty());
    let leases = one.leases();
    assert_eq!((leases.len(), &*leases[0].server, leases[0].in_flight), (1, "a", 0));
    assert_eq!(host.status().leases, 2);

    // DOM-63: only a dialog with a lease has the tool that releases it.
    assert!(tool_names(&one).await.contains(&"mcp_release".to_owned()));
    assert!(!tool_names(&idle).await.contains(&"mcp_release".to_owned()));
    let of_a = json!({"serverId": "a"});
    assert_eq!(error_kind(call_tool(&idle, "mcp_release", &of_a).await), ErrorKind::UnknownTool);
    assert_eq!(call_text(&one, "mcp_release", &of_a).await, "released `a`");
    wait_until("the released process has ended", || !is_alive(first.0)).await;
    assert!(is_alive(other.0) && one.reminders().is_empty() && one.leases().is_empty());
    assert_eq!(call_count(&two, "a_count").await, (other.0, 2));
    let again = call_count(&one, "a_count").await;
    assert!(again.0 != first.0 && again.0 != other.0 && again.1 == 1);
    with_time_limit(host.close()).await;
    wait_until("no process is left", || !is_alive(other.0) && !is_alive(again.0)).await;
}

#[tokio::test]
async fn dom_64_stateless_server_serves_all_dialogs() {
    let workspace = TestWorkspace::new();
    let mut entry = workspace.minds_entry(counting_script(), "a");
    entry["truely-stateless"] = json!(true);
    workspace.write_minds(&json!({"a": entry}));
    let host = workspace.start_host().await;
    let (one, two) = (open_dialog(&host, "default").await, open_dialog(&host, "default").await);
    let pid = call_count(&one, "a_count").await.0;
    assert_eq!(call_count(&two, "a_count").await, (pid, 2));
    assert_eq!(server_status(&host, "a").pid, Some(pid));
    assert!(one.reminders().is_empty() && one.leases().is_empty());
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn closed_dialog_loses_its_lease_and_gets_no_other() {
    let workspace = TestWorkspace::new();
    let script = counting_script().on("tools/call slow", [Step::Sleep(60_000)]);
    workspace.write_minds(&json!({"a": workspace.minds_entry(script, "a")}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let pid = call_count(&one, "a_count").await.0;
    let job = one.start_call(request("a_slow", &json!({}))).unwrap();
    wait_until("the call is running", || workspace.count_messages("a", "tools/call") == 2).await;
    with_time_limit(one.close()).await;
    wait_until("its process has ended", || !is_alive(pid)).await;
    assert!(one.poll_call(job).is_none());
    // A handle to a closed dialog cannot reopen it.
    assert_eq!(error_kind(call_tool(&one, "a_count", &json!({})).await), ErrorKind::Cancelled);
    wait_until("no lease is left", || host.status().leases == 0).await;
    assert_eq!(host.status().dialogs, 0);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn idle_lease_expires() {
    let workspace = TestWorkspace::new();
    let mut entry = workspace.scripted_entry(counting_script(), "a");
    entry["session"] = json!({"idle": "300ms"});
    workspace.write_servers(&json!({"a": entry}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let pid = call_count(&one, "a__count").await.0;
    assert_eq!(one.leases().len(), 1);
    wait_until("the idle process has ended", || !is_alive(pid)).await;
    wait_until("the lease is gone", || one.leases().is_empty()).await;
    let again = call_count(&one, "a__count").await;
    assert_ne!(again.0, pid);
    assert_eq!(again.1, 1);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn call_without_free_session_waits_until_its_deadline() {
    let workspace = TestWorkspace::new();
    let mut entry = workspace.scripted_entry(counting_script(), "a");
    entry["session"] = json!({"max_instances": 1});
    workspace.write_servers(&json!({"a": entry}));
    let host = workspace.start_host().await;
    let (one, two) = (open_dialog(&host, "default").await, open_dialog(&host, "default").await);
    let pid = call_count(&one, "a__count").await.0;
    let mut impatient = request("a__count", &json!({}));
    impatient.timeout = Some(Duration::from_millis(300));
    assert_eq!(error_kind(with_time_limit(two.call(impatient)).await), ErrorKind::Resource);
    let waits = two.start_call(request("a__count", &json!({}))).unwrap();
    assert!(one.release_lease("a"));
    let done = with_time_limit(two.wait_for_call(waits)).await.unwrap();
    assert!(done.outcome.unwrap().raw().text().contains(r#"\"count\":1"#));
    assert!(!one.release_lease("a") && !is_alive(pid));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn lost_session_affects_only_its_dialog() {
    let workspace = TestWorkspace::new();
    let script = counting_script().on("tools/call die", [Step::Exit(1)]);
    workspace.write_minds(&json!({"a": workspace.minds_entry(script, "a")}));
    let host = workspace.start_host().await;
    let (one, two) = (open_dialog(&host, "default").await, open_dialog(&host, "default").await);
    let (first, other) = (call_count(&one, "a_count").await.0, call_count(&two, "a_count").await.0);
    // The first lease is the main session. The end of this session is not the server's end.
    assert_eq!(server_status(&host, "a").pid, Some(first));
    assert_eq!(error_kind(call_tool(&one, "a_die", &json!({})).await), ErrorKind::Connection);
    wait_until("the process has ended", || !is_alive(first)).await;
    assert!(tool_names(&two).await.contains(&"a_count".to_owned()));
    assert_eq!(call_count(&two, "a_count").await, (other, 2));
    // DOM-94: the next call of the dialog starts a new process.
    let again = call_count(&one, "a_count").await;
    assert!(again.0 != other && again.1 == 1);
    with_time_limit(host.close()).await;
}

//! Sessions that a dialog has for itself, from the first call to their end.

use std::time::Duration;

use serde_json::json;
use toolcrib::shape::ErrorKind;
use toolcrib_testkit::scripted::Step;
use toolcrib_testkit::time_limit::within;

use super::stage::{
    Stage, call, counted, counting, dialog, is_alive, kind, names, request, server, text, until,
};

#[tokio::test]
async fn dom_59_to_63_a_dialog_has_its_own_process_until_it_gives_it_back() {
    let stage = Stage::new();
    stage.minds(&json!({"a": stage.minded(counting(), "a")}));
    let host = stage.host().await;
    let (one, two, idle) = (
        dialog(&host, "default").await,
        dialog(&host, "default").await,
        dialog(&host, "default").await,
    );
    // DOM-59, DOM-61: two dialogs, side by side, two processes, and nothing of one shows in the other.
    let (first, other) = tokio::join!(counted(&one, "a_count"), counted(&two, "a_count"));
    assert_ne!(first.0, other.0);
    assert_eq!((first.1, other.1), (1, 1));
    // DOM-60: the same one serves the dialog's later calls.
    assert_eq!(counted(&one, "a_count").await, (first.0, 2));
    assert_eq!(counted(&one, "a_count").await, (first.0, 3));
    // DOM-62: one reminder, however many calls.
    let reminders = one.reminders();
    assert_eq!(reminders.len(), 1);
    assert!(reminders[0].text.contains("mcp_release") && reminders[0].server == "a");
    assert!(idle.reminders().is_empty());
    let leases = one.leases();
    assert_eq!((leases.len(), &*leases[0].server, leases[0].in_flight), (1, "a", 0));
    assert_eq!(host.status().leases, 2);

    // DOM-63: whoever has a lease has the tool that ends it, and nobody else.
    assert!(names(&one).await.contains(&"mcp_release".to_owned()));
    assert!(!names(&idle).await.contains(&"mcp_release".to_owned()));
    let of_a = json!({"serverId": "a"});
    assert_eq!(kind(call(&idle, "mcp_release", &of_a).await), ErrorKind::UnknownTool);
    assert_eq!(text(&one, "mcp_release", &of_a).await, "released `a`");
    until("the released process has ended", || !is_alive(first.0)).await;
    assert!(is_alive(other.0) && one.reminders().is_empty() && one.leases().is_empty());
    assert_eq!(counted(&two, "a_count").await, (other.0, 2));
    let again = counted(&one, "a_count").await;
    assert!(again.0 != first.0 && again.0 != other.0 && again.1 == 1);
    within(host.close()).await;
    until("nothing is left", || !is_alive(other.0) && !is_alive(again.0)).await;
}

#[tokio::test]
async fn dom_64_what_is_stateless_serves_all_dialogs() {
    let stage = Stage::new();
    let mut entry = stage.minded(counting(), "a");
    entry["truely-stateless"] = json!(true);
    stage.minds(&json!({"a": entry}));
    let host = stage.host().await;
    let (one, two) = (dialog(&host, "default").await, dialog(&host, "default").await);
    let pid = counted(&one, "a_count").await.0;
    assert_eq!(counted(&two, "a_count").await, (pid, 2));
    assert_eq!(server(&host, "a").pid, Some(pid));
    assert!(one.reminders().is_empty() && one.leases().is_empty());
    within(host.close()).await;
}

#[tokio::test]
async fn a_lease_ends_with_its_dialog_and_no_other_begins() {
    let stage = Stage::new();
    let script = counting().on("tools/call slow", [Step::Sleep(60_000)]);
    stage.minds(&json!({"a": stage.minded(script, "a")}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let pid = counted(&one, "a_count").await.0;
    let job = one.start(request("a_slow", &json!({}))).unwrap();
    until("the call is under way", || stage.count("a", "tools/call") == 2).await;
    within(one.end()).await;
    until("its process has ended", || !is_alive(pid)).await;
    assert!(one.poll(job).is_none());
    // Who still has the dialog in hand cannot bring it back to life.
    assert_eq!(kind(call(&one, "a_count", &json!({})).await), ErrorKind::Cancelled);
    until("no lease is left", || host.status().leases == 0).await;
    assert_eq!(host.status().dialogs, 0);
    within(host.close()).await;
}

#[tokio::test]
async fn an_idle_lease_ends_by_itself() {
    let stage = Stage::new();
    let mut entry = stage.scripted(counting(), "a");
    entry["session"] = json!({"idle": "300ms"});
    stage.servers(&json!({"a": entry}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let pid = counted(&one, "a__count").await.0;
    assert_eq!(one.leases().len(), 1);
    until("the idle process has ended", || !is_alive(pid)).await;
    until("the lease is gone", || one.leases().is_empty()).await;
    let again = counted(&one, "a__count").await;
    assert_ne!(again.0, pid);
    assert_eq!(again.1, 1);
    within(host.close()).await;
}

#[tokio::test]
async fn who_finds_no_free_session_waits_for_one_until_its_deadline() {
    let stage = Stage::new();
    let mut entry = stage.scripted(counting(), "a");
    entry["session"] = json!({"max_instances": 1});
    stage.servers(&json!({"a": entry}));
    let host = stage.host().await;
    let (one, two) = (dialog(&host, "default").await, dialog(&host, "default").await);
    let pid = counted(&one, "a__count").await.0;
    let mut impatient = request("a__count", &json!({}));
    impatient.timeout = Some(Duration::from_millis(300));
    assert_eq!(kind(within(two.call(impatient)).await), ErrorKind::Resource);
    let waits = two.start(request("a__count", &json!({}))).unwrap();
    assert!(one.release("a"));
    let done = within(two.wait(waits)).await.unwrap();
    assert!(done.outcome.unwrap().raw().text().contains(r#"\"count\":1"#));
    assert!(!one.release("a") && !is_alive(pid));
    within(host.close()).await;
}

#[tokio::test]
async fn a_session_that_is_lost_is_lost_to_its_dialog_alone() {
    let stage = Stage::new();
    let script = counting().on("tools/call die", [Step::Exit(1)]);
    stage.minds(&json!({"a": stage.minded(script, "a")}));
    let host = stage.host().await;
    let (one, two) = (dialog(&host, "default").await, dialog(&host, "default").await);
    let (first, other) = (counted(&one, "a_count").await.0, counted(&two, "a_count").await.0);
    // The first lease is the session in which the lists were read; its end is not the server's.
    assert_eq!(server(&host, "a").pid, Some(first));
    assert_eq!(kind(call(&one, "a_die", &json!({})).await), ErrorKind::Connection);
    until("it has ended", || !is_alive(first)).await;
    assert!(names(&two).await.contains(&"a_count".to_owned()));
    assert_eq!(counted(&two, "a_count").await, (other, 2));
    // DOM-94: the very next call of the dialog begins anew.
    let again = counted(&one, "a_count").await;
    assert!(again.0 != other && again.1 == 1);
    within(host.close()).await;
}

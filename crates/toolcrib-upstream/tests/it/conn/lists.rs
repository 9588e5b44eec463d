//! List changes, failures and expiry during a session.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{CacheState, ConnEvent, Demand, FailureKind, ServerState};

use crate::test_host::{TestHost, tool_names, wait_until, with_time_limit};

fn listing(names: &[&str]) -> Vec<Step> {
    let tools: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    vec![Step::Result(json!({"tools": tools, "resultType": "complete"}))]
}

/// Script of a server with another list at the second reading. A call of `echo` sends the notifications.
fn changing(host: &TestHost, script: Script) -> Script {
    let turns = vec![listing(&["echo", "old"]), listing(&["echo", "new", "more"])];
    let changed = Step::Notify {
        method: "notifications/tools/list_changed".to_owned(),
        params: json!({}),
        times: 3,
    };
    script
        .on("tools/list", [Step::Sequence { count: host.path().join("turns"), turns }])
        .on("tools/call echo", [changed, Step::Respond])
}

/// Acknowledgement of a subscription.
fn acknowledged() -> Step {
    let message = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": "$id"}, "notifications": {"toolsListChanged": true}}});
    Step::Message(message.to_string().replace("\"$id\"", "$id"))
}

#[tokio::test]
async fn dis_14_dkr_44_repeated_list_changes_cause_one_catalog_read() {
    let host = TestHost::new();
    let script = changing(&host, Script { legacy_only: true, ..Script::default() });
    let conn = host.start(host.server(&host.scripted(script, "log")));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["echo", "old"]);
    crate::test_host::call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    host.updates.wait_for(2, "listed").await;
    assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["echo", "new", "more"]);
    assert_eq!(host.count("log", "tools/list"), 2);
    // One tool was removed and two were added.
    assert!(
        host.updates.all().contains(&"listed 3 (3 changes)".to_owned()),
        "{:?}",
        host.updates.all()
    );
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn modern_list_changes_arrive_on_a_subscription() {
    let host = TestHost::new();
    let script = changing(&host, Script { modern_only: true, ..Script::default() })
        .on("subscriptions/listen", [acknowledged()]);
    let conn = host.start(host.server(&host.scripted(script, "log")));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    // A subscription after the list would miss changes in between.
    let methods = host.methods("log");
    assert_eq!(methods[..3], ["server/discover", "subscriptions/listen", "tools/list"]);
    assert_eq!(host.log("log")[1]["params"]["notifications"], json!({"toolsListChanged": true}));
    crate::test_host::call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    host.updates.wait_for(2, "listed").await;
    assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["echo", "new", "more"]);
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn catalog_is_read_again_when_the_subscription_starts_late() {
    let host = TestHost::new();
    // The server acknowledges only during a call, and never reports a change.
    let script = changing(&host, Script { modern_only: true, ..Script::default() })
        .on("subscriptions/listen", [Step::Barrier(2), acknowledged()])
        .on("tools/call echo", [Step::Barrier(2), Step::Respond]);
    let conn = host.start(host.server(&host.scripted(script, "log")));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["echo", "old"]);
    crate::test_host::call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    host.updates.wait_for(2, "listed").await;
    assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["echo", "new", "more"]);
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn dis_15_undeclared_list_change_has_no_effect() {
    let host = TestHost::new();
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}});
    let script = changing(&host, Script { legacy_only: true, ..Script::default() })
        .on("initialize", [Step::Result(result)]);
    let conn = host.start(host.server(&host.scripted(script, "log")));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    crate::test_host::call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    // The notification is forwarded like any other.
    host.updates.wait_for(1, "notification notifications/tools/list_changed").await;
    assert_eq!(host.count("log", "tools/list"), 1);
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn min_64_and_34_mark_stale_keeps_the_catalog_until_refresh() {
    let host = TestHost::new();
    let script = changing(&host, Script { legacy_only: true, ..Script::default() });
    let mut entry = host.scripted(script, "log");
    entry["discovery"] = json!({"on_list_changed": "mark_stale"});
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    crate::test_host::call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    wait_until("stale", || conn.view().lifecycle.cache() == CacheState::Stale).await;
    assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["echo", "old"]);
    with_time_limit(conn.send_event(ConnEvent::Refresh)).await; // MIN-34
    host.updates.wait_for(2, "listed").await;
    assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["echo", "new", "more"]);
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn dkr_15_min_22_a_failed_discovery_is_a_failed_start() {
    let host = TestHost::new();
    let script = Script::default()
        .on("tools/list", [Step::Error { code: -32603, message: "no list".to_owned() }]);
    let conn = host.start(host.server(&host.scripted(script, "log")));
    let failure = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Protocol);
    // MIN-23: the failed step comes first.
    assert!(failure.message.starts_with("failed to discover tools: "), "{}", failure.message);
    let view = conn.view();
    assert_eq!(view.lifecycle.state(), ServerState::Failed);
    assert!(view.catalog.is_none() && view.session.is_none());
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn failed_catalog_read_keeps_the_old_catalog_and_degrades() {
    let host = TestHost::new();
    let turns =
        vec![listing(&["a"]), vec![Step::Error { code: -32603, message: "broken".to_owned() }]];
    let script = Script::default()
        .on("tools/list", [Step::Sequence { count: host.path().join("turns"), turns }]);
    let conn = host.start(host.server(&host.scripted(script, "log")));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    with_time_limit(conn.send_event(ConnEvent::Refresh)).await;
    host.updates.wait_for(1, "state degraded").await;
    assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["a"]);
    assert!(conn.view().lifecycle.last_error().unwrap().1.message.contains("broken"));
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn min_35_expired_catalog_is_read_on_the_next_list() {
    let host = TestHost::new();
    let turns = vec![listing(&["a"]), listing(&["b"])];
    let script = Script::default()
        .on("tools/list", [Step::Sequence { count: host.path().join("turns"), turns }]);
    let mut entry = host.scripted(script, "log");
    entry["discovery"] = json!({"ttl": "50ms"});
    let conn = host.start(host.server(&entry));
    with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    wait_until("stale", || conn.view().lifecycle.cache() == CacheState::Stale).await;
    assert_eq!(host.count("log", "tools/list"), 1); // no demand yet
    with_time_limit(conn.acquire_session(Demand::List)).await.unwrap();
    host.updates.wait_for(2, "listed").await;
    assert_eq!(tool_names(&conn.view().catalog.unwrap()), ["b"]);
    drop(conn);
    host.close().await;
}

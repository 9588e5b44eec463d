//! The order of events, and listeners that are too slow.

use std::time::Duration;

use serde_json::json;
use toolcrib::HostEvent;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{
    TestWorkspace, call_tool, counting_script, open_dialog, request, tool_names, wait_until,
};

#[tokio::test]
async fn events_arrive_in_order() {
    let workspace = TestWorkspace::new();
    let script = counting_script()
        .on("tools/call work", [Step::Progress { times: 2, every: 1 }, Step::Respond])
        .on(
            "tools/call speak",
            [
                Step::Notify {
                    method: "notifications/message".into(),
                    params: json!({"level": "info", "data": "hello"}),
                    times: 1,
                },
                Step::Respond,
            ],
        )
        .on("tools/call die", [Step::Exit(1)]);
    let host = workspace.start_host().await;
    let mut events = host.subscribe();
    let mut entry = workspace.scripted_entry(Script { legacy_only: true, ..script }, "a");
    entry["lifecycle"] = json!({"connect": "eager"});
    workspace.write_servers(&json!({"a": entry}));
    with_time_limit(host.reload()).await.unwrap();
    let one = open_dialog(&host, "default").await;
    for tool in ["a__work", "a__speak"] {
        call_tool(&one, tool, &json!({})).await.unwrap();
    }
    assert!(one.release_lease("a"));
    wait_until("the lease is gone", || one.leases().is_empty()).await;
    with_time_limit(host.disable_server("a", "a person")).await.unwrap();
    let mut kinds: Vec<&str> = Vec::new();
    while let Ok(Some(event)) =
        tokio::time::timeout(Duration::from_millis(300), events.next()).await
    {
        if kinds.last() != Some(&event.kind()) {
            kinds.push(event.kind());
        }
        if let HostEvent::CallEnded { record, .. } = &*event {
            assert_eq!((&*record.ended, &*record.agent), ("ok", "default"));
        }
    }
    let index = |kind: &str| {
        let found = kinds.iter().position(|known| *known == kind);
        found.unwrap_or_else(|| panic!("no `{kind}` in {kinds:?}"))
    };
    // The server starts, lists its tools, and the reload ends; then come the events of the calls.
    let order = ["state", "tools", "reload", "lease", "progress", "call", "log"];
    assert!(order.windows(2).all(|pair| index(pair[0]) < index(pair[1])), "{kinds:?}");
    with_time_limit(host.close()).await;
    // The listener receives the end after all events.
    let ends = async { while events.next().await.is_some() {} };
    with_time_limit(ends).await;
    assert!(with_time_limit(host.subscribe().next()).await.is_none());
}

#[tokio::test]
async fn slow_listener_is_dropped_without_blocking() {
    let workspace = TestWorkspace::new();
    let host = workspace.start_host().await;
    let (mut slow, one) = (host.subscribe(), open_dialog(&host, "default").await);
    for _ in 0..3000 {
        assert!(one.turn_now().call(request("nothing", &json!({}))).await.is_err());
    }
    assert!(with_time_limit(slow.next()).await.is_none());
    assert!(with_time_limit(slow.next()).await.is_none());
    // A new listener receives new events.
    let mut fresh = host.subscribe();
    drop(tool_names(&one).await);
    assert!(one.turn_now().call(request("nothing", &json!({}))).await.is_err());
    assert_eq!(with_time_limit(fresh.next()).await.unwrap().kind(), "call");
    with_time_limit(host.close()).await;
}

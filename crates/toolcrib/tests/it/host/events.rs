//! What is told to whoever listens, in which order, and what becomes of those who do not keep up.

use std::time::Duration;

use serde_json::json;
use toolcrib::Event;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;

use super::stage::{Stage, call, counting, dialog, names, request, until};

#[tokio::test]
async fn everything_that_happens_is_told_in_order() {
    let stage = Stage::new();
    let script = counting()
        .on("tools/call work", [Step::Progress { times: 2, every: 1 }, Step::Answer])
        .on(
            "tools/call speak",
            [
                Step::Notify {
                    method: "notifications/message".into(),
                    params: json!({"level": "info", "data": "hello"}),
                    times: 1,
                },
                Step::Answer,
            ],
        )
        .on("tools/call die", [Step::Exit(1)]);
    let host = stage.host().await;
    let mut listening = host.listen();
    let mut entry = stage.scripted(Script { legacy_only: true, ..script }, "a");
    entry["lifecycle"] = json!({"connect": "eager"});
    stage.servers(&json!({"a": entry}));
    within(host.reload()).await.unwrap();
    let one = dialog(&host, "default").await;
    for tool in ["a__work", "a__speak"] {
        call(&one, tool, &json!({})).await.unwrap();
    }
    assert!(one.release("a"));
    until("the lease is gone", || one.leases().is_empty()).await;
    within(host.disable("a", "a person")).await.unwrap();
    let mut kinds: Vec<&str> = Vec::new();
    while let Ok(Some(event)) =
        tokio::time::timeout(Duration::from_millis(300), listening.next()).await
    {
        if kinds.last() != Some(&event.kind()) {
            kinds.push(event.kind());
        }
        if let Event::Called { record, .. } = &*event {
            assert_eq!((&*record.ended, &*record.agent), ("ok", "default"));
        }
    }
    let place = |kind: &str| {
        let found = kinds.iter().position(|known| *known == kind);
        found.unwrap_or_else(|| panic!("no `{kind}` in {kinds:?}"))
    };
    // A server comes up, is listed, published, and then the reload is over; then what calls bring.
    let order = ["state", "tools", "reload", "lease", "progress", "call", "log"];
    assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{kinds:?}");
    within(host.close()).await;
    // The end is the last that is heard.
    let ends = async { while listening.next().await.is_some() {} };
    within(ends).await;
    assert!(within(host.listen().next()).await.is_none());
}

#[tokio::test]
async fn a_listener_that_does_not_keep_up_is_dropped_and_nobody_waits_for_it() {
    let stage = Stage::new();
    let host = stage.host().await;
    let (mut slow, one) = (host.listen(), dialog(&host, "default").await);
    for _ in 0..3000 {
        assert!(one.turn_now().call(request("nothing", &json!({}))).await.is_err());
    }
    assert!(within(slow.next()).await.is_none());
    assert!(within(slow.next()).await.is_none());
    // Whoever begins to listen now hears what happens now.
    let mut fresh = host.listen();
    drop(names(&one).await);
    assert!(one.turn_now().call(request("nothing", &json!({}))).await.is_err());
    assert_eq!(within(fresh.next()).await.unwrap().kind(), "call");
    within(host.close()).await;
}

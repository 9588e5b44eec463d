//! A host from its start to its end.

use serde_json::json;
use toolcrib::shape::ErrorKind;
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::within;

use super::stage::{Stage, call, dialog, is_alive, names, server, text, until};

#[tokio::test]
async fn a_host_lists_calls_reloads_and_leaves_nothing() {
    let stage = Stage::new();
    stage.servers(&json!({"one": stage.scripted(Script::default(), "one")}));
    let host = stage.host().await;
    let dialog = dialog(&host, "default").await;
    let seen = names(&dialog).await;
    assert!(seen.contains(&"one__echo".to_owned()), "{seen:?}");
    let called = call(&dialog, "one__echo", &json!({"text": "hello"})).await.unwrap();
    assert!(called.result.raw().text().contains("hello"));
    assert_eq!((called.facts.server.as_str(), called.facts.attempts), ("one", 1));
    let unknown = call(&dialog, "one__nothing", &json!({})).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::UnknownTool);

    let (version, pid) = (host.version(), server(&host, "one").pid);
    stage.servers(&json!({
        "one": stage.scripted(Script::default(), "one"),
        "two": stage.scripted(Script::default(), "two"),
    }));
    let reload = within(host.reload()).await.unwrap();
    assert_eq!(reload.steps.len(), 2);
    assert!(host.version() > version);
    assert!(text(&dialog, "two__echo", &json!({"text": "hi"})).await.contains("hi"));
    assert_eq!(server(&host, "one").pid, pid);
    let pids: Vec<u32> = host.servers().iter().filter_map(|server| server.pid).collect();
    assert_eq!(pids.len(), 2);
    within(host.close()).await;
    until("nothing is left", || pids.iter().all(|pid| !is_alive(*pid))).await;
}

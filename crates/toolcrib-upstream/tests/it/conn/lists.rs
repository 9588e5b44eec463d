//! Lists that change, fail or grow old while a session is up.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{CacheState, Event, FailureKind, State, Want};

use crate::scene::{Scene, names, until, within};

fn listing(names: &[&str]) -> Vec<Step> {
    let tools: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    vec![Step::Result(json!({"tools": tools, "resultType": "complete"}))]
}

/// A server whose list is another the second time, and that says so when `echo` is called.
fn changing(scene: &Scene, script: Script) -> Script {
    let turns = vec![listing(&["echo", "old"]), listing(&["echo", "new", "more"])];
    let changed = Step::Notify {
        method: "notifications/tools/list_changed".to_owned(),
        params: json!({}),
        times: 3,
    };
    script
        .on("tools/list", [Step::Turns { count: scene.path().join("turns"), turns }])
        .on("tools/call echo", [changed, Step::Answer])
}

/// The first word on a subscription.
fn acknowledged() -> Step {
    let message = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": "$id"}, "notifications": {"toolsListChanged": true}}});
    Step::Message(message.to_string().replace("\"$id\"", "$id"))
}

#[tokio::test]
async fn dis_14_dkr_44_a_changed_list_is_read_anew_once_for_many_words() {
    // DKR-44 as well.
    let scene = Scene::new();
    let script = changing(&scene, Script { legacy_only: true, ..Script::default() });
    let conn = scene.start(scene.server(&scene.scripted(script, "log")));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    assert_eq!(names(&conn.view().catalog.unwrap()), ["echo", "old"]);
    crate::scene::tool(&ticket.session, "echo", &json!({})).await.unwrap();
    scene.heard.times(2, "listed").await;
    assert_eq!(names(&conn.view().catalog.unwrap()), ["echo", "new", "more"]);
    assert_eq!(scene.count("log", "tools/list"), 2);
    // The change is told with what changed: `old` went, two came.
    assert!(
        scene.heard.all().contains(&"listed 3 (3 changes)".to_owned()),
        "{:?}",
        scene.heard.all()
    );
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn in_the_modern_era_changes_come_on_a_subscription() {
    let scene = Scene::new();
    let script = changing(&scene, Script { modern_only: true, ..Script::default() })
        .on("subscriptions/listen", [acknowledged()]);
    let conn = scene.start(scene.server(&scene.scripted(script, "log")));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    // Who subscribes after reading the list does not hear of what changes in between.
    let asked = scene.methods("log");
    assert_eq!(asked[..3], ["server/discover", "subscriptions/listen", "tools/list"]);
    assert_eq!(scene.log("log")[1]["params"]["notifications"], json!({"toolsListChanged": true}));
    crate::scene::tool(&ticket.session, "echo", &json!({})).await.unwrap();
    scene.heard.times(2, "listed").await;
    assert_eq!(names(&conn.view().catalog.unwrap()), ["echo", "new", "more"]);
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn a_list_that_was_read_before_the_subscription_stood_is_read_again() {
    let scene = Scene::new();
    // The server agrees only when the session is up and used; it never says that anything changed.
    let script = changing(&scene, Script { modern_only: true, ..Script::default() })
        .on("subscriptions/listen", [Step::Hold(2), acknowledged()])
        .on("tools/call echo", [Step::Hold(2), Step::Answer]);
    let conn = scene.start(scene.server(&scene.scripted(script, "log")));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    assert_eq!(names(&conn.view().catalog.unwrap()), ["echo", "old"]);
    crate::scene::tool(&ticket.session, "echo", &json!({})).await.unwrap();
    scene.heard.times(2, "listed").await;
    assert_eq!(names(&conn.view().catalog.unwrap()), ["echo", "new", "more"]);
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn dis_15_a_change_that_was_not_declared_has_no_effect() {
    let scene = Scene::new();
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}});
    let script = changing(&scene, Script { legacy_only: true, ..Script::default() })
        .on("initialize", [Step::Result(result)]);
    let conn = scene.start(scene.server(&scene.scripted(script, "log")));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    crate::scene::tool(&ticket.session, "echo", &json!({})).await.unwrap();
    // The word was heard, as any other that means nothing to us.
    scene.heard.times(1, "told notifications/tools/list_changed").await;
    assert_eq!(scene.count("log", "tools/list"), 1);
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn min_64_and_34_a_stale_list_waits_for_a_refresh_where_policy_says_so() {
    let scene = Scene::new();
    let script = changing(&scene, Script { legacy_only: true, ..Script::default() });
    let mut entry = scene.scripted(script, "log");
    entry["discovery"] = json!({"on_list_changed": "mark_stale"});
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    crate::scene::tool(&ticket.session, "echo", &json!({})).await.unwrap();
    until("stale", || conn.view().life.cache() == CacheState::Stale).await;
    assert_eq!(names(&conn.view().catalog.unwrap()), ["echo", "old"]);
    within(conn.tell(Event::Refresh)).await; // MIN-34
    scene.heard.times(2, "listed").await;
    assert_eq!(names(&conn.view().catalog.unwrap()), ["echo", "new", "more"]);
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn dkr_15_min_22_a_failed_discovery_is_a_failed_start() {
    // MIN-22 as well.
    let scene = Scene::new();
    let script = Script::default()
        .on("tools/list", [Step::Error { code: -32603, message: "no list".to_owned() }]);
    let conn = scene.start(scene.server(&scene.scripted(script, "log")));
    let failure = within(conn.ready(Want::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Protocol);
    // MIN-23: which part failed is said first.
    assert!(failure.message.starts_with("failed to discover tools: "), "{}", failure.message);
    let view = conn.view();
    assert_eq!(view.life.state(), State::Failed);
    assert!(view.catalog.is_none() && view.session.is_none());
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_anew_leaves_the_old_one_and_says_so() {
    let scene = Scene::new();
    let turns =
        vec![listing(&["a"]), vec![Step::Error { code: -32603, message: "broken".to_owned() }]];
    let script = Script::default()
        .on("tools/list", [Step::Turns { count: scene.path().join("turns"), turns }]);
    let conn = scene.start(scene.server(&scene.scripted(script, "log")));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    within(conn.tell(Event::Refresh)).await;
    scene.heard.times(1, "state degraded").await;
    assert_eq!(names(&conn.view().catalog.unwrap()), ["a"]);
    assert!(conn.view().life.last_error().unwrap().1.message.contains("broken"));
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn min_35_an_old_list_is_read_anew_when_it_is_wanted() {
    let scene = Scene::new();
    let turns = vec![listing(&["a"]), listing(&["b"])];
    let script = Script::default()
        .on("tools/list", [Step::Turns { count: scene.path().join("turns"), turns }]);
    let mut entry = scene.scripted(script, "log");
    entry["discovery"] = json!({"ttl": "50ms"});
    let conn = scene.start(scene.server(&entry));
    within(conn.ready(Want::Call)).await.unwrap();
    until("stale", || conn.view().life.cache() == CacheState::Stale).await;
    assert_eq!(scene.count("log", "tools/list"), 1); // nobody wanted it yet
    within(conn.ready(Want::List)).await.unwrap();
    scene.heard.times(2, "listed").await;
    assert_eq!(names(&conn.view().catalog.unwrap()), ["b"]);
    drop(conn);
    scene.close().await;
}

//! Who has what: members, their toolsets, and what happens when files say otherwise.

use serde_json::json;
use toolcrib::shape::ErrorKind;
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::within;

use super::stage::{Stage, call, counting, dialog, kind, names, text, wrongs};

#[tokio::test]
async fn dom_85_86_87_a_member_has_what_it_lists() {
    let stage = Stage::new();
    let (a, b) = (stage.minded(counting(), "a"), stage.minded(Script::default(), "b"));
    stage.minds(&json!({"a": a, "b": b}));
    stage.team(&json!({"alice": {"toolsets": ["a"]}, "bob": {"toolsets": ["b", "c"]}}));
    let host = stage.host().await;
    let (alice, bob) = (dialog(&host, "alice").await, dialog(&host, "bob").await);
    // DOM-85.
    assert_eq!(names(&alice).await, ["a_echo", "a_fail", "a_env", "a_count"]);
    assert_eq!(names(&bob).await, ["b_echo", "b_fail", "b_env"]);
    assert_eq!(kind(call(&bob, "a_echo", &json!({})).await), ErrorKind::UnknownTool);
    assert_eq!(names(&dialog(&host, "nobody").await).await, [""; 0]);
    // DOM-86, DOM-87: what is not there is a warning with both names, and no more than that.
    let missing = || {
        let all = host.problems().into_iter().filter(|it| it.text.contains("Toolset not found"));
        all.map(|it| (it.agent.unwrap_or_default(), it.text)).collect::<Vec<_>>()
    };
    let told = missing();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].0 == "bob" && told[0].1.contains('c'));
    // Whoever changes the team changes it at once, though no server changed.
    stage.team(&json!({"alice": {"toolsets": ["b"]}, "bob": {"toolsets": ["b"]}}));
    within(host.reload()).await.unwrap();
    assert_eq!(names(&alice).await, ["b_echo", "b_fail", "b_env"]);
    assert!(missing().is_empty());
    // DOM-86: a server goes, and its members work on with less.
    stage.minds(&json!({"a": a}));
    within(host.reload()).await.unwrap();
    assert_eq!(names(&alice).await, [""; 0]);
    assert_eq!(missing().len(), 2);
    stage.minds(&json!({"a": a, "b": b}));
    within(host.reload()).await.unwrap();
    assert!(text(&alice, "b_echo", &json!({"x": 1})).await.contains('x'));
    assert!(missing().is_empty());
    within(host.close()).await;
}

#[tokio::test]
async fn nobody_gains_or_loses_a_right_by_a_slip() {
    let stage = Stage::new();
    let (a, b) = (stage.minded(Script::default(), "a"), stage.minded(counting(), "b"));
    stage.minds(&json!({"a": a, "b": b}));
    stage.team(&json!({"alice": {"toolsets": ["a"]}, "default": {"toolsets": ["b"]}}));
    let host = stage.host().await;
    let (alice, default) = (dialog(&host, "alice").await, dialog(&host, "default").await);
    let before = (names(&alice).await, names(&default).await);
    assert_eq!((before.0.len(), before.1.len()), (3, 4));
    // Of the grants it is also told that the last good ones stay.
    for (file, problems) in [(".minds/mcp.yaml", 1), (".minds/team.yaml", 2)] {
        stage.write(file, "members: {");
        within(host.reload()).await.unwrap();
        assert!(wrongs(&host).len() == problems, "{:?}", wrongs(&host));
        // Whatever is published next, for whatever reason, says the same.
        within(host.disable("b", "a person")).await.unwrap();
        within(host.enable("b", "a person")).await.unwrap();
        super::stage::until("it is up", || host.status().ready == 2).await;
        assert_eq!((names(&alice).await, names(&default).await), before, "{file}");
        stage.minds(&json!({"a": a, "b": b}));
        stage.team(&json!({"alice": {"toolsets": ["a"]}, "default": {"toolsets": ["b"]}}));
        within(host.reload()).await.unwrap();
        assert!(wrongs(&host).is_empty());
    }
    within(host.close()).await;
}

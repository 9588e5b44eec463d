//! Members and their toolsets, and the effect of broken files on grants.

use serde_json::json;
use toolcrib::ErrorKind;
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{
    TestWorkspace, call_text, call_tool, counting_script, error_kind, open_dialog, problem_codes,
    tool_names,
};

#[tokio::test]
async fn dom_85_86_87_member_has_its_listed_toolsets() {
    let workspace = TestWorkspace::new();
    let (a, b) = (
        workspace.minds_entry(counting_script(), "a"),
        workspace.minds_entry(Script::default(), "b"),
    );
    workspace.write_minds(&json!({"a": a, "b": b}));
    workspace.write_team(&json!({"alice": {"toolsets": ["a"]}, "bob": {"toolsets": ["b", "c"]}}));
    let host = workspace.start_host().await;
    let (alice, bob) = (open_dialog(&host, "alice").await, open_dialog(&host, "bob").await);
    // DOM-85.
    assert_eq!(tool_names(&alice).await, ["a_echo", "a_fail", "a_env", "a_count"]);
    assert_eq!(tool_names(&bob).await, ["b_echo", "b_fail", "b_env"]);
    assert_eq!(error_kind(call_tool(&bob, "a_echo", &json!({})).await), ErrorKind::UnknownTool);
    assert_eq!(tool_names(&open_dialog(&host, "nobody").await).await, [""; 0]);
    // DOM-86, DOM-87: a missing toolset is a warning that names the member and the toolset.
    let missing = || {
        let all = host.problems().into_iter().filter(|it| it.text.contains("Toolset not found"));
        all.map(|it| (it.agent.unwrap_or_default(), it.text)).collect::<Vec<_>>()
    };
    let reported = missing();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].0 == "bob" && reported[0].1.contains('c'));
    // A changed team takes effect immediately, although no server changes.
    workspace.write_team(&json!({"alice": {"toolsets": ["b"]}, "bob": {"toolsets": ["b"]}}));
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(tool_names(&alice).await, ["b_echo", "b_fail", "b_env"]);
    assert!(missing().is_empty());
    // DOM-86: a removed server only reduces its members' tools.
    workspace.write_minds(&json!({"a": a}));
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(tool_names(&alice).await, [""; 0]);
    assert_eq!(missing().len(), 2);
    workspace.write_minds(&json!({"a": a, "b": b}));
    with_time_limit(host.reload()).await.unwrap();
    assert!(call_text(&alice, "b_echo", &json!({"x": 1})).await.contains('x'));
    assert!(missing().is_empty());
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn broken_file_changes_no_grant() {
    let workspace = TestWorkspace::new();
    let (a, b) = (
        workspace.minds_entry(Script::default(), "a"),
        workspace.minds_entry(counting_script(), "b"),
    );
    workspace.write_minds(&json!({"a": a, "b": b}));
    workspace.write_team(&json!({"alice": {"toolsets": ["a"]}, "default": {"toolsets": ["b"]}}));
    let host = workspace.start_host().await;
    let (alice, default) = (open_dialog(&host, "alice").await, open_dialog(&host, "default").await);
    let before = (tool_names(&alice).await, tool_names(&default).await);
    assert_eq!((before.0.len(), before.1.len()), (3, 4));
    // A broken team file also reports that the last good grants stay in effect.
    for (file, problems) in [(".minds/mcp.yaml", 1), (".minds/team.yaml", 2)] {
        workspace.write(file, "members: {");
        with_time_limit(host.reload()).await.unwrap();
        assert!(problem_codes(&host).len() == problems, "{:?}", problem_codes(&host));
        // Later snapshots contain the same grants, whatever causes them.
        with_time_limit(host.disable_server("b", "a person")).await.unwrap();
        with_time_limit(host.enable_server("b", "a person")).await.unwrap();
        super::workspace::wait_until("the server is ready", || host.status().ready == 2).await;
        assert_eq!((tool_names(&alice).await, tool_names(&default).await), before, "{file}");
        workspace.write_minds(&json!({"a": a, "b": b}));
        workspace
            .write_team(&json!({"alice": {"toolsets": ["a"]}, "default": {"toolsets": ["b"]}}));
        with_time_limit(host.reload()).await.unwrap();
        assert!(problem_codes(&host).is_empty());
    }
    with_time_limit(host.close()).await;
}

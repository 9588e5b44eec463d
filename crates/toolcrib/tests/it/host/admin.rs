//! What people and agents do to servers of a running host.

use serde_json::{Value, json};
use toolcrib::Host;
use toolcrib::host::{DialogRequest, OpError};
use toolcrib::registry::Status;
use toolcrib::shape::ErrorKind;
use toolcrib_config::{Dialect, Named};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;
use toolcrib_upstream::conn::State;

use super::stage::{
    Stage, call, counted, counting, dialog, is_alive, kind, names, own, server, text, until,
};

#[tokio::test]
async fn ext_01_an_agent_that_may_disables_and_restarts_servers() {
    let stage = Stage::new();
    stage.minds(&json!({"a": stage.minded(counting(), "a")}));
    stage.team(&json!({"keeper": {"toolsets": ["a", "mcp_admin"]}, "guest": {"toolsets": ["a"]}}));
    let file = std::fs::read_to_string(stage.root().join(".minds/mcp.yaml")).unwrap();
    let host = stage.host().await;
    let (keeper, guest) = (dialog(&host, "keeper").await, dialog(&host, "guest").await);
    let of_a = json!({"serverId": "a"});
    // Only by name: neither those who have the server nor the agent `default`.
    for other in [&guest, &dialog(&host, "default").await] {
        for tool in ["mcp_restart", "mcp_disable"] {
            assert!(!names(other).await.contains(&tool.to_owned()));
            assert_eq!(kind(call(other, tool, &of_a).await), ErrorKind::UnknownTool);
        }
    }
    let pid = counted(&guest, "a_count").await.0;
    assert_eq!(text(&keeper, "mcp_restart", &of_a).await, "restarted `a`");
    until("the old process has ended", || !is_alive(pid)).await;
    let pid = counted(&guest, "a_count").await.0;
    assert_eq!(text(&keeper, "mcp_disable", &of_a).await, "disabled `a`");
    until("its process has ended", || !is_alive(pid)).await;
    assert_eq!(server(&host, "a").registered, Status::Disabled);
    assert!(!names(&guest).await.contains(&"a_count".to_owned()));
    assert!(call(&guest, "a_count", &json!({})).await.is_err());
    // The file is as it was, a reload does not undo it, and neither does another host.
    within(host.reload()).await.unwrap();
    assert_eq!(server(&host, "a").state, State::Disabled);
    assert_eq!(std::fs::read_to_string(stage.root().join(".minds/mcp.yaml")).unwrap(), file);
    let why = within(keeper.turn()).await.why("a_count");
    assert!(format!("{why:?}").contains("agent keeper"), "{why:?}");
    within(host.close()).await;
    let host = stage.host().await;
    assert_eq!(server(&host, "a").state, State::Disabled);
    assert_eq!(server(&host, "a").pid, None);
    within(host.enable("a", "a person")).await.unwrap();
    until("it is up", || server(&host, "a").state == State::Ready).await;
    // What it offers is published a moment later.
    within(host.settled()).await;
    assert_eq!(counted(&dialog(&host, "guest").await, "a_count").await.1, 1);
    within(host.close()).await;
}

#[tokio::test]
async fn what_is_disabled_while_it_is_replaced_stays_disabled() {
    let stage = Stage::new();
    stage.minds(&json!({"a": stage.minded(counting(), "a")}));
    let host = stage.host().await;
    let slow = counting().start([Step::Sleep(600)]);
    stage.minds(&json!({"a": stage.minded(slow, "a")}));
    let (reload, disabled) = tokio::join!(host.reload(), async {
        until("the new one is being started", || is_coming(&host)).await;
        host.disable("a", "a person").await
    });
    disabled.unwrap();
    drop(reload);
    until("it is off", || server(&host, "a").state == State::Disabled).await;
    until("nothing runs", || server(&host, "a").sessions == 0).await;
    within(host.close()).await;
}

/// The new definition is known, and the old one serves.
fn is_coming(host: &Host) -> bool {
    let written = host.config().servers[0].hash;
    server(host, "a").spec.hash != written
}

fn minion(stage: &Stage, servers: &[(&str, Script)], most: u32) -> Named {
    let entry = |(name, script): &(&str, Script)| {
        let entry = stage.scripted(script.clone(), name);
        json!({"ServerName": name, "Transport": "stdio", "Command": entry["command"], "Args": entry["args"]})
    };
    let servers: Vec<Value> = servers.iter().map(entry).collect();
    let path = stage.folder.path().join("minion.json");
    let text = json!({"manager": {"MaxServers": most}, "servers": servers}).to_string();
    std::fs::write(&path, text).unwrap();
    Named { path, dialect: Some(Dialect::Minion) }
}

#[tokio::test]
async fn min_26_38_48_65_servers_are_connected_and_disconnected_by_hand() {
    let stage = Stage::new();
    let file = minion(&stage, &[("github", counting())], 0);
    let host = within(stage.builder().config_file(file).open_toolset(own()).start()).await.unwrap();
    within(host.ready()).await;
    let one = dialog(&host, "default").await;
    // MIN-65: connect, status, list, execute of both sorts, refresh.
    within(host.connect("github")).await.unwrap();
    assert_eq!(
        (server(&host, "github").dialect_state, server(&host, "github").tools),
        ("connected", 4)
    );
    assert_eq!(host.servers().len(), 1);
    let pid = counted(&one, "mcp_github_count").await.0;
    assert_eq!(text(&one, "revenue", &json!({})).await, "42");
    within(host.refresh("github")).await.unwrap();
    assert_eq!(stage.count("github", "tools/list"), 2);
    // MIN-08: twice is an error.
    let twice = within(host.connect("github")).await.unwrap_err();
    assert!(toolcrib_upstream::signals::chain(&twice).contains("already connected"));
    within(host.disconnect("github")).await.unwrap();
    until("its process has ended", || !is_alive(pid)).await;
    // MIN-48: the tools are still listed, and say that they are unavailable.
    let turn = within(one.turn()).await;
    let tool = turn.tool("mcp_github_count").unwrap();
    assert!(!tool.is_available() && turn.tools().iter().any(|it| it.name() == tool.name()));
    let refused = call(&one, "mcp_github_count", &json!({})).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Connection);
    assert!(refused.to_string().contains("not connected"), "{refused}");
    // MIN-26: nothing brings it back unasked.
    within(host.reload()).await.unwrap();
    assert!(call(&one, "mcp_github_count", &json!({})).await.is_err());
    assert_eq!((server(&host, "github").pid, stage.count("github", "initialize")), (None, 1));
    // MIN-38.
    let refreshed = within(host.refresh("github")).await.unwrap_err();
    assert!(matches!(&refreshed, OpError::NotConnected(_)));
    assert!(refreshed.to_string().contains("not connected"));
    within(host.connect("github")).await.unwrap();
    assert_eq!(counted(&one, "mcp_github_count").await.1, 1);
    assert!(matches!(within(host.connect("nobody")).await, Err(OpError::NoServer { .. })));
    within(host.close()).await;
}

#[tokio::test]
async fn min_06_one_server_too_many_is_refused_and_leaves_the_others_alone() {
    let stage = Stage::new();
    let file = |ids: &[&str]| {
        let servers: serde_json::Map<_, _> =
            ids.iter().map(|id| ((*id).to_owned(), stage.scripted(counting(), id))).collect();
        stage.native(&json!({"version": 1, "host": {"max_servers": 1}, "servers": servers}));
    };
    file(&["a"]);
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let pid = counted(&one, "a__count").await.0;
    // By hand, and in the file, before or after it.
    let entry = stage.scripted(counting(), "c").to_string();
    assert!(matches!(within(host.add("c", &entry)).await, Err(OpError::TooMany { max: 1, .. })));
    for ids in [["a", "b"], ["b", "a"]] {
        file(&ids);
        within(host.reload()).await.unwrap();
        assert_eq!(counted(&one, "a__count").await.0, pid);
        assert_eq!(server(&host, "b").state, State::Failed);
        assert!(super::stage::has_problem(&host, "host.max_servers", "b"));
    }
    assert_eq!(stage.log("b").len() + stage.log("c").len(), 0);
    // When there is room, it is taken.
    file(&["b"]);
    within(host.reload()).await.unwrap();
    until("the other one is up", || server(&host, "b").state == State::Ready).await;
    assert_eq!(counted(&one, "b__count").await.1, 1);
    assert!(host.problems().is_empty(), "{:?}", host.problems());
    within(host.close()).await;
}

#[tokio::test]
async fn min_08_a_server_is_added_once_and_removed_again() {
    let stage = Stage::new();
    stage.servers(&json!({"a": stage.scripted(counting(), "a")}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let entry = stage.scripted(counting(), "b").to_string();
    within(host.add("b", &entry)).await.unwrap();
    until("it is up", || server(&host, "b").state == State::Ready).await;
    let pid = counted(&one, "b__count").await.0;
    for id in ["a", "b"] {
        let again = within(host.add(id, &entry)).await.unwrap_err();
        assert!(again.to_string().contains("already connected"), "{again}");
    }
    let bad = within(host.add("c", "transport: { kind: pigeon }")).await;
    assert!(matches!(bad, Err(OpError::BadEntry { .. })), "{bad:?} {:?}", host.problems());
    // It is in no file, so that no reload takes it away.
    within(host.reload()).await.unwrap();
    assert_eq!(counted(&one, "b__count").await, (pid, 2));
    assert!(matches!(within(host.remove("a")).await, Err(OpError::InFile(_))));
    within(host.remove("b")).await.unwrap();
    assert_eq!(kind(call(&one, "b__count", &json!({})).await), ErrorKind::UnknownTool);
    until("its process has ended", || !is_alive(pid)).await;
    within(host.close()).await;
}

#[tokio::test]
async fn dkr_17_a_server_is_attached_to_an_agent_and_detached() {
    let stage = Stage::new();
    let mut entry = stage.scripted(counting(), "crm");
    entry["access"] = json!({"grant": "attach"});
    entry["lifecycle"] = json!({"connect": "eager"});
    stage.servers(&json!({"crm": entry}));
    let host = stage.host().await;
    let agent = dialog(&host, "agent").await;
    assert_eq!(names(&agent).await, [""; 0]);
    assert!(host.attach("agent", "crm"));
    let once = names(&agent).await;
    assert_eq!(once.len(), 4);
    assert!(!host.attach("agent", "crm"));
    assert_eq!(names(&agent).await, once);
    assert_eq!(names(&dialog(&host, "other").await).await, [""; 0]);
    assert_eq!(counted(&agent, "crm__count").await.1, 1);
    assert!(host.detach("agent", "crm") && !host.detach("agent", "crm"));
    assert!(!names(&agent).await.contains(&"crm__count".to_owned()));
    assert_eq!(kind(call(&agent, "crm__count", &json!({})).await), ErrorKind::UnknownTool);
    assert!(!host.attach("agent", "nobody"));
    within(host.close()).await;
}

#[tokio::test]
async fn a_host_that_was_closed_keeps_nobody_waiting() {
    let stage = Stage::new();
    stage.minds(&json!({"a": stage.minded(Script::default().start([Step::Sleep(60_000)]), "a")}));
    let host = within(stage.builder().start()).await.unwrap();
    within(host.close()).await;
    within(host.ready()).await;
    assert!(within(host.reload()).await.is_none());
    assert!(within(host.dialog(DialogRequest::default())).await.is_err());
    within(host.close()).await;
}

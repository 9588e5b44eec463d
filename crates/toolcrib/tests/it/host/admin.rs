//! Operations of users and agents on servers of a running host.

use serde_json::{Value, json};
use toolcrib::internal::RegistrationStatus;
use toolcrib::{DialogRequest, ErrorKind, Host, ServerOperationError};
use toolcrib_config::{ConfigFile, Dialect};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_upstream::conn::ServerState;

use super::workspace::{
    TestWorkspace, call_count, call_text, call_tool, counting_script, error_kind, is_alive,
    native_toolset, open_dialog, server_status, tool_names, wait_until,
};

#[tokio::test]
async fn ext_01_authorized_agents_disable_and_restart_servers() {
    let workspace = TestWorkspace::new();
    workspace.write_minds(&json!({"a": workspace.minds_entry(counting_script(), "a")}));
    workspace.write_team(
        &json!({"keeper": {"toolsets": ["a", "mcp_admin"]}, "guest": {"toolsets": ["a"]}}),
    );
    let file = std::fs::read_to_string(workspace.root().join(".minds/mcp.yaml")).unwrap();
    let host = workspace.start_host().await;
    let (keeper, guest) = (open_dialog(&host, "keeper").await, open_dialog(&host, "guest").await);
    let of_a = json!({"serverId": "a"});
    // `mcp_admin` must be granted by name: neither a member with the server nor the agent `default`
    // has it.
    for other in [&guest, &open_dialog(&host, "default").await] {
        for tool in ["mcp_restart", "mcp_disable"] {
            assert!(!tool_names(other).await.contains(&tool.to_owned()));
            assert_eq!(error_kind(call_tool(other, tool, &of_a).await), ErrorKind::UnknownTool);
        }
    }
    let pid = call_count(&guest, "a_count").await.0;
    assert_eq!(call_text(&keeper, "mcp_restart", &of_a).await, "restarted `a`");
    wait_until("the old process has ended", || !is_alive(pid)).await;
    let pid = call_count(&guest, "a_count").await.0;
    assert_eq!(call_text(&keeper, "mcp_disable", &of_a).await, "disabled `a`");
    wait_until("its process has ended", || !is_alive(pid)).await;
    assert_eq!(server_status(&host, "a").registered, RegistrationStatus::Disabled);
    assert!(!tool_names(&guest).await.contains(&"a_count".to_owned()));
    assert!(call_tool(&guest, "a_count", &json!({})).await.is_err());
    // The file is unchanged, and the override survives a reload and a restart of the host.
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(server_status(&host, "a").state, ServerState::Disabled);
    assert_eq!(std::fs::read_to_string(workspace.root().join(".minds/mcp.yaml")).unwrap(), file);
    let why = with_time_limit(keeper.turn()).await.explain_tool("a_count");
    assert!(format!("{why:?}").contains("agent keeper"), "{why:?}");
    with_time_limit(host.close()).await;
    let host = workspace.start_host().await;
    assert_eq!(server_status(&host, "a").state, ServerState::Disabled);
    assert_eq!(server_status(&host, "a").pid, None);
    with_time_limit(host.enable_server("a", "a person")).await.unwrap();
    wait_until("the server is ready", || server_status(&host, "a").state == ServerState::Ready)
        .await;
    // The lists are published shortly after the server is ready.
    with_time_limit(host.wait_until_settled()).await;
    assert_eq!(call_count(&open_dialog(&host, "guest").await, "a_count").await.1, 1);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn server_disabled_during_replacement_stays_disabled() {
    let workspace = TestWorkspace::new();
    workspace.write_minds(&json!({"a": workspace.minds_entry(counting_script(), "a")}));
    let host = workspace.start_host().await;
    let slow = counting_script().start([Step::Sleep(600)]);
    workspace.write_minds(&json!({"a": workspace.minds_entry(slow, "a")}));
    let (reload, disabled) = tokio::join!(host.reload(), async {
        wait_until("the replacement is starting", || is_replacement_known(&host)).await;
        host.disable_server("a", "a person").await
    });
    disabled.unwrap();
    drop(reload);
    wait_until("the server is disabled", || {
        server_status(&host, "a").state == ServerState::Disabled
    })
    .await;
    wait_until("no session is open", || server_status(&host, "a").sessions == 0).await;
    with_time_limit(host.close()).await;
}

/// Whether the new definition is known while the old server runs.
fn is_replacement_known(host: &Host) -> bool {
    let written = host.config().servers[0].hash;
    server_status(host, "a").spec.hash != written
}

fn write_minion_config(
    workspace: &TestWorkspace,
    servers: &[(&str, Script)],
    most: u32,
) -> ConfigFile {
    let entry = |(name, script): &(&str, Script)| {
        let entry = workspace.scripted_entry(script.clone(), name);
        json!({"ServerName": name, "Transport": "stdio", "Command": entry["command"], "Args": entry["args"]})
    };
    let servers: Vec<Value> = servers.iter().map(entry).collect();
    let path = workspace.folder.path().join("minion.json");
    let text = json!({"manager": {"MaxServers": most}, "servers": servers}).to_string();
    std::fs::write(&path, text).unwrap();
    ConfigFile { path, dialect: Some(Dialect::Minion) }
}

#[tokio::test]
async fn min_26_38_48_65_servers_are_connected_and_disconnected_manually() {
    let workspace = TestWorkspace::new();
    let file = write_minion_config(&workspace, &[("github", counting_script())], 0);
    let host = with_time_limit(
        workspace.builder().config_file(file).open_toolset(native_toolset()).start(),
    )
    .await
    .unwrap();
    with_time_limit(host.wait_until_ready()).await;
    let one = open_dialog(&host, "default").await;
    // MIN-65: connect, status, list, calls of both kinds of tools, refresh.
    with_time_limit(host.connect_server("github")).await.unwrap();
    assert_eq!(
        (server_status(&host, "github").dialect_state, server_status(&host, "github").tools),
        ("connected", 4)
    );
    assert_eq!(host.servers().len(), 1);
    let pid = call_count(&one, "mcp_github_count").await.0;
    assert_eq!(call_text(&one, "revenue", &json!({})).await, "42");
    with_time_limit(host.refresh_server("github")).await.unwrap();
    assert_eq!(workspace.count_messages("github", "tools/list"), 2);
    // MIN-08: connecting twice is an error.
    let twice = with_time_limit(host.connect_server("github")).await.unwrap_err();
    assert!(toolcrib_upstream::signals::chain(&twice).contains("already connected"));
    with_time_limit(host.disconnect_server("github")).await.unwrap();
    wait_until("its process has ended", || !is_alive(pid)).await;
    // MIN-48: the tools stay listed and are marked as unavailable.
    let turn = with_time_limit(one.turn()).await;
    let tool = turn.tool("mcp_github_count").unwrap();
    assert!(!tool.is_available() && turn.tools().iter().any(|it| it.name() == tool.name()));
    let refused = call_tool(&one, "mcp_github_count", &json!({})).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Connection);
    assert!(refused.to_string().contains("not connected"), "{refused}");
    // MIN-26: a reload does not connect the server again.
    with_time_limit(host.reload()).await.unwrap();
    assert!(call_tool(&one, "mcp_github_count", &json!({})).await.is_err());
    assert_eq!(
        (server_status(&host, "github").pid, workspace.count_messages("github", "initialize")),
        (None, 1)
    );
    // MIN-38.
    let refreshed = with_time_limit(host.refresh_server("github")).await.unwrap_err();
    assert!(matches!(&refreshed, ServerOperationError::NotConnected(_)));
    assert!(refreshed.to_string().contains("not connected"));
    with_time_limit(host.connect_server("github")).await.unwrap();
    assert_eq!(call_count(&one, "mcp_github_count").await.1, 1);
    assert!(matches!(
        with_time_limit(host.connect_server("nobody")).await,
        Err(ServerOperationError::NoServer { .. })
    ));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_06_server_above_the_limit_is_refused_and_others_keep_running() {
    let workspace = TestWorkspace::new();
    let file = |ids: &[&str]| {
        let servers: serde_json::Map<_, _> = ids
            .iter()
            .map(|id| ((*id).to_owned(), workspace.scripted_entry(counting_script(), id)))
            .collect();
        workspace
            .write_native(&json!({"version": 1, "host": {"max_servers": 1}, "servers": servers}));
    };
    file(&["a"]);
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let pid = call_count(&one, "a__count").await.0;
    // By an operation, and in the file, before or after the other server.
    let entry = workspace.scripted_entry(counting_script(), "c").to_string();
    assert!(matches!(
        with_time_limit(host.add_server("c", &entry)).await,
        Err(ServerOperationError::TooManyServers { max: 1, .. })
    ));
    for ids in [["a", "b"], ["b", "a"]] {
        file(&ids);
        with_time_limit(host.reload()).await.unwrap();
        assert_eq!(call_count(&one, "a__count").await.0, pid);
        assert_eq!(server_status(&host, "b").state, ServerState::Failed);
        assert!(super::workspace::has_problem(&host, "host.max_servers", "b"));
    }
    assert_eq!(workspace.log("b").len() + workspace.log("c").len(), 0);
    // The refused server starts when there is room.
    file(&["b"]);
    with_time_limit(host.reload()).await.unwrap();
    wait_until("the other server is ready", || {
        server_status(&host, "b").state == ServerState::Ready
    })
    .await;
    assert_eq!(call_count(&one, "b__count").await.1, 1);
    assert!(host.problems().is_empty(), "{:?}", host.problems());
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_08_a_server_is_added_once_and_removed_again() {
    let workspace = TestWorkspace::new();
    workspace.write_servers(&json!({"a": workspace.scripted_entry(counting_script(), "a")}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let entry = workspace.scripted_entry(counting_script(), "b").to_string();
    with_time_limit(host.add_server("b", &entry)).await.unwrap();
    wait_until("the server is ready", || server_status(&host, "b").state == ServerState::Ready)
        .await;
    let pid = call_count(&one, "b__count").await.0;
    for id in ["a", "b"] {
        let again = with_time_limit(host.add_server(id, &entry)).await.unwrap_err();
        assert!(again.to_string().contains("already connected"), "{again}");
    }
    let bad = with_time_limit(host.add_server("c", "transport: { kind: pigeon }")).await;
    assert!(
        matches!(bad, Err(ServerOperationError::BadEntry { .. })),
        "{bad:?} {:?}",
        host.problems()
    );
    // The server is in no file, so a reload keeps it.
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(call_count(&one, "b__count").await, (pid, 2));
    assert!(matches!(
        with_time_limit(host.remove_server("a")).await,
        Err(ServerOperationError::ConfiguredInFile(_))
    ));
    with_time_limit(host.remove_server("b")).await.unwrap();
    assert_eq!(error_kind(call_tool(&one, "b__count", &json!({})).await), ErrorKind::UnknownTool);
    wait_until("its process has ended", || !is_alive(pid)).await;
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dkr_17_a_server_is_attached_to_an_agent_and_detached() {
    let workspace = TestWorkspace::new();
    let mut entry = workspace.scripted_entry(counting_script(), "crm");
    entry["access"] = json!({"grant": "attach"});
    entry["lifecycle"] = json!({"connect": "eager"});
    workspace.write_servers(&json!({"crm": entry}));
    let host = workspace.start_host().await;
    let agent = open_dialog(&host, "agent").await;
    assert_eq!(tool_names(&agent).await, [""; 0]);
    assert!(host.attach_server("agent", "crm"));
    let once = tool_names(&agent).await;
    assert_eq!(once.len(), 4);
    assert!(!host.attach_server("agent", "crm"));
    assert_eq!(tool_names(&agent).await, once);
    assert_eq!(tool_names(&open_dialog(&host, "other").await).await, [""; 0]);
    assert_eq!(call_count(&agent, "crm__count").await.1, 1);
    assert!(host.detach_server("agent", "crm") && !host.detach_server("agent", "crm"));
    assert!(!tool_names(&agent).await.contains(&"crm__count".to_owned()));
    assert_eq!(
        error_kind(call_tool(&agent, "crm__count", &json!({})).await),
        ErrorKind::UnknownTool
    );
    assert!(!host.attach_server("agent", "nobody"));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn closed_host_answers_every_wait() {
    let workspace = TestWorkspace::new();
    workspace.write_minds(
        &json!({"a": workspace.minds_entry(Script::default().start([Step::Sleep(60_000)]), "a")}),
    );
    let host = with_time_limit(workspace.builder().start()).await.unwrap();
    with_time_limit(host.close()).await;
    with_time_limit(host.wait_until_ready()).await;
    assert!(with_time_limit(host.reload()).await.is_none());
    assert!(with_time_limit(host.open_dialog(DialogRequest::default())).await.is_err());
    with_time_limit(host.close()).await;
}

//! Effects of file changes on grants, overrides and manual servers.

use serde_json::{Value, json};
use toolcrib::{DialogError, DialogRequest, Host};
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{TestWorkspace, open_dialog, server_status, tool_names, wait_until};

fn grants_for_ada(toolsets: &[&str]) -> Value {
    json!({"grants": {"members": {"ada": {"toolsets": toolsets}}}})
}

#[tokio::test]
async fn dom_85_revoked_grant_ends_with_the_next_turn() {
    let workspace = TestWorkspace::new();
    let servers = json!({"it": workspace.scripted_entry(Script::default(), "log")});
    let write = |toolsets: &[&str]| {
        workspace.write_native(
            &json!({"version": 1, "host": grants_for_ada(toolsets), "servers": servers}),
        );
    };
    write(&["it"]);
    let host = workspace.start_host().await;
    let ada = open_dialog(&host, "ada").await;
    assert_eq!(tool_names(&ada).await.len(), 3);
    // A changed grant publishes a snapshot although no server changes.
    for (toolsets, count) in [(&[][..], 0), (&["it"][..], 3)] {
        write(toolsets);
        with_time_limit(host.reload()).await.unwrap();
        assert_eq!(tool_names(&ada).await.len(), count);
    }
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dialog_id_belongs_to_one_agent() {
    let workspace = TestWorkspace::new();
    let host = workspace.start_host().await;
    let of = |agent: &str| DialogRequest {
        id: Some("one".to_owned()),
        agent: Some(agent.to_owned()),
        ..DialogRequest::default()
    };
    let ada = with_time_limit(host.open_dialog(of("ada"))).await.unwrap();
    assert_eq!(with_time_limit(host.open_dialog(of("ada"))).await.unwrap().id(), ada.id());
    assert!(matches!(
        with_time_limit(host.open_dialog(of("bob"))).await,
        Err(DialogError::OwnedByAnother)
    ));
    with_time_limit(ada.close()).await;
    assert!(with_time_limit(host.open_dialog(of("bob"))).await.is_ok());
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn enabling_a_server_clears_its_override() {
    let workspace = TestWorkspace::new();
    let entry = |enabled: bool| {
        let mut entry = workspace.scripted_entry(Script::default(), "log");
        entry["enabled"] = json!(enabled);
        json!({"it": entry})
    };
    workspace.write_servers(&entry(true));
    let host = workspace.start_host().await;
    with_time_limit(host.disable_server("it", "ada")).await.unwrap();
    assert_eq!(server_status(&host, "it").state.as_str(), "disabled");
    assert_eq!(with_time_limit(host.store().overrides()).await.unwrap().len(), 1);
    with_time_limit(host.enable_server("it", "ada")).await.unwrap();
    assert!(with_time_limit(host.store().overrides()).await.unwrap().is_empty());
    workspace.write_servers(&entry(false));
    with_time_limit(host.reload()).await.unwrap();
    wait_until("the file decides", || server_status(&host, "it").state.as_str() == "disabled")
        .await;
    with_time_limit(host.close()).await;
}

/// Writes a Minion file. Its servers change only with a requested reload.
fn write_minion_config(workspace: &TestWorkspace, names: &[&str]) {
    let servers: Vec<Value> = names
        .iter()
        .map(|name| {
            let entry = workspace.scripted_entry(Script::default(), name);
            json!({"ServerName": name, "Transport": "stdio", "Command": entry["command"], "Args": entry["args"]})
        })
        .collect();
    workspace.write("minion.json", &json!({"servers": servers}).to_string());
}

fn server_ids(host: &Host) -> Vec<String> {
    host.servers().into_iter().map(|server| server.spec.id.clone()).collect()
}

#[tokio::test]
async fn manual_servers_wait_for_a_requested_reload() {
    let workspace = TestWorkspace::new();
    write_minion_config(&workspace, &["old"]);
    let include = json!([{"path": "minion.json", "dialect": "minion"}]);
    let native = |servers: Value| {
        workspace.write_native(&json!({"version": 1, "include": include, "servers": servers}));
    };
    native(json!({}));
    let host = workspace.start_host().await;
    assert_eq!(server_ids(&host), ["old"]);
    write_minion_config(&workspace, &["new"]);
    native(json!({"watched": workspace.scripted_entry(Script::default(), "watched")}));
    wait_until("the file change is applied", || server_ids(&host).contains(&"watched".to_owned()))
        .await;
    let mut seen = server_ids(&host);
    seen.sort();
    assert_eq!(seen, ["old", "watched"]);
    with_time_limit(host.reload()).await.unwrap();
    let mut seen = server_ids(&host);
    seen.sort();
    assert_eq!(seen, ["new", "watched"]);
    with_time_limit(host.close()).await;
}

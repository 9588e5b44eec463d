//! What a change of the file means for people, servers and switches, and what it does not.

use serde_json::{Value, json};
use toolcrib::Host;
use toolcrib::host::{DialogError, DialogRequest};
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::within;

use super::stage::{Stage, dialog, names, server, until};

fn member(toolsets: &[&str]) -> Value {
    json!({"grants": {"members": {"ada": {"toolsets": toolsets}}}})
}

#[tokio::test]
async fn dom_85_a_grant_that_is_taken_back_is_gone_with_the_next_turn() {
    let stage = Stage::new();
    let servers = json!({"it": stage.scripted(Script::default(), "log")});
    let write = |toolsets: &[&str]| {
        stage.native(&json!({"version": 1, "host": member(toolsets), "servers": servers}));
    };
    write(&["it"]);
    let host = stage.host().await;
    let ada = dialog(&host, "ada").await;
    assert_eq!(names(&ada).await.len(), 3);
    // No server changes, and yet what is published does.
    for (toolsets, count) in [(&[][..], 0), (&["it"][..], 3)] {
        write(toolsets);
        within(host.reload()).await.unwrap();
        assert_eq!(names(&ada).await.len(), count);
    }
    within(host.close()).await;
}

#[tokio::test]
async fn a_dialog_is_its_agents_alone() {
    let stage = Stage::new();
    let host = stage.host().await;
    let of = |agent: &str| DialogRequest {
        id: Some("one".to_owned()),
        agent: Some(agent.to_owned()),
        ..DialogRequest::default()
    };
    let ada = within(host.dialog(of("ada"))).await.unwrap();
    assert_eq!(within(host.dialog(of("ada"))).await.unwrap().id(), ada.id());
    assert!(matches!(within(host.dialog(of("bob"))).await, Err(DialogError::Taken)));
    within(ada.end()).await;
    assert!(within(host.dialog(of("bob"))).await.is_ok());
    within(host.close()).await;
}

#[tokio::test]
async fn a_server_that_is_enabled_again_goes_by_its_file_again() {
    let stage = Stage::new();
    let entry = |enabled: bool| {
        let mut entry = stage.scripted(Script::default(), "log");
        entry["enabled"] = json!(enabled);
        json!({"it": entry})
    };
    stage.servers(&entry(true));
    let host = stage.host().await;
    within(host.disable("it", "ada")).await.unwrap();
    assert_eq!(server(&host, "it").state.as_str(), "disabled");
    assert_eq!(within(host.store().overrides()).await.unwrap().len(), 1);
    within(host.enable("it", "ada")).await.unwrap();
    assert!(within(host.store().overrides()).await.unwrap().is_empty());
    stage.servers(&entry(false));
    within(host.reload()).await.unwrap();
    until("the file counts", || server(&host, "it").state.as_str() == "disabled").await;
    within(host.close()).await;
}

/// The servers of a Minion file, which is taken up when somebody says so.
fn minion(stage: &Stage, names: &[&str]) {
    let servers: Vec<Value> = names
        .iter()
        .map(|name| {
            let entry = stage.scripted(Script::default(), name);
            json!({"ServerName": name, "Transport": "stdio", "Command": entry["command"], "Args": entry["args"]})
        })
        .collect();
    stage.write("minion.json", &json!({"servers": servers}).to_string());
}

fn ids(host: &Host) -> Vec<String> {
    host.servers().into_iter().map(|server| server.spec.id.clone()).collect()
}

#[tokio::test]
async fn what_is_to_be_reloaded_by_hand_waits_for_a_hand() {
    let stage = Stage::new();
    minion(&stage, &["old"]);
    let include = json!([{"path": "minion.json", "dialect": "minion"}]);
    let native = |servers: Value| {
        stage.native(&json!({"version": 1, "include": include, "servers": servers}));
    };
    native(json!({}));
    let host = stage.host().await;
    assert_eq!(ids(&host), ["old"]);
    minion(&stage, &["new"]);
    native(json!({"watched": stage.scripted(Script::default(), "watched")}));
    until("the file was noticed", || ids(&host).contains(&"watched".to_owned())).await;
    let mut seen = ids(&host);
    seen.sort();
    assert_eq!(seen, ["old", "watched"]);
    within(host.reload()).await.unwrap();
    let mut seen = ids(&host);
    seen.sort();
    assert_eq!(seen, ["new", "watched"]);
    within(host.close()).await;
}

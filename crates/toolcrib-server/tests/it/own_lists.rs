//! A session of a dialog's own may list other tools than everybody is offered: that dialog sees them, and nobody else.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use crate::scene::{Client, Scene, until, within};

/// The server's tools; whoever has a session can give it back, too.
async fn names(client: &mut Client) -> Vec<String> {
    let listed = client.request("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.filter(|name| name != "mcp_release").collect()
}

async fn call(client: &mut Client, tool: &str) -> Value {
    client.request("tools/call", json!({"name": tool, "arguments": {}})).await
}

/// Until the client has been told that its tools have changed.
async fn told(client: &mut Client) {
    let is_it = |it: &Value| it["method"] == "notifications/tools/list_changed";
    if let Some(place) = client.aside.iter().position(is_it) {
        client.aside.remove(place);
        return;
    }
    assert!(is_it(&client.next().await));
}

fn growing() -> Script {
    Script { legacy_only: true, ..Script::default() }
        .on("tools/call grow", [Step::Offer("grown".to_owned()), Step::Answer])
}

#[tokio::test]
async fn what_a_server_adds_in_a_dialogs_session_is_offered_to_that_dialog_alone() {
    let scene = Scene::new(&[("it", growing(), json!({}))]).await;
    // The first one gets the session in which the lists were read, the second one of its own.
    let (mut first, mut second, mut third) = (scene.client(), scene.client(), scene.client());
    for client in [&mut first, &mut second, &mut third] {
        client.initialize(json!({})).await;
        assert!(!names(client).await.contains(&"it__grown".to_owned()));
        call(client, "it__echo").await;
    }
    for client in [&mut first, &mut second] {
        assert!(call(client, "it__grow").await.get("result").is_some());
        told(client).await;
        let listed = names(client).await;
        assert!(listed.contains(&"it__grown".to_owned()), "{listed:?}");
        assert!(call(client, "it__grown").await.get("result").is_some());
    }
    assert!(!names(&mut third).await.contains(&"it__grown".to_owned()));
    let unknown = call(&mut third, "it__grown").await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(third.aside.is_empty(), "{:?}", third.aside);
    let everybody = scene.host.dialog(Default::default()).await.unwrap();
    assert!(everybody.turn_now().tool("it__grown").is_none());

    // With its session goes what only that had.
    for dialog in scene.host.dialogs() {
        dialog.release("it");
    }
    for client in [&mut first, &mut second] {
        told(client).await;
        assert!(!names(client).await.contains(&"it__grown".to_owned()));
    }
    for client in [first, second, third] {
        client.end().await;
    }
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_client_of_the_modern_era_hears_of_its_own_tools_too() {
    let scene = Scene::new(&[("it", growing(), json!({}))]).await;
    let none = json!({});
    let modern = |params: Value| Client::modern(params, &none);
    let mut client = scene.client();
    client.request("tools/list", modern(json!({}))).await;
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    client.begin("subscriptions/listen", listen).await;
    assert_eq!(client.next().await["method"], "notifications/subscriptions/acknowledged");
    client.request("tools/call", modern(json!({"name": "it__grow", "arguments": {}}))).await;
    told(&mut client).await;
    let listed = client.request("tools/list", modern(json!({}))).await;
    assert!(listed.to_string().contains("it__grown"), "{listed}");
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn own_lists_are_held_against_the_pins_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let tool = |text: &str| {
        let tool = json!({"name": "same", "description": text, "inputSchema": {"type": "object"}});
        vec![Step::Result(json!({"tools": [tool]}))]
    };
    let turns = vec![tool("as it was"), tool("as it never was")];
    let script = Script { legacy_only: true, ..Script::default() }
        .on("tools/list", [Step::Turns { count: folder.path().join("count"), turns }]);
    let with = json!({"host": {"pins": "enforce"}});
    let scene =
        Scene::with(&with, &[("it", script, json!({"session": {"discovery": "keep"}}))]).await;
    let mut client = scene.client();
    client.initialize(json!({})).await;
    assert_eq!(names(&mut client).await, ["it__same"]);
    // Its own session has another definition, which nobody has accepted.
    call(&mut client, "it__same").await;
    told(&mut client).await;
    assert!(names(&mut client).await.is_empty());
    let changed = || scene.host.problems().iter().any(|it| it.code == "definition.changed");
    until(changed).await;
    let accepted = within(scene.host.accept(None)).await.unwrap();
    assert_eq!(accepted.len(), 1);
    told(&mut client).await;
    assert_eq!(names(&mut client).await, ["it__same"]);
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_server_hears_what_its_client_can_be_asked_and_that_its_folders_have_changed() {
    let script = Script { legacy_only: true, ..Script::default() };
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let mut client = scene.client();
    let can = json!({"elicitation": {"url": {}}, "sampling": {"tools": {}}, "roots": {"listChanged": true}});
    client.initialize(can.clone()).await;
    call(&mut client, "it__echo").await;
    let told = |method: &str| scene.log("it").into_iter().rfind(|it| it["method"] == method);
    assert_eq!(told("initialize").unwrap()["params"]["capabilities"], can);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed", "params": {"_meta": {"x": 1}}});
    client.send(&changed).await;
    until(|| told("notifications/roots/list_changed").is_some()).await;
    assert_eq!(told("notifications/roots/list_changed"), Some(changed));
    client.end().await;
    within(scene.host.close()).await;
}

//! Lists of a dialog's own session, which only that dialog sees.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use crate::fixture::{TestClient, TestHost, wait_until, with_timeout};

/// Names of the server's tools, without the tool that releases a session.
async fn names(client: &mut TestClient) -> Vec<String> {
    let listed = client.request("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.filter(|name| name != "mcp_release").collect()
}

async fn call(client: &mut TestClient, tool: &str) -> Value {
    client.request("tools/call", json!({"name": tool, "arguments": {}})).await
}

/// Waits for the notification that the client's tools have changed.
async fn wait_for_tools_changed(client: &mut TestClient) {
    let is_it = |it: &Value| it["method"] == "notifications/tools/list_changed";
    if let Some(place) = client.other_messages.iter().position(is_it) {
        client.other_messages.remove(place);
        return;
    }
    assert!(is_it(&client.next_message().await));
}

fn growing() -> Script {
    Script { legacy_only: true, ..Script::default() }
        .on("tools/call grow", [Step::AddTool("grown".to_owned()), Step::Respond])
}

#[tokio::test]
async fn session_tools_are_visible_to_their_dialog_only() {
    let host_fixture = TestHost::new(&[("it", growing(), json!({}))]).await;
    // The first client gets the session that read the lists, the second one a new session.
    let (mut first, mut second, mut third) =
        (host_fixture.client(), host_fixture.client(), host_fixture.client());
    for client in [&mut first, &mut second, &mut third] {
        client.initialize(json!({})).await;
        assert!(!names(client).await.contains(&"it__grown".to_owned()));
        call(client, "it__echo").await;
    }
    for client in [&mut first, &mut second] {
        assert!(call(client, "it__grow").await.get("result").is_some());
        wait_for_tools_changed(client).await;
        let listed = names(client).await;
        assert!(listed.contains(&"it__grown".to_owned()), "{listed:?}");
        assert!(call(client, "it__grown").await.get("result").is_some());
    }
    assert!(!names(&mut third).await.contains(&"it__grown".to_owned()));
    let unknown = call(&mut third, "it__grown").await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(third.other_messages.is_empty(), "{:?}", third.other_messages);
    let shared_dialog = host_fixture.host.open_dialog(Default::default()).await.unwrap();
    assert!(shared_dialog.turn_now().tool("it__grown").is_none());

    // Releasing the session removes its own tools.
    for dialog in host_fixture.host.dialogs() {
        dialog.release_lease("it");
    }
    for client in [&mut first, &mut second] {
        wait_for_tools_changed(client).await;
        assert!(!names(client).await.contains(&"it__grown".to_owned()));
    }
    for client in [first, second, third] {
        client.close().await;
    }
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn modern_client_is_notified_of_its_session_tools() {
    let host_fixture = TestHost::new(&[("it", growing(), json!({}))]).await;
    let none = json!({});
    let modern = |params: Value| TestClient::modern_params(params, &none);
    let mut client = host_fixture.client();
    client.request("tools/list", modern(json!({}))).await;
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    client.start_request("subscriptions/listen", listen).await;
    assert_eq!(client.next_message().await["method"], "notifications/subscriptions/acknowledged");
    client.request("tools/call", modern(json!({"name": "it__grow", "arguments": {}}))).await;
    wait_for_tools_changed(&mut client).await;
    let listed = client.request("tools/list", modern(json!({}))).await;
    assert!(listed.to_string().contains("it__grown"), "{listed}");
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn session_lists_are_checked_against_pins() {
    let folder = tempfile::tempdir().unwrap();
    let tool = |text: &str| {
        let tool = json!({"name": "same", "description": text, "inputSchema": {"type": "object"}});
        vec![Step::Result(json!({"tools": [tool]}))]
    };
    let turns = vec![tool("as it was"), tool("as it never was")];
    let script = Script { legacy_only: true, ..Script::default() }
        .on("tools/list", [Step::Sequence { count: folder.path().join("count"), turns }]);
    let with = json!({"host": {"pins": "enforce"}});
    let host_fixture =
        TestHost::with(&with, &[("it", script, json!({"session": {"discovery": "keep"}}))]).await;
    let mut client = host_fixture.client();
    client.initialize(json!({})).await;
    assert_eq!(names(&mut client).await, ["it__same"]);
    // The dialog's session has another definition, which is not accepted.
    call(&mut client, "it__same").await;
    wait_for_tools_changed(&mut client).await;
    assert!(names(&mut client).await.is_empty());
    let changed = || host_fixture.host.problems().iter().any(|it| it.code == "definition.changed");
    wait_until(changed).await;
    let accepted = with_timeout(host_fixture.host.accept_definitions(None)).await.unwrap();
    assert_eq!(accepted.len(), 1);
    wait_for_tools_changed(&mut client).await;
    assert_eq!(names(&mut client).await, ["it__same"]);
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn client_capabilities_and_roots_changes_reach_the_server() {
    let script = Script { legacy_only: true, ..Script::default() };
    let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
    let mut client = host_fixture.client();
    let can = json!({"elicitation": {"url": {}}, "sampling": {"tools": {}}, "roots": {"listChanged": true}});
    client.initialize(can.clone()).await;
    call(&mut client, "it__echo").await;
    let received =
        |method: &str| host_fixture.log("it").into_iter().rfind(|it| it["method"] == method);
    assert_eq!(received("initialize").unwrap()["params"]["capabilities"], can);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed", "params": {"_meta": {"x": 1}}});
    client.send(&changed).await;
    wait_until(|| received("notifications/roots/list_changed").is_some()).await;
    assert_eq!(received("notifications/roots/list_changed"), Some(changed));
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

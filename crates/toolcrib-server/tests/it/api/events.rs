//! Events over the control API: all for the owner, and the visible ones for others.

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};

use super::{Credential, TestApi};

#[tokio::test]
async fn events_are_filtered_per_principal_and_complete_for_the_owner() {
    let script = Script::default()
        .on("tools/call far", [Step::Progress { times: 1, every: 1 }, Step::Respond]);
    let api_server = TestApi::new(&[("one", script, json!({}))]).await;
    let mut owner = api_server.event_stream(Credential::Socket, "GET events", None).await;
    let mut other = api_server.event_stream(Credential::Anonymous, "GET events", None).await;
    let owners = api_server.dialog(json!({"id": "owners"})).await;
    let others =
        api_server.send(Credential::Anonymous, "POST dialogs", Some(json!({"id": "others"}))).await;
    assert_eq!(others.status, 201, "{others:?}");
    api_server.call(&owners, "one__far", json!({})).await;
    let body = json!({"tool": "one__far"});
    assert_eq!(
        api_server
            .send(Credential::Anonymous, "POST dialogs/others/calls", Some(body))
            .await
            .status,
        200
    );
    // The owner sees namespaced ids of other dialogs, their principals plain names.
    for dialog in ["owners", ":others"] {
        let is_of = |data: &serde_json::Value| data["dialog"].as_str().unwrap().ends_with(dialog);
        let heard = owner.wait_for("call", is_of).await;
        assert_eq!((&heard["tool"], &heard["ended"]), (&json!("one__far"), &json!("ok")));
    }
    // The first visible call is the client's own, although another one came before.
    let mut kinds = Vec::new();
    loop {
        let (kind, data) = other.next().await.unwrap();
        if let Some(dialog) = data.get("dialog") {
            assert_eq!(dialog, "others", "{kind} {data}");
        }
        kinds.push(kind.clone());
        if kind == "call" {
            break;
        }
    }
    api_server.post("reload", json!({})).await;
    other.wait_for("reload", |data| data["ok"] == true).await;
    owner.wait_for("reload", |data| data["ok"] == true).await;
    api_server.post("servers/one/restart", json!({})).await;
    owner
        .wait_for("state", |data| data["server"] == "toolcrib.yaml#one" && data["state"] == "ready")
        .await;
    // The stream ends with the front.
    api_server.front().close();
    while owner.next().await.is_some() {}
    api_server.close().await;
}

//! Events: everything for the owner, and for everybody else what is theirs.

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};

use super::{By, Crib};

#[tokio::test]
async fn everybody_hears_what_is_his_and_the_owner_hears_all() {
    let script = Script::default()
        .on("tools/call far", [Step::Progress { times: 1, every: 1 }, Step::Answer]);
    let crib = Crib::new(&[("one", script, json!({}))]).await;
    let mut owner = crib.stream(By::Socket, "GET events", None).await;
    let mut other = crib.stream(By::Tcp, "GET events", None).await;
    let owners = crib.dialog(json!({"id": "owners"})).await;
    let others = crib.ask(By::Tcp, "POST dialogs", Some(json!({"id": "others"}))).await;
    assert_eq!(others.status, 201, "{others:?}");
    crib.call(&owners, "one__far", json!({})).await;
    let body = json!({"tool": "one__far"});
    assert_eq!(crib.ask(By::Tcp, "POST dialogs/others/calls", Some(body)).await.status, 200);
    // Others' dialogs have ids with their namespaces for the owner, and plain names for themselves.
    for dialog in ["owners", ":others"] {
        let is_of = |data: &serde_json::Value| data["dialog"].as_str().unwrap().ends_with(dialog);
        let heard = owner.until("call", is_of).await;
        assert_eq!((&heard["tool"], &heard["ended"]), (&json!("one__far"), &json!("ok")));
    }
    // The first call that is heard is his own, though another came before it.
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
    crib.post("reload", json!({})).await;
    other.until("reload", |data| data["ok"] == true).await;
    owner.until("reload", |data| data["ok"] == true).await;
    crib.post("servers/one/restart", json!({})).await;
    owner
        .until("state", |data| data["server"] == "toolcrib.yaml#one" && data["state"] == "ready")
        .await;
    // A stream ends with the front, in good order.
    crib.front().close();
    while owner.next().await.is_some() {}
    crib.end().await;
}

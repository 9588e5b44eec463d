//! Dialogs over the control API: servers, leases, reminders and pending requests.

use serde_json::{Value, json};
use toolcrib::Host;
use toolcrib_testkit::scripted::{Script, Step};

use super::{Credential, TestApi, poll_until, tool_names};
use crate::fixture::{TestHost, with_timeout};

fn two() -> [(&'static str, Script, Value); 2] {
    [("freecad", Script::default(), json!({})), ("git", Script::default(), json!({}))]
}

#[tokio::test]
async fn dis_33_34_and_dkr_17_server_switch_is_per_dialog_and_survives_restart() {
    let api_server = TestApi::new(&two()).await;
    let (a, b) =
        (api_server.dialog(json!({"id": "a"})).await, api_server.dialog(json!({"id": "b"})).await);
    let switch = async |api_server: &TestApi, enabled: bool| {
        let answer = api_server
            .send(
                Credential::Socket,
                "PUT dialogs/a/servers/freecad",
                Some(json!({"enabled": enabled})),
            )
            .await;
        assert_eq!((answer.status, &answer.json()["server"]["enabled"]), (200, &json!(enabled)));
    };
    let sees = async |api_server: &TestApi, dialog: &str| {
        let list = api_server.get(&format!("dialogs/{dialog}/tools")).await;
        tool_names(&list).iter().filter(|tool| tool.starts_with("freecad")).count()
    };
    assert_eq!((sees(&api_server, &a).await, sees(&api_server, &b).await), (3, 3));
    switch(&api_server, false).await;
    assert_eq!((sees(&api_server, &a).await, sees(&api_server, &b).await), (0, 3)); // DIS-33, DKR-17: detached
    let refused = api_server.call("a", "freecad__echo", json!({})).await;
    assert_eq!(refused["error"]["kind"], "unknown_tool"); // DIS-33
    let shown = api_server.get("dialogs/a").await;
    let of = |id: &str| {
        let all = shown["servers"].as_array().unwrap();
        all.iter().find(|it| it["id"] == id).unwrap()["enabled"].clone()
    };
    assert_eq!((of("freecad"), of("git")), (json!(false), json!(true))); // DIS-34: the surface
    let none = api_server
        .send(Credential::Socket, "PUT dialogs/a/servers/none", Some(json!({"enabled": true})))
        .await;
    assert_eq!(none.status_and_code(), (404, "server.unknown".to_owned()));

    // DIS-34: the switch survives a restart of the host.
    let TestApi { host_fixture, .. } = api_server;
    with_timeout(host_fixture.host.close()).await;
    let _ = std::fs::remove_file(host_fixture.path("socket"));
    let host = Host::builder(host_fixture.path("root"), host_fixture.path("state")).start();
    let host = with_timeout(host).await.unwrap();
    with_timeout(host.wait_until_settled()).await;
    let api_server = TestApi::over(TestHost { host, ..host_fixture }).await;
    api_server.dialog(json!({"id": "a"})).await;
    assert_eq!(sees(&api_server, "a").await, 0); // DIS-34
    switch(&api_server, true).await;
    switch(&api_server, true).await; // DKR-17: twice adds nothing
    assert_eq!(sees(&api_server, "a").await, 3); // DKR-17: attached
    api_server.close().await;
}

#[tokio::test]
async fn ext_12_dialog_status_contains_folder_and_servers() {
    let gone = ("gone", Script::default(), json!({"command": "/no/such/program"}));
    let api_server = TestApi::new(&[("one", Script::default(), json!({})), gone]).await;
    let id = api_server.dialog(json!({"agent": "coder"})).await;
    let shown = api_server.get(&format!("dialogs/{id}")).await;
    assert_eq!((&shown["id"], &shown["agent"]), (&json!(id), &json!("coder"))); // EXT-12
    assert_eq!(shown["cwd"], json!(api_server.host_fixture.path("root"))); // EXT-12
    let [one, gone] = [0, 1].map(|place| shown["servers"][place].clone());
    assert_eq!(
        (&one["id"], &one["state"], &one["tools"]),
        (&json!("one"), &json!("ready"), &json!(3))
    ); // EXT-12
    assert_eq!((&one["source"], &one["error"]), (&json!("toolcrib.yaml"), &Value::Null)); // EXT-12
    assert!(gone["error"].as_str().unwrap().contains("/no/such/program"), "{gone}"); // EXT-12
    assert_eq!(api_server.get("dialogs").await["dialogs"][0]["id"], json!(id));
    let ended = api_server.send(Credential::Socket, &format!("DELETE dialogs/{id}"), None).await;
    assert_eq!(ended.status, 204);
    let gone = api_server.send(Credential::Socket, &format!("GET dialogs/{id}"), None).await;
    assert_eq!(gone.status_and_code(), (404, "dialog.unknown".to_owned()));
    api_server.close().await;
}

#[tokio::test]
async fn dom_62_each_lease_has_one_reminder_until_released() {
    let own = json!({"session": {"scope": "per_conversation", "reminder": true}});
    let api_server = TestApi::new(&[("one", Script::default(), own)]).await;
    let id = api_server.dialog(json!({})).await;
    let reminders =
        async || api_server.get(&format!("dialogs/{id}/reminders")).await["reminders"].clone();
    assert_eq!(reminders().await, json!([])); // DOM-62
    for _ in 0..3 {
        api_server.call(&id, "one__echo", json!({})).await;
        let told = reminders().await;
        assert_eq!((told.as_array().unwrap().len(), &told[0]["server"]), (1, &json!("one"))); // DOM-62
        assert!(told[0]["text"].as_str().unwrap().contains("mcp_release"));
    }
    let leases = api_server.get(&format!("dialogs/{id}/leases")).await;
    assert_eq!(
        (&leases["leases"][0]["server"], &leases["leases"][0]["dialog"]),
        (&json!("one"), &json!(id))
    );
    assert_eq!(api_server.get("status").await["leases"], 1);
    let released = format!("DELETE dialogs/{id}/leases/one");
    assert_eq!(api_server.send(Credential::Socket, &released, None).await.status, 204);
    assert_eq!(reminders().await, json!([])); // DOM-62
    assert_eq!(
        api_server.send(Credential::Socket, &released, None).await.status_and_code(),
        (404, "lease.unknown".to_owned())
    );
    api_server.close().await;
}

fn asks(method: &str, params: Value) -> Script {
    let ask = Step::SendRequest { method: method.to_owned(), params };
    Script { legacy_only: true, ..Script::default() }.on("tools/call ask", [ask, Step::Respond])
}

#[tokio::test]
async fn dis_41_elicitation_is_listed_and_its_answer_reaches_the_server() {
    let form =
        json!({"message": "your name?", "requestedSchema": {"type": "object", "properties": {}}});
    let api_server = TestApi::new(&[("one", asks("elicitation/create", form), json!({}))]).await;
    let id = api_server.dialog(json!({"answers": {"elicitation": true}})).await;
    for answer in [
        json!({"result": {"action": "accept", "content": {"name": "Ada"}}}),
        json!({"result": {"action": "decline"}}),
        json!({"result": {"action": "cancel"}}),
        json!({"error": {"code": -1, "message": "no user present"}}),
    ] {
        let calling = api_server.call(&id, "one__ask", json!({}));
        let answering = async {
            let shown = poll_until(async || {
                let all =
                    api_server.get(&format!("dialogs/{id}/requests")).await["requests"].clone();
                all.get(0).cloned()
            })
            .await;
            assert_eq!(
                (&shown["method"], &shown["server"]),
                (&json!("elicitation/create"), &json!("one"))
            ); // DIS-41
            assert_eq!(shown["params"]["message"], "your name?"); // DIS-41: the form
            let path = format!("dialogs/{id}/requests/{}", shown["id"]);
            assert_eq!(api_server.post(&path, answer.clone()).await["ok"], true);
            let twice = api_server
                .send(Credential::Socket, &format!("POST {path}"), Some(answer.clone()))
                .await;
            assert_eq!(twice.status_and_code(), (404, "request.unknown".to_owned()));
        };
        with_timeout(async { tokio::join!(calling, answering) }).await;
        let log = api_server.host_fixture.log("one");
        let reached = log.iter().rev().find(|it| it.get("method").is_none()).unwrap();
        let wanted = answer.get("result").or(answer.get("error")).unwrap();
        let got = reached.get("result").or(reached.get("error")).unwrap();
        assert_eq!(got, wanted); // DIS-41
    }
    let both = json!({"result": {}, "error": {"code": 1, "message": ""}});
    let bad = api_server
        .send(Credential::Socket, &format!("POST dialogs/{id}/requests/1"), Some(both))
        .await;
    assert_eq!(bad.status, 400);
    api_server.close().await;
}

#[tokio::test]
async fn dis_40_dialog_folder_is_its_mcp_root() {
    let own = json!({"session": {"scope": "per_conversation"}});
    let api_server = TestApi::new(&[("one", asks("roots/list", json!({})), own)]).await;
    let id = api_server.dialog(json!({})).await;
    let called = with_timeout(api_server.call(&id, "one__ask", json!({}))).await;
    assert_eq!(called["ok"], true, "{called}");
    let log = api_server.host_fixture.log("one");
    let told = log.iter().rev().find(|it| it["result"].get("roots").is_some()).unwrap();
    let cwd = api_server.host_fixture.path("root");
    assert_eq!(told["result"]["roots"][0]["uri"], format!("file://{}", cwd.display())); // DIS-40
    api_server.close().await;
}

#[tokio::test]
async fn idle_dialog_ends_and_used_dialog_stays() {
    let idle = json!({"gateway": {"limits": {"idle": "600ms"}}});
    let script = Script::default().on("tools/call long", [Step::Sleep(60_000), Step::Respond]);
    let own = json!({"session": {"scope": "per_conversation"}});
    let api_server = TestApi::with(&idle, &[("one", script, own)]).await;
    let [left, asked, busy] = ["left", "asked", "busy"];
    for id in [left, asked, busy] {
        api_server.dialog(json!({"id": id})).await;
    }
    api_server.call(left, "one__echo", json!({})).await;
    let started = json!({"tool": "one__long"});
    let started = api_server.post(&format!("dialogs/{busy}/calls?wait=false"), started).await;
    // A gateway client's own dialog, which the API only reads here.
    let mut client = api_server.host_fixture.client();
    client.initialize(json!({})).await;
    client.request("tools/list", json!({})).await;
    let ids = || -> Vec<String> {
        api_server.host().dialogs().iter().map(|it| it.id().to_owned()).collect()
    };
    let clients = ids().into_iter().find(|id| ![left, asked, busy].contains(&&**id)).unwrap();
    api_server.get(&format!("dialogs/{clients}")).await;
    let is_there = |id: &str| api_server.host().find_dialog(id).is_some();
    poll_until(async || {
        api_server.get(&format!("dialogs/{asked}")).await;
        (!is_there(left)).then_some(())
    })
    .await;
    assert_eq!(api_server.get("status").await["leases"], 1, "the lease was released");
    assert!(is_there(asked) && is_there(busy) && is_there(&clients));
    let call = &started["call"];
    let over = api_server
        .send(Credential::Socket, &format!("DELETE dialogs/{busy}/calls/{call}"), None)
        .await;
    assert_eq!(over.status, 204);
    poll_until(async || (!is_there(asked) && !is_there(busy)).then_some(())).await;
    assert!(is_there(&clients), "a client's dialog stays");
    client.close().await;
    api_server.close().await;
}

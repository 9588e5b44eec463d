//! Dialogs: their servers, leases, reminders and questions.

use serde_json::{Value, json};
use toolcrib::Host;
use toolcrib_testkit::scripted::{Script, Step};

use super::{By, Crib, names, until};
use crate::scene::{Scene, within};

fn two() -> [(&'static str, Script, Value); 2] {
    [("freecad", Script::default(), json!({})), ("git", Script::default(), json!({}))]
}

#[tokio::test]
async fn dis_33_34_and_dkr_17_a_server_is_switched_for_one_dialog_and_that_outlives_the_host() {
    let crib = Crib::new(&two()).await;
    let (a, b) = (crib.dialog(json!({"id": "a"})).await, crib.dialog(json!({"id": "b"})).await);
    let switch = async |crib: &Crib, enabled: bool| {
        let answer = crib
            .ask(By::Socket, "PUT dialogs/a/servers/freecad", Some(json!({"enabled": enabled})))
            .await;
        assert_eq!((answer.status, &answer.json()["server"]["enabled"]), (200, &json!(enabled)));
    };
    let sees = async |crib: &Crib, dialog: &str| {
        let list = crib.get(&format!("dialogs/{dialog}/tools")).await;
        names(&list).iter().filter(|tool| tool.starts_with("freecad")).count()
    };
    assert_eq!((sees(&crib, &a).await, sees(&crib, &b).await), (3, 3));
    switch(&crib, false).await;
    assert_eq!((sees(&crib, &a).await, sees(&crib, &b).await), (0, 3)); // DIS-33, DKR-17: detached
    let refused = crib.call("a", "freecad__echo", json!({})).await;
    assert_eq!(refused["error"]["kind"], "unknown_tool"); // DIS-33
    let shown = crib.get("dialogs/a").await;
    let of = |id: &str| {
        let all = shown["servers"].as_array().unwrap();
        all.iter().find(|it| it["id"] == id).unwrap()["enabled"].clone()
    };
    assert_eq!((of("freecad"), of("git")), (json!(false), json!(true))); // DIS-34: the surface
    let none =
        crib.ask(By::Socket, "PUT dialogs/a/servers/none", Some(json!({"enabled": true}))).await;
    assert_eq!(none.failure(), (404, "server.unknown".to_owned()));

    // DIS-34: it survives a restart of the host.
    let Crib { scene, .. } = crib;
    within(scene.host.close()).await;
    let _ = std::fs::remove_file(scene.path("socket"));
    let host = Host::builder(scene.path("root"), scene.path("state")).start();
    let host = within(host).await.unwrap();
    within(host.settled()).await;
    let crib = Crib::of(Scene { host, ..scene }).await;
    crib.dialog(json!({"id": "a"})).await;
    assert_eq!(sees(&crib, "a").await, 0); // DIS-34
    switch(&crib, true).await;
    switch(&crib, true).await; // DKR-17: twice adds nothing
    assert_eq!(sees(&crib, "a").await, 3); // DKR-17: attached
    crib.end().await;
}

#[tokio::test]
async fn ext_12_a_dialog_tells_its_folder_and_how_its_servers_are() {
    let gone = ("gone", Script::default(), json!({"command": "/no/such/program"}));
    let crib = Crib::new(&[("one", Script::default(), json!({})), gone]).await;
    let id = crib.dialog(json!({"agent": "coder"})).await;
    let shown = crib.get(&format!("dialogs/{id}")).await;
    assert_eq!((&shown["id"], &shown["agent"]), (&json!(id), &json!("coder"))); // EXT-12
    assert_eq!(shown["cwd"], json!(crib.scene.path("root"))); // EXT-12
    let [one, gone] = [0, 1].map(|place| shown["servers"][place].clone());
    assert_eq!(
        (&one["id"], &one["state"], &one["tools"]),
        (&json!("one"), &json!("ready"), &json!(3))
    ); // EXT-12
    assert_eq!((&one["source"], &one["error"]), (&json!("toolcrib.yaml"), &Value::Null)); // EXT-12
    assert!(gone["error"].as_str().unwrap().contains("/no/such/program"), "{gone}"); // EXT-12
    assert_eq!(crib.get("dialogs").await["dialogs"][0]["id"], json!(id));
    let ended = crib.ask(By::Socket, &format!("DELETE dialogs/{id}"), None).await;
    assert_eq!(ended.status, 204);
    let gone = crib.ask(By::Socket, &format!("GET dialogs/{id}"), None).await;
    assert_eq!(gone.failure(), (404, "dialog.unknown".to_owned()));
    crib.end().await;
}

#[tokio::test]
async fn dom_62_there_is_one_reminder_for_each_lease_and_it_goes_with_it() {
    let own = json!({"session": {"scope": "per_conversation", "reminder": true}});
    let crib = Crib::new(&[("one", Script::default(), own)]).await;
    let id = crib.dialog(json!({})).await;
    let reminders =
        async || crib.get(&format!("dialogs/{id}/reminders")).await["reminders"].clone();
    assert_eq!(reminders().await, json!([])); // DOM-62
    for _ in 0..3 {
        crib.call(&id, "one__echo", json!({})).await;
        let told = reminders().await;
        assert_eq!((told.as_array().unwrap().len(), &told[0]["server"]), (1, &json!("one"))); // DOM-62
        assert!(told[0]["text"].as_str().unwrap().contains("mcp_release"));
    }
    let leases = crib.get(&format!("dialogs/{id}/leases")).await;
    assert_eq!(
        (&leases["leases"][0]["server"], &leases["leases"][0]["dialog"]),
        (&json!("one"), &json!(id))
    );
    assert_eq!(crib.get("status").await["leases"], 1);
    let released = format!("DELETE dialogs/{id}/leases/one");
    assert_eq!(crib.ask(By::Socket, &released, None).await.status, 204);
    assert_eq!(reminders().await, json!([])); // DOM-62
    assert_eq!(
        crib.ask(By::Socket, &released, None).await.failure(),
        (404, "lease.unknown".to_owned())
    );
    crib.end().await;
}

fn asks(method: &str, params: Value) -> Script {
    let ask = Step::Ask { method: method.to_owned(), params };
    Script { legacy_only: true, ..Script::default() }.on("tools/call ask", [ask, Step::Answer])
}

#[tokio::test]
async fn dis_41_a_question_is_shown_and_its_answer_reaches_the_server() {
    let form =
        json!({"message": "your name?", "requestedSchema": {"type": "object", "properties": {}}});
    let crib = Crib::new(&[("one", asks("elicitation/create", form), json!({}))]).await;
    let id = crib.dialog(json!({"answers": {"elicitation": true}})).await;
    for answer in [
        json!({"result": {"action": "accept", "content": {"name": "Ada"}}}),
        json!({"result": {"action": "decline"}}),
        json!({"result": {"action": "cancel"}}),
        json!({"error": {"code": -1, "message": "nobody is here"}}),
    ] {
        let calling = crib.call(&id, "one__ask", json!({}));
        let answering = async {
            let shown = until(async || {
                let all = crib.get(&format!("dialogs/{id}/requests")).await["requests"].clone();
                all.get(0).cloned()
            })
            .await;
            assert_eq!(
                (&shown["method"], &shown["server"]),
                (&json!("elicitation/create"), &json!("one"))
            ); // DIS-41
            assert_eq!(shown["params"]["message"], "your name?"); // DIS-41: the form
            let path = format!("dialogs/{id}/requests/{}", shown["id"]);
            assert_eq!(crib.post(&path, answer.clone()).await["ok"], true);
            let twice = crib.ask(By::Socket, &format!("POST {path}"), Some(answer.clone())).await;
            assert_eq!(twice.failure(), (404, "request.unknown".to_owned()));
        };
        within(async { tokio::join!(calling, answering) }).await;
        let log = crib.scene.log("one");
        let reached = log.iter().rev().find(|it| it.get("method").is_none()).unwrap();
        let wanted = answer.get("result").or(answer.get("error")).unwrap();
        let got = reached.get("result").or(reached.get("error")).unwrap();
        assert_eq!(got, wanted); // DIS-41
    }
    let both = json!({"result": {}, "error": {"code": 1, "message": ""}});
    let bad = crib.ask(By::Socket, &format!("POST dialogs/{id}/requests/1"), Some(both)).await;
    assert_eq!(bad.status, 400);
    crib.end().await;
}

#[tokio::test]
async fn dis_40_the_folder_of_the_dialog_is_its_root() {
    let own = json!({"session": {"scope": "per_conversation"}});
    let crib = Crib::new(&[("one", asks("roots/list", json!({})), own)]).await;
    let id = crib.dialog(json!({})).await;
    let called = within(crib.call(&id, "one__ask", json!({}))).await;
    assert_eq!(called["ok"], true, "{called}");
    let log = crib.scene.log("one");
    let told = log.iter().rev().find(|it| it["result"].get("roots").is_some()).unwrap();
    let cwd = crib.scene.path("root");
    assert_eq!(told["result"]["roots"][0]["uri"], format!("file://{}", cwd.display())); // DIS-40
    crib.end().await;
}

#[tokio::test]
async fn a_dialog_that_nobody_asks_for_ends_and_one_that_is_used_does_not() {
    let idle = json!({"gateway": {"limits": {"idle": "600ms"}}});
    let script = Script::default().on("tools/call long", [Step::Sleep(60_000), Step::Answer]);
    let own = json!({"session": {"scope": "per_conversation"}});
    let crib = Crib::with(&idle, &[("one", script, own)]).await;
    let [left, asked, busy] = ["left", "asked", "busy"];
    for id in [left, asked, busy] {
        crib.dialog(json!({"id": id})).await;
    }
    crib.call(left, "one__echo", json!({})).await;
    let started = json!({"tool": "one__long"});
    let started = crib.post(&format!("dialogs/{busy}/calls?wait=false"), started).await;
    // A client of the gateway has a dialog of its own making, which only looks are taken at here.
    let mut client = crib.scene.client();
    client.initialize(json!({})).await;
    client.request("tools/list", json!({})).await;
    let ids =
        || -> Vec<String> { crib.host().dialogs().iter().map(|it| it.id().to_owned()).collect() };
    let clients = ids().into_iter().find(|id| ![left, asked, busy].contains(&&**id)).unwrap();
    crib.get(&format!("dialogs/{clients}")).await;
    let is_there = |id: &str| crib.host().dialog_of(id).is_some();
    until(async || {
        crib.get(&format!("dialogs/{asked}")).await;
        (!is_there(left)).then_some(())
    })
    .await;
    assert_eq!(crib.get("status").await["leases"], 1, "its lease went with it");
    assert!(is_there(asked) && is_there(busy) && is_there(&clients));
    let call = &started["call"];
    let over = crib.ask(By::Socket, &format!("DELETE dialogs/{busy}/calls/{call}"), None).await;
    assert_eq!(over.status, 204);
    until(async || (!is_there(asked) && !is_there(busy)).then_some(())).await;
    assert!(is_there(&clients), "that one is the client's");
    client.end().await;
    crib.end().await;
}

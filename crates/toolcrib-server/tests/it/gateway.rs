//! Tools, documents, progress, questions and changes, for clients of both eras.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use crate::scene::{Client, Scene, until, within};

fn ask() -> Step {
    Step::Ask {
        method: "elicitation/create".to_owned(),
        params: json!({"message": "your name?", "requestedSchema": {"type": "object", "properties": {}}}),
    }
}

fn names(answer: &Value) -> Vec<&str> {
    answer["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_client_of_either_era_sees_and_calls_what_the_host_offers() {
    let scene =
        Scene::new(&[("one", Script::default(), json!({})), ("two", Script::default(), json!({}))])
            .await;
    let mut client = scene.client();
    let opened = client.initialize(json!({})).await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(opened["result"]["capabilities"]["tools"]["listChanged"], true);
    let list = client.request("tools/list", json!({})).await;
    assert_eq!(names(&list).len(), 6);
    assert!(list["result"].get("resultType").is_none());
    let called =
        client.request("tools/call", json!({"name": "two__echo", "arguments": {"a": 1.50}})).await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"a":1.5}"#);
    let failed = client.request("tools/call", json!({"name": "one__fail"})).await;
    assert_eq!(failed["result"]["isError"], true);
    let unknown = client.request("tools/call", json!({"name": "one__nothing"})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(client.request("no/such", json!({})).await["error"]["code"], -32601);
    client.end().await;

    let mut client = scene.client();
    let none = json!({});
    let found = client.request("server/discover", Client::modern(json!({}), &none)).await;
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    let list = client.request("tools/list", Client::modern(json!({}), &none)).await;
    assert_eq!((names(&list).len(), &list["result"]["resultType"]), (6, &json!("complete")));
    let call = json!({"name": "one__echo", "arguments": {}});
    let called = client.request("tools/call", Client::modern(call, &none)).await;
    assert_eq!(called["result"]["resultType"], "complete");
    client.end().await;
    assert!(scene.host.dialogs().is_empty());
    within(scene.host.close()).await;
}

#[tokio::test]
async fn dkr_39_progress_reaches_the_client_before_the_result_with_its_own_token() {
    let slow = Script::default()
        .on("tools/call slow", [Step::Progress { times: 3, every: 5 }, Step::Answer]);
    let scene = Scene::new(&[("it", slow, json!({}))]).await;
    let mut client = scene.client();
    client.initialize(json!({})).await;
    let params = json!({"name": "it__slow", "_meta": {"progressToken": "mine", "custom": 7}});
    let called = client.request("tools/call", params).await;
    assert!(called["result"]["content"].is_array());
    let told: Vec<_> =
        client.aside.iter().map(|it| (&it["method"], &it["params"]["progressToken"])).collect();
    assert_eq!(told, vec![(&json!("notifications/progress"), &json!("mine")); 3]);
    // What the client says besides is handed on.
    let sent = scene.log("it");
    let sent = sent.iter().find(|message| message["method"] == "tools/call").unwrap();
    assert_eq!(sent["params"]["_meta"]["custom"], 7);
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_question_of_a_server_of_either_era_reaches_a_client_of_either_era() {
    let legacy = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [ask(), Step::Answer]);
    let scene = Scene::new(&[("it", legacy, json!({}))]).await;
    let can = json!({"elicitation": {"form": {}}});
    let said = json!({"action": "accept", "content": {"name": "Ada"}});

    // A client of the legacy era is asked on the stream of its call.
    let mut client = scene.client();
    client.initialize(can.clone()).await;
    let id = client.begin("tools/call", json!({"name": "it__greet", "arguments": {}})).await;
    let asked = client.next().await;
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("your name?"))
    );
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": said})).await;
    assert!(client.answer(id).await["result"]["content"].is_array());
    let answered =
        |log: Vec<Value>| log.iter().filter(|it| it["result"]["action"] == "accept").count();
    assert_eq!(answered(scene.log("it")), 1);
    client.end().await;

    // One of the modern era gets the question for an answer, and comes back with its own.
    let mut client = scene.client();
    let call = json!({"name": "it__greet", "arguments": {}});
    let first = client.request("tools/call", Client::modern(call.clone(), &can)).await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let (key, question) =
        first["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let mut again = call;
    again["inputResponses"] = json!({key: said});
    again["requestState"] = first["result"]["requestState"].clone();
    let second = client.request("tools/call", Client::modern(again.clone(), &can)).await;
    assert_eq!(second["result"]["resultType"], "complete", "{second}");
    assert_eq!(answered(scene.log("it")), 2);
    // The call was made once for each client, and the state is good for once.
    let calls = scene.log("it").iter().filter(|it| it["method"] == "tools/call").count();
    assert_eq!(calls, 2);
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_change_of_what_is_offered_is_told_in_the_words_of_the_clients_era() {
    let scene = Scene::new(&[("one", Script::default(), json!({}))]).await;
    let (mut legacy, mut modern) = (scene.client(), scene.client());
    legacy.initialize(json!({})).await;
    assert_eq!(names(&legacy.request("tools/list", json!({})).await).len(), 3);
    let none = json!({});
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let id = modern.begin("subscriptions/listen", Client::modern(listen, &none)).await;
    let acknowledged = modern.next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    modern.request("tools/list", Client::modern(json!({}), &none)).await;
    scene.servers(&[("one", Script::default(), json!({})), ("two", Script::default(), json!({}))]);
    within(scene.host.reload()).await.unwrap();
    assert_eq!(legacy.next().await["method"], "notifications/tools/list_changed");
    let told = modern.next().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    assert_eq!(names(&legacy.request("tools/list", json!({})).await).len(), 6);
    legacy.end().await;
    modern.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_call_that_the_client_cancels_is_cancelled_at_the_server() {
    let stuck = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Answer]);
    let scene = Scene::new(&[("it", stuck, json!({}))]).await;
    let mut client = scene.client();
    client.initialize(json!({})).await;
    let id = client.begin("tools/call", json!({"name": "it__stuck"})).await;
    let has = |scene: &Scene, method: &str| scene.log("it").iter().any(|it| it["method"] == method);
    while !has(&scene, "tools/call") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let params =
        json!({"requestId": id, "reason": "changed my mind", "_meta": {"com.example/x": 1}});
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    let told = async {
        while !has(&scene, "notifications/cancelled") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    within(told).await;
    // In the client's own words, whatever is in them; only the id is the server's.
    let log = scene.log("it");
    let find = |method: &str| log.iter().find(|it| it["method"] == method).unwrap();
    let (call, told) = (find("tools/call"), find("notifications/cancelled"));
    let words = json!({"requestId": call["id"], "reason": "changed my mind", "_meta": {"com.example/x": 1}});
    assert_eq!(told["params"], words);
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn what_is_no_message_is_refused_and_the_client_goes_on() {
    let scene = Scene::new(&[]).await;
    let mut client = scene.client();
    client.send(&json!("no message")).await;
    assert_eq!(client.next().await["error"]["code"], -32700);
    assert_eq!(client.request("tools/list", json!({})).await["error"]["code"], -32602);
    let pinged = client.request("ping", json!({})).await;
    assert_eq!(pinged["result"], json!({}));
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_change_that_no_server_took_part_in_is_told_too() {
    let scene = Scene::new(&[("one", Script::default(), json!({}))]).await;
    let mut client = scene.client();
    client.initialize(json!({})).await;
    assert_eq!(names(&client.request("tools/list", json!({})).await).len(), 3);
    scene.reserve("one__echo", &[("one", Script::default(), json!({}))]);
    within(scene.host.reload()).await.unwrap();
    assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(names(&client.request("tools/list", json!({})).await).len(), 2);
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_client_of_a_host_that_has_ended_is_still_answered() {
    let scene = Scene::new(&[("one", Script::default(), json!({}))]).await;
    let mut client = scene.client();
    client.initialize(json!({})).await;
    client.request("tools/list", json!({})).await;
    within(scene.host.close()).await;
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    let call = json!({"name": "one__echo", "arguments": {}});
    assert!(client.request("tools/call", call).await["error"].is_object());
    client.end().await;
}

#[tokio::test]
async fn one_id_for_all_gets_nobody_around_the_most_at_once() {
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({"session": {"scope": "shared"}}))]).await;
    let mut client = scene.client();
    client.initialize(json!({})).await;
    let stuck = json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call",
        "params": {"name": "it__stuck", "arguments": {}}});
    for _ in 0..257 {
        client.send(&stuck).await;
    }
    let refused = client.next().await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!("same"), &json!(-32603)),
        "{refused}"
    );
    // What ends makes room again.
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "same"}})).await;
    let answered = async {
        loop {
            let answer = client.request("ping", json!({})).await;
            if answer.get("result").is_some() {
                return;
            }
        }
    };
    within(answered).await;
    client.end().await;
    within(scene.host.close()).await;
}

/// A server of the legacy era with a tool that asks, and one that takes its time.
fn asking(slow: u64) -> Script {
    Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [ask(), Step::Answer])
        .on("tools/call work", [Step::Sleep(slow), Step::Answer])
}

fn answering(mut call: Value, first: &Value) -> Value {
    let keys = first["result"]["inputRequests"].as_object().unwrap().keys();
    let said = keys.map(|key| (key.clone(), json!({"action": "decline"}))).collect();
    call["inputResponses"] = Value::Object(said);
    call["requestState"] = first["result"]["requestState"].clone();
    call
}

#[tokio::test]
async fn a_question_is_for_the_newest_call_and_not_for_one_that_waits_for_its_client() {
    let scene = Scene::new(&[("it", asking(3000), json!({}))]).await;
    let can = json!({"elicitation": {"form": {}}});
    let (work, greet) = (json!({"name": "it__work"}), json!({"name": "it__greet"}));
    let mut client = scene.client();
    client.request("tools/call", Client::modern(json!({"name": "it__echo"}), &can)).await;
    let works = client.begin("tools/call", Client::modern(work, &can)).await;
    until(|| scene.log("it").iter().any(|it| it["params"]["name"] == "work")).await;
    let first = client.request("tools/call", Client::modern(greet.clone(), &can)).await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    // What another call asks meanwhile is that call's own.
    let second = client.request("tools/call", Client::modern(greet.clone(), &can)).await;
    assert_eq!(second["result"]["resultType"], "input_required", "{second}");
    assert_eq!(client.answer(works).await["result"]["resultType"], "complete");
    for first in [second, first] {
        let again = answering(greet.clone(), &first);
        let done = client.request("tools/call", Client::modern(again, &can)).await;
        assert_eq!(done["result"]["resultType"], "complete", "{done}");
        assert!(done.to_string().contains("decline"), "{done}");
    }
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_call_that_waits_for_its_client_does_not_stop_the_clocks_of_others() {
    let limits = json!({"timeouts": {"request": "1s", "request_max": "2s"}});
    let scene = Scene::new(&[("it", asking(600_000), limits)]).await;
    let can = json!({"elicitation": {"form": {}}});
    let mut client = scene.client();
    let call = Client::modern(json!({"name": "it__greet"}), &can);
    let first = client.request("tools/call", call).await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let call = Client::modern(json!({"name": "it__work"}), &can);
    let late = client.request("tools/call", call).await;
    assert!(late.get("error").is_some(), "{late}");
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn what_a_request_says_that_can_be_asked_counts_for_it_alone() {
    let scene = Scene::new(&[("it", asking(0), json!({}))]).await;
    let (can, none) = (json!({"elicitation": {"form": {}}}), json!({}));
    let greet = json!({"name": "it__greet"});
    let mut client = scene.client();
    let mut states = Vec::new();
    for (says, asked) in [(&none, false), (&can, true), (&none, false), (&can, true)] {
        let called = client.request("tools/call", Client::modern(greet.clone(), says)).await;
        assert_eq!(called["result"]["resultType"] == "input_required", asked, "{called}");
        assert_eq!(called.to_string().contains("-32601"), !asked, "{called}");
        states.extend(asked.then_some(called));
    }
    for first in states {
        let again = Client::modern(answering(greet.clone(), &first), &none);
        let done = client.request("tools/call", again).await;
        assert!(done.to_string().contains("decline"), "{done}");
    }
    client.end().await;
    within(scene.host.close()).await;
}

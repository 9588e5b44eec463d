//! Tools, resources, progress, elicitation and changes for clients of both eras.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use crate::fixture::{TestClient, TestHost, wait_until, with_timeout};

fn elicitation_step() -> Step {
    Step::SendRequest {
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
async fn both_eras_list_and_call_tools() {
    let host_fixture = TestHost::new(&[
        ("one", Script::default(), json!({})),
        ("two", Script::default(), json!({})),
    ])
    .await;
    let mut client = host_fixture.client();
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
    client.close().await;

    let mut client = host_fixture.client();
    let none = json!({});
    let found =
        client.request("server/discover", TestClient::modern_params(json!({}), &none)).await;
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    let list = client.request("tools/list", TestClient::modern_params(json!({}), &none)).await;
    assert_eq!((names(&list).len(), &list["result"]["resultType"]), (6, &json!("complete")));
    let call = json!({"name": "one__echo", "arguments": {}});
    let called = client.request("tools/call", TestClient::modern_params(call, &none)).await;
    assert_eq!(called["result"]["resultType"], "complete");
    client.close().await;
    assert!(host_fixture.host.dialogs().is_empty());
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn dkr_39_progress_reaches_the_client_before_the_result_with_its_token() {
    let slow = Script::default()
        .on("tools/call slow", [Step::Progress { times: 3, every: 5 }, Step::Respond]);
    let host_fixture = TestHost::new(&[("it", slow, json!({}))]).await;
    let mut client = host_fixture.client();
    client.initialize(json!({})).await;
    let params = json!({"name": "it__slow", "_meta": {"progressToken": "mine", "custom": 7}});
    let called = client.request("tools/call", params).await;
    assert!(called["result"]["content"].is_array());
    let told: Vec<_> = client
        .other_messages
        .iter()
        .map(|it| (&it["method"], &it["params"]["progressToken"]))
        .collect();
    assert_eq!(told, vec![(&json!("notifications/progress"), &json!("mine")); 3]);
    // Other `_meta` members are forwarded.
    let sent = host_fixture.log("it");
    let sent = sent.iter().find(|message| message["method"] == "tools/call").unwrap();
    assert_eq!(sent["params"]["_meta"]["custom"], 7);
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn elicitation_reaches_clients_of_both_eras() {
    let legacy = Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [elicitation_step(), Step::Respond]);
    let host_fixture = TestHost::new(&[("it", legacy, json!({}))]).await;
    let can = json!({"elicitation": {"form": {}}});
    let said = json!({"action": "accept", "content": {"name": "Ada"}});

    // A legacy client gets the request on the stream of its call.
    let mut client = host_fixture.client();
    client.initialize(can.clone()).await;
    let id =
        client.start_request("tools/call", json!({"name": "it__greet", "arguments": {}})).await;
    let asked = client.next_message().await;
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("your name?"))
    );
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": said})).await;
    assert!(client.wait_for_response(id).await["result"]["content"].is_array());
    let answered =
        |log: Vec<Value>| log.iter().filter(|it| it["result"]["action"] == "accept").count();
    assert_eq!(answered(host_fixture.log("it")), 1);
    client.close().await;

    // A modern client gets it as a result and returns with its response.
    let mut client = host_fixture.client();
    let call = json!({"name": "it__greet", "arguments": {}});
    let first = client.request("tools/call", TestClient::modern_params(call.clone(), &can)).await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let (key, question) =
        first["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let mut again = call;
    again["inputResponses"] = json!({key: said});
    again["requestState"] = first["result"]["requestState"].clone();
    let second = client.request("tools/call", TestClient::modern_params(again.clone(), &can)).await;
    assert_eq!(second["result"]["resultType"], "complete", "{second}");
    assert_eq!(answered(host_fixture.log("it")), 2);
    // Each client's call reached the server once, and the state is valid once.
    let calls = host_fixture.log("it").iter().filter(|it| it["method"] == "tools/call").count();
    assert_eq!(calls, 2);
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn list_change_notification_matches_the_client_era() {
    let host_fixture = TestHost::new(&[("one", Script::default(), json!({}))]).await;
    let (mut legacy, mut modern) = (host_fixture.client(), host_fixture.client());
    legacy.initialize(json!({})).await;
    assert_eq!(names(&legacy.request("tools/list", json!({})).await).len(), 3);
    let none = json!({});
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let id = modern
        .start_request("subscriptions/listen", TestClient::modern_params(listen, &none))
        .await;
    let acknowledged = modern.next_message().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    modern.request("tools/list", TestClient::modern_params(json!({}), &none)).await;
    host_fixture
        .servers(&[("one", Script::default(), json!({})), ("two", Script::default(), json!({}))]);
    with_timeout(host_fixture.host.reload()).await.unwrap();
    assert_eq!(legacy.next_message().await["method"], "notifications/tools/list_changed");
    let told = modern.next_message().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    assert_eq!(names(&legacy.request("tools/list", json!({})).await).len(), 6);
    legacy.close().await;
    modern.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn client_cancellation_reaches_the_server() {
    let stuck = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Respond]);
    let host_fixture = TestHost::new(&[("it", stuck, json!({}))]).await;
    let mut client = host_fixture.client();
    client.initialize(json!({})).await;
    let id = client.start_request("tools/call", json!({"name": "it__stuck"})).await;
    let has = |host_fixture: &TestHost, method: &str| {
        host_fixture.log("it").iter().any(|it| it["method"] == method)
    };
    while !has(&host_fixture, "tools/call") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let params =
        json!({"requestId": id, "reason": "changed my mind", "_meta": {"com.example/x": 1}});
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    let told = async {
        while !has(&host_fixture, "notifications/cancelled") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    with_timeout(told).await;
    // The client's params arrive unchanged except for the id.
    let log = host_fixture.log("it");
    let find = |method: &str| log.iter().find(|it| it["method"] == method).unwrap();
    let (call, told) = (find("tools/call"), find("notifications/cancelled"));
    let words = json!({"requestId": call["id"], "reason": "changed my mind", "_meta": {"com.example/x": 1}});
    assert_eq!(told["params"], words);
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn malformed_message_gets_an_error_and_the_stream_continues() {
    let host_fixture = TestHost::new(&[]).await;
    let mut client = host_fixture.client();
    client.send(&json!("no message")).await;
    assert_eq!(client.next_message().await["error"]["code"], -32700);
    assert_eq!(client.request("tools/list", json!({})).await["error"]["code"], -32602);
    let pinged = client.request("ping", json!({})).await;
    assert_eq!(pinged["result"], json!({}));
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn config_only_list_change_is_notified() {
    let host_fixture = TestHost::new(&[("one", Script::default(), json!({}))]).await;
    let mut client = host_fixture.client();
    client.initialize(json!({})).await;
    assert_eq!(names(&client.request("tools/list", json!({})).await).len(), 3);
    host_fixture.reserve("one__echo", &[("one", Script::default(), json!({}))]);
    with_timeout(host_fixture.host.reload()).await.unwrap();
    assert_eq!(client.next_message().await["method"], "notifications/tools/list_changed");
    assert_eq!(names(&client.request("tools/list", json!({})).await).len(), 2);
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn client_of_a_closed_host_still_gets_responses() {
    let host_fixture = TestHost::new(&[("one", Script::default(), json!({}))]).await;
    let mut client = host_fixture.client();
    client.initialize(json!({})).await;
    client.request("tools/list", json!({})).await;
    with_timeout(host_fixture.host.close()).await;
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    let call = json!({"name": "one__echo", "arguments": {}});
    assert!(client.request("tools/call", call).await["error"].is_object());
    client.close().await;
}

#[tokio::test]
async fn reused_request_id_counts_against_the_concurrent_request_limit() {
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Respond]);
    let host_fixture =
        TestHost::new(&[("it", script, json!({"session": {"scope": "shared"}}))]).await;
    let mut client = host_fixture.client();
    client.initialize(json!({})).await;
    let stuck = json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call",
        "params": {"name": "it__stuck", "arguments": {}}});
    for _ in 0..257 {
        client.send(&stuck).await;
    }
    let refused = client.next_message().await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!("same"), &json!(-32603)),
        "{refused}"
    );
    // A finished request frees its slot.
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "same"}})).await;
    let answered = async {
        loop {
            let answer = client.request("ping", json!({})).await;
            if answer.get("result").is_some() {
                return;
            }
        }
    };
    with_timeout(answered).await;
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

/// A legacy server with a tool that elicits and a slow one.
fn asking(slow: u64) -> Script {
    Script { legacy_only: true, ..Script::default() }
        .on("tools/call greet", [elicitation_step(), Step::Respond])
        .on("tools/call work", [Step::Sleep(slow), Step::Respond])
}

fn answering(mut call: Value, first: &Value) -> Value {
    let keys = first["result"]["inputRequests"].as_object().unwrap().keys();
    let said = keys.map(|key| (key.clone(), json!({"action": "decline"}))).collect();
    call["inputResponses"] = Value::Object(said);
    call["requestState"] = first["result"]["requestState"].clone();
    call
}

#[tokio::test]
async fn server_request_goes_to_the_newest_active_call() {
    let host_fixture = TestHost::new(&[("it", asking(3000), json!({}))]).await;
    let can = json!({"elicitation": {"form": {}}});
    let (work, greet) = (json!({"name": "it__work"}), json!({"name": "it__greet"}));
    let mut client = host_fixture.client();
    client
        .request("tools/call", TestClient::modern_params(json!({"name": "it__echo"}), &can))
        .await;
    let works = client.start_request("tools/call", TestClient::modern_params(work, &can)).await;
    wait_until(|| host_fixture.log("it").iter().any(|it| it["params"]["name"] == "work")).await;
    let first = client.request("tools/call", TestClient::modern_params(greet.clone(), &can)).await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    // A request of a parallel call belongs to that call.
    let second = client.request("tools/call", TestClient::modern_params(greet.clone(), &can)).await;
    assert_eq!(second["result"]["resultType"], "input_required", "{second}");
    assert_eq!(client.wait_for_response(works).await["result"]["resultType"], "complete");
    for first in [second, first] {
        let again = answering(greet.clone(), &first);
        let done = client.request("tools/call", TestClient::modern_params(again, &can)).await;
        assert_eq!(done["result"]["resultType"], "complete", "{done}");
        assert!(done.to_string().contains("decline"), "{done}");
    }
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn parked_call_does_not_pause_other_deadlines() {
    let limits = json!({"timeouts": {"request": "1s", "request_max": "2s"}});
    let host_fixture = TestHost::new(&[("it", asking(600_000), limits)]).await;
    let can = json!({"elicitation": {"form": {}}});
    let mut client = host_fixture.client();
    let call = TestClient::modern_params(json!({"name": "it__greet"}), &can);
    let first = client.request("tools/call", call).await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let call = TestClient::modern_params(json!({"name": "it__work"}), &can);
    let late = client.request("tools/call", call).await;
    assert!(late.get("error").is_some(), "{late}");
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn elicitation_capability_is_per_request() {
    let host_fixture = TestHost::new(&[("it", asking(0), json!({}))]).await;
    let (can, none) = (json!({"elicitation": {"form": {}}}), json!({}));
    let greet = json!({"name": "it__greet"});
    let mut client = host_fixture.client();
    let mut states = Vec::new();
    for (says, asked) in [(&none, false), (&can, true), (&none, false), (&can, true)] {
        let called =
            client.request("tools/call", TestClient::modern_params(greet.clone(), says)).await;
        assert_eq!(called["result"]["resultType"] == "input_required", asked, "{called}");
        assert_eq!(called.to_string().contains("-32601"), !asked, "{called}");
        states.extend(asked.then_some(called));
    }
    for first in states {
        let again = TestClient::modern_params(answering(greet.clone(), &first), &none);
        let done = client.request("tools/call", again).await;
        assert!(done.to_string().contains("decline"), "{done}");
    }
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

//! Resources, prompts and completions through the gateway, with metadata and progress, in both eras.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use crate::fixture::{TestClient, TestHost, with_timeout};

/// A server of one era with one item of each kind that reports progress.
fn server(script: Script) -> Script {
    let told = || Step::Progress { times: 2, every: 5 };
    let resources = json!({"resources": [{"uri": "doc://a", "name": "a"}]});
    let prompts = json!({"prompts": [{"name": "hello"}]});
    let read = json!({"contents": [{"uri": "doc://a", "text": "A"}], "_meta": {"own": 1}});
    let got = json!({"messages": [], "odd": [1.0]});
    script
        .on("resources/list", [Step::Result(resources)])
        .on("prompts/list", [Step::Result(prompts)])
        .on("resources/read", [told(), Step::Result(read)])
        .on("prompts/get", [told(), Step::Result(got)])
        .on("completion/complete", [told(), Step::Result(json!({"completion": {"values": []}}))])
        .on("resources/subscribe", [Step::Result(json!({}))])
}

fn legacy() -> Script {
    server(Script { legacy_only: true, ..Script::default() })
}

fn modern() -> Script {
    server(Script { modern_only: true, ..Script::default() })
}

/// All requests that servers answer, except calls.
fn requests() -> [(&'static str, Value); 3] {
    let reference = json!({"type": "ref/prompt", "name": "it__hello"});
    [
        ("resources/read", json!({"uri": "doc://a"})),
        ("prompts/get", json!({"name": "it__hello"})),
        ("completion/complete", json!({"ref": reference, "argument": {"name": "x", "value": ""}})),
    ]
}

#[tokio::test]
async fn request_meta_reaches_servers_and_progress_returns() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    for (script, is_modern) in
        [(legacy(), false), (legacy(), true), (modern(), false), (modern(), true)]
    {
        let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
        let mut client = host_fixture.client();
        if !is_modern {
            client.initialize(json!({})).await;
        }
        for (method, mut params) in requests() {
            params["_meta"] = json!({"progressToken": "mine", "custom": {"deep": [7]},
                "traceparent": parent, "toolcrib/dialog": "none of theirs"});
            if is_modern {
                params = TestClient::modern_params(params, &json!({}));
            }
            client.other_messages.clear();
            let answer = client.request(method, params).await;
            assert!(answer["result"].is_object(), "{method}: {answer}");
            let told: Vec<_> = client.other_messages.iter().map(|it| &it["params"]).collect();
            let steps: Vec<_> =
                told.iter().map(|it| (&it["progressToken"], &it["progress"])).collect();
            let mine = json!("mine");
            assert_eq!(steps, [(&mine, &json!(1)), (&mine, &json!(2))], "{method}");
            let sent = host_fixture.log("it");
            let sent = sent.iter().find(|message| message["method"] == method).unwrap();
            let meta = &sent["params"]["_meta"];
            assert_eq!(meta["custom"], json!({"deep": [7]}), "{method}: {meta}");
            assert_eq!(meta["traceparent"], parent);
            assert!(meta["progressToken"] != "mine" && meta.get("toolcrib/dialog").is_none());
        }
        client.close().await;
        with_timeout(host_fixture.host.close()).await;
    }
}

#[tokio::test]
async fn resource_and_prompt_results_pass_unchanged() {
    let host_fixture = TestHost::new(&[("it", legacy(), json!({}))]).await;
    let mut client = host_fixture.client();
    client.initialize(json!({})).await;
    let [(read, uri), (get, name), _] = requests();
    let answer = client.request(read, uri.clone()).await;
    assert_eq!(answer["result"]["_meta"], json!({"own": 1}));
    let answer = client.request(get, name).await;
    assert_eq!(answer["result"], json!({"messages": [], "odd": [1.0]}));
    // Subscriptions forward `_meta`, too.
    let follow = json!({"uri": "doc://a", "_meta": {"custom": 8}});
    assert_eq!(client.request("resources/subscribe", follow).await["result"], json!({}));
    let sent = host_fixture.log("it");
    let sent = sent.iter().find(|it| it["method"] == "resources/subscribe").unwrap();
    assert_eq!(sent["params"]["_meta"]["custom"], 8);
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn elicitation_during_a_resource_read_reaches_both_eras() {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let params = json!({"message": "your name?", "requestedSchema": schema});
    let ask = || Step::SendRequest { method: "elicitation/create".into(), params: params.clone() };
    let read = json!({"contents": [{"uri": "doc://a", "text": "for Ada"}]});
    let completed = json!({"completion": {"values": ["x"]}});
    let script = legacy()
        .on("resources/read", [ask(), Step::Result(read)])
        .on("completion/complete", [ask(), Step::Result(completed)]);
    let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
    let can = json!({"elicitation": {"form": {}}});
    let said = json!({"action": "accept", "content": {"name": "Ada"}});
    let [(method, params), (other, _), (complete, word)] = requests();

    let mut client = host_fixture.client();
    client.initialize(can.clone()).await;
    let id = client.start_request(method, params.clone()).await;
    let asked = client.next_message().await;
    assert_eq!(asked["params"]["message"], "your name?");
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": said})).await;
    assert_eq!(client.wait_for_response(id).await["result"]["contents"][0]["text"], "for Ada");
    client.close().await;

    let mut client = host_fixture.client();
    let mut stale = json!({"name": "it__hello"});
    for is_mistaken in [true, false] {
        let first = client.request(method, TestClient::modern_params(params.clone(), &can)).await;
        let requests =
            first["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{first}"));
        let (key, question) = requests.iter().next().unwrap();
        assert_eq!(question["params"]["message"], "your name?");
        let state = first["result"]["requestState"].clone();
        if is_mistaken {
            // Another method cannot use this state.
            stale["requestState"] = state;
            let refused =
                client.request(other, TestClient::modern_params(stale.clone(), &can)).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            continue;
        }
        let mut again = params.clone();
        again["inputResponses"] = json!({key: said});
        again["requestState"] = state;
        let second = client.request(method, TestClient::modern_params(again, &can)).await;
        assert_eq!(second["result"]["contents"][0]["text"], "for Ada", "{second}");
    }
    // A completion must not return `input_required`, so the server gets an error at once.
    let completed = client.request(complete, TestClient::modern_params(word, &can)).await;
    assert_eq!(completed["result"]["completion"]["values"], json!(["x"]), "{completed}");
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

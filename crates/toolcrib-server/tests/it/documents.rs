//! Resources, prompts and completions through the gateway: what goes with them goes on, in both eras.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use crate::scene::{Client, Scene, within};

/// A server of one era that has one of each, and tells of its progress.
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

/// Each request that a server answers besides a call.
fn requests() -> [(&'static str, Value); 3] {
    let reference = json!({"type": "ref/prompt", "name": "it__hello"});
    [
        ("resources/read", json!({"uri": "doc://a"})),
        ("prompts/get", json!({"name": "it__hello"})),
        ("completion/complete", json!({"ref": reference, "argument": {"name": "x", "value": ""}})),
    ]
}

#[tokio::test]
async fn what_a_client_says_besides_reaches_servers_of_either_era_and_their_progress_reaches_it() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    for (script, is_modern) in
        [(legacy(), false), (legacy(), true), (modern(), false), (modern(), true)]
    {
        let scene = Scene::new(&[("it", script, json!({}))]).await;
        let mut client = scene.client();
        if !is_modern {
            client.initialize(json!({})).await;
        }
        for (method, mut params) in requests() {
            params["_meta"] = json!({"progressToken": "mine", "custom": {"deep": [7]},
                "traceparent": parent, "toolcrib/dialog": "none of theirs"});
            if is_modern {
                params = Client::modern(params, &json!({}));
            }
            client.aside.clear();
            let answer = client.request(method, params).await;
            assert!(answer["result"].is_object(), "{method}: {answer}");
            let told: Vec<_> = client.aside.iter().map(|it| &it["params"]).collect();
            let steps: Vec<_> =
                told.iter().map(|it| (&it["progressToken"], &it["progress"])).collect();
            let mine = json!("mine");
            assert_eq!(steps, [(&mine, &json!(1)), (&mine, &json!(2))], "{method}");
            let sent = scene.log("it");
            let sent = sent.iter().find(|message| message["method"] == method).unwrap();
            let meta = &sent["params"]["_meta"];
            assert_eq!(meta["custom"], json!({"deep": [7]}), "{method}: {meta}");
            assert_eq!(meta["traceparent"], parent);
            assert!(meta["progressToken"] != "mine" && meta.get("toolcrib/dialog").is_none());
        }
        client.end().await;
        within(scene.host.close()).await;
    }
}

#[tokio::test]
async fn results_of_documents_pass_unchanged() {
    let scene = Scene::new(&[("it", legacy(), json!({}))]).await;
    let mut client = scene.client();
    client.initialize(json!({})).await;
    let [(read, uri), (get, name), _] = requests();
    let answer = client.request(read, uri.clone()).await;
    assert_eq!(answer["result"]["_meta"], json!({"own": 1}));
    let answer = client.request(get, name).await;
    assert_eq!(answer["result"], json!({"messages": [], "odd": [1.0]}));
    // Whoever follows a resource may say something besides, too.
    let follow = json!({"uri": "doc://a", "_meta": {"custom": 8}});
    assert_eq!(client.request("resources/subscribe", follow).await["result"], json!({}));
    let sent = scene.log("it");
    let sent = sent.iter().find(|it| it["method"] == "resources/subscribe").unwrap();
    assert_eq!(sent["params"]["_meta"]["custom"], 8);
    client.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_question_within_a_document_reaches_a_client_of_either_era() {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let params = json!({"message": "your name?", "requestedSchema": schema});
    let ask = || Step::Ask { method: "elicitation/create".into(), params: params.clone() };
    let read = json!({"contents": [{"uri": "doc://a", "text": "for Ada"}]});
    let completed = json!({"completion": {"values": ["x"]}});
    let script = legacy()
        .on("resources/read", [ask(), Step::Result(read)])
        .on("completion/complete", [ask(), Step::Result(completed)]);
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let can = json!({"elicitation": {"form": {}}});
    let said = json!({"action": "accept", "content": {"name": "Ada"}});
    let [(method, params), (other, _), (complete, word)] = requests();

    let mut client = scene.client();
    client.initialize(can.clone()).await;
    let id = client.begin(method, params.clone()).await;
    let asked = client.next().await;
    assert_eq!(asked["params"]["message"], "your name?");
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": said})).await;
    assert_eq!(client.answer(id).await["result"]["contents"][0]["text"], "for Ada");
    client.end().await;

    let mut client = scene.client();
    let mut stale = json!({"name": "it__hello"});
    for is_mistaken in [true, false] {
        let first = client.request(method, Client::modern(params.clone(), &can)).await;
        let requests =
            first["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{first}"));
        let (key, question) = requests.iter().next().unwrap();
        assert_eq!(question["params"]["message"], "your name?");
        let state = first["result"]["requestState"].clone();
        if is_mistaken {
            // Nothing else can be gone on with by that state.
            stale["requestState"] = state;
            let refused = client.request(other, Client::modern(stale.clone(), &can)).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            continue;
        }
        let mut again = params.clone();
        again["inputResponses"] = json!({key: said});
        again["requestState"] = state;
        let second = client.request(method, Client::modern(again, &can)).await;
        assert_eq!(second["result"]["contents"][0]["text"], "for Ada", "{second}");
    }
    // A completion may not be answered by a question, so the server hears at once that nobody can be asked.
    let completed = client.request(complete, Client::modern(word, &can)).await;
    assert_eq!(completed["result"]["completion"]["values"], json!(["x"]), "{completed}");
    client.end().await;
    within(scene.host.close()).await;
}

//! What one side says to the other arrives as it was written.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use crate::scene::{Client, Scene, within};

const ERROR: &str = r#"{ "code":-1,"message":"\ud800x", "data":{"d":1.0},"extra":{"k":1}}"#;

/// A server that has one of each, and does this when it is asked for it.
fn server(script: Script, does: &Step) -> Script {
    let resources = json!({"resources": [{"uri": "doc://a", "name": "a"}]});
    let prompts = json!({"prompts": [{"name": "hello"}]});
    script
        .on("resources/list", [Step::Result(resources)])
        .on("prompts/list", [Step::Result(prompts)])
        .on("tools/call odd", [does.clone()])
        .on("resources/read", [does.clone()])
        .on("prompts/get", [does.clone()])
        .on("completion/complete", [does.clone()])
}

/// A server of either era, for a client of either.
fn eras(does: &Step) -> [(Script, bool); 4] {
    let legacy = server(Script { legacy_only: true, ..Script::default() }, does);
    let modern = server(Script { modern_only: true, ..Script::default() }, does);
    [(legacy.clone(), false), (legacy, true), (modern.clone(), false), (modern, true)]
}

/// Each request that a server answers.
fn requests() -> [(&'static str, Value); 4] {
    let reference = json!({"type": "ref/prompt", "name": "it__hello"});
    [
        ("tools/call", json!({"name": "it__odd", "arguments": {}})),
        ("resources/read", json!({"uri": "doc://a"})),
        ("prompts/get", json!({"name": "it__hello", "arguments": {}})),
        ("completion/complete", json!({"ref": reference, "argument": {"name": "x", "value": ""}})),
    ]
}

async fn client(scene: &Scene, is_modern: bool) -> Client {
    let mut client = scene.client();
    if !is_modern {
        client.initialize(json!({})).await;
    }
    client
}

#[tokio::test]
async fn an_error_of_a_server_keeps_its_bytes() {
    let refuses = Step::Message(format!(r#"{{"jsonrpc":"2.0","id":$id,"error":{ERROR}}}"#));
    for (script, is_modern) in eras(&refuses) {
        let scene = Scene::new(&[("it", script, json!({}))]).await;
        let mut client = client(&scene, is_modern).await;
        for (method, params) in requests() {
            let params = if is_modern { Client::modern(params, &json!({})) } else { params };
            client.begin(method, params).await;
            let line = client.line().await;
            assert!(line.ends_with(&format!(r#","error":{ERROR}}}"#)), "{method}: {line}");
        }
        client.end().await;
        within(scene.host.close()).await;
    }
}

#[tokio::test]
async fn an_error_of_a_client_that_was_asked_keeps_its_bytes() {
    let asked = ["elicitation/create", "sampling/createMessage", "roots/list"];
    let legacy = Script { legacy_only: true, ..Script::default() };
    let script = asked.iter().fold(legacy, |script, method| {
        let ask = Step::Ask { method: (*method).to_owned(), params: json!({}) };
        script.on(&format!("tools/call {}", method.replace('/', "_")), [ask, Step::Answer])
    });
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let mut client = scene.client();
    client.initialize(json!({"elicitation": {}, "sampling": {}, "roots": {}})).await;
    for (place, method) in asked.iter().enumerate() {
        let name = format!("it__{}", method.replace('/', "_"));
        let id = client.begin("tools/call", json!({"name": name})).await;
        let question = client.next().await;
        assert_eq!(question["method"], *method);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{ERROR}}}"#, question["id"]);
        client.write(&answer).await;
        client.answer(id).await;
        let passed = format!(r#","error":{ERROR}}}"#);
        assert_eq!(scene.text("it").matches(&passed).count(), place + 1, "{method}");
    }
    client.end().await;
    within(scene.host.close()).await;
}

//! What one side says to the other arrives as it was written, also what nobody here knows.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use crate::scene::{Client, Scene, within};

const ERROR: &str = r#"{ "code":-1,"message":"\ud800x", "data":{"d":1.0},"extra":{"k":1}}"#;

/// Members of params that are the server's own business.
const MORE: &str = r#""x" : 1.50,"\u0079":[ 1 ]"#;

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

#[tokio::test]
async fn params_that_nobody_here_knows_reach_the_server() {
    for (script, is_modern) in eras(&Step::Result(json!({"contents": [], "content": []}))) {
        let scene = Scene::new(&[("it", script, json!({}))]).await;
        let mut client = client(&scene, is_modern).await;
        for (method, mut params) in requests() {
            params["_meta"] = json!({"com.example/x": 1, "toolcrib/dialog": "none of theirs"});
            let params = if is_modern { Client::modern(params, &json!({})) } else { params };
            let params = params.to_string().replacen('{', &format!("{{{MORE},\"task\":{{}},"), 1);
            client
                .write(&format!(
                    r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#
                ))
                .await;
            let answer = client.answer(7).await;
            assert!(answer["result"].is_object(), "{method}: {answer}");
            let (text, sent) = (scene.text("it"), scene.log("it"));
            let place = sent.iter().position(|it| it["method"] == method).unwrap();
            let (line, params) = (text.lines().nth(place).unwrap(), &sent[place]["params"]);
            assert!(line.contains(MORE), "{method}: {line}");
            assert!(params.get("task").is_none(), "{method}: {line}");
            assert_eq!(params["_meta"]["com.example/x"], 1, "{method}: {line}");
            assert!(params["_meta"].get("toolcrib/dialog").is_none(), "{method}: {line}");
            for name in [&params["name"], &params["ref"]["name"]] {
                assert!(!name.as_str().is_some_and(|it| it.contains("__")), "{method}: {line}");
            }
        }
        client.end().await;
        within(scene.host.close()).await;
    }
}

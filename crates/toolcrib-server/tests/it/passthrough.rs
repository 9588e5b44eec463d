//! Messages pass unchanged between clients and servers, including unknown members.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use crate::fixture::{TestClient, TestHost, with_timeout};

const ERROR: &str = r#"{ "code":-1,"message":"\ud800x", "data":{"d":1.0},"extra":{"k":1}}"#;

/// Params members that only the server knows.
const MORE: &str = r#""x" : 1.50,"\u0079":[ 1 ]"#;

/// A server with one item of each kind and this reaction to requests.
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

/// Servers of both eras, for clients of both eras.
fn eras(does: &Step) -> [(Script, bool); 4] {
    let legacy = server(Script { legacy_only: true, ..Script::default() }, does);
    let modern = server(Script { modern_only: true, ..Script::default() }, does);
    [(legacy.clone(), false), (legacy, true), (modern.clone(), false), (modern, true)]
}

/// All requests that servers answer.
fn requests() -> [(&'static str, Value); 4] {
    let reference = json!({"type": "ref/prompt", "name": "it__hello"});
    [
        ("tools/call", json!({"name": "it__odd", "arguments": {}})),
        ("resources/read", json!({"uri": "doc://a"})),
        ("prompts/get", json!({"name": "it__hello", "arguments": {}})),
        ("completion/complete", json!({"ref": reference, "argument": {"name": "x", "value": ""}})),
    ]
}

async fn client(host_fixture: &TestHost, is_modern: bool) -> TestClient {
    let mut client = host_fixture.client();
    if !is_modern {
        client.initialize(json!({})).await;
    }
    client
}

#[tokio::test]
async fn server_error_bytes_reach_the_client_unchanged() {
    let refuses = Step::Message(format!(r#"{{"jsonrpc":"2.0","id":$id,"error":{ERROR}}}"#));
    for (script, is_modern) in eras(&refuses) {
        let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
        let mut client = client(&host_fixture, is_modern).await;
        for (method, params) in requests() {
            let params =
                if is_modern { TestClient::modern_params(params, &json!({})) } else { params };
            client.start_request(method, params).await;
            let line = client.next_line().await;
            assert!(line.ends_with(&format!(r#","error":{ERROR}}}"#)), "{method}: {line}");
        }
        client.close().await;
        with_timeout(host_fixture.host.close()).await;
    }
}

#[tokio::test]
async fn client_error_bytes_reach_the_server_unchanged() {
    let asked = ["elicitation/create", "sampling/createMessage", "roots/list"];
    let legacy = Script { legacy_only: true, ..Script::default() };
    let script = asked.iter().fold(legacy, |script, method| {
        let ask = Step::SendRequest { method: (*method).to_owned(), params: json!({}) };
        script.on(&format!("tools/call {}", method.replace('/', "_")), [ask, Step::Respond])
    });
    let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
    let mut client = host_fixture.client();
    client.initialize(json!({"elicitation": {}, "sampling": {}, "roots": {}})).await;
    for (place, method) in asked.iter().enumerate() {
        let name = format!("it__{}", method.replace('/', "_"));
        let id = client.start_request("tools/call", json!({"name": name})).await;
        let question = client.next_message().await;
        assert_eq!(question["method"], *method);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{ERROR}}}"#, question["id"]);
        client.send_raw(&answer).await;
        client.wait_for_response(id).await;
        let passed = format!(r#","error":{ERROR}}}"#);
        assert_eq!(host_fixture.text("it").matches(&passed).count(), place + 1, "{method}");
    }
    client.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn unknown_params_reach_the_server() {
    for (script, is_modern) in eras(&Step::Result(json!({"contents": [], "content": []}))) {
        let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
        let mut client = client(&host_fixture, is_modern).await;
        for (method, mut params) in requests() {
            params["_meta"] = json!({"com.example/x": 1, "toolcrib/dialog": "none of theirs"});
            let params =
                if is_modern { TestClient::modern_params(params, &json!({})) } else { params };
            let params = params.to_string().replacen('{', &format!("{{{MORE},\"task\":{{}},"), 1);
            client
                .send_raw(&format!(
                    r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#
                ))
                .await;
            let answer = client.wait_for_response(7).await;
            assert!(answer["result"].is_object(), "{method}: {answer}");
            let (text, sent) = (host_fixture.text("it"), host_fixture.log("it"));
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
        client.close().await;
        with_timeout(host_fixture.host.close()).await;
    }
}

//! What servers ask of a dialog, and what they are told that it can answer.

use serde_json::{Value, json};
use toolcrib::host::{Answers, DialogRequest};
use toolcrib::{Dialog, Event, Host};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;
use toolcrib_wire::RpcError;

use super::stage::{Stage, dialog, dialog_in, hear, raw, request, text};

/// A server that asks its caller something and tells what it heard.
fn asking(method: &str, params: Value) -> Script {
    let ask = Step::Ask { method: method.to_owned(), params };
    Script { legacy_only: true, ..Script::default() }.on("tools/call ask", [ask, Step::Answer])
}

const EVERYTHING: Answers = Answers::PERSON_AND_MODEL;

async fn able(stage: &Stage) -> Host {
    let host = within(stage.builder().answers(EVERYTHING).start()).await.unwrap();
    within(host.ready()).await;
    host
}

#[tokio::test]
async fn dis_40_a_root_is_the_folder_of_whoever_calls() {
    let stage = Stage::new();
    let folders = ["one", "two"].map(|name| stage.dispatch(name, &json!({})));
    for scope in ["per_conversation", "shared"] {
        let mut entry = stage.scripted(asking("roots/list", json!({})), "a");
        entry["session"] = json!({"scope": scope});
        stage.servers(&json!({"a": entry}));
        let host = stage.host().await;
        for folder in &folders {
            let heard = text(&dialog_in(&host, folder).await, "a__ask", &json!({})).await;
            let heard: Value = serde_json::from_str(&heard).unwrap();
            let uri = format!("file://{}", folder.display());
            assert_eq!(heard["result"]["roots"][0]["uri"], json!(uri), "{scope}");
        }
        within(host.close()).await;
    }
}

async fn answered(dialog: &Dialog, answer: Result<Value, RpcError>) -> Value {
    let mut listening = dialog.host().listen();
    let call = dialog.start(request("a__ask", &json!({}))).unwrap();
    let question = hear(&mut listening, |event| match event {
        Event::Asked { question, .. } => Some(question.clone()),
        _ => None,
    })
    .await;
    assert_eq!((&*question.server, question.method.as_str()), ("a", "elicitation/create"));
    assert!(question.params.text().contains("Which one?"));
    assert_eq!(dialog.questions().len(), 1);
    assert!(dialog.answer(question.id, answer.map(|answer| raw(&answer))));
    assert!(!dialog.answer(question.id, Ok(raw(&json!({})))));
    assert!(dialog.questions().is_empty());
    let result = within(dialog.wait(call)).await.unwrap().outcome.unwrap();
    let result: Value = serde_json::from_str(result.raw().text()).unwrap();
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn dis_41_a_person_answers_declines_or_refuses() {
    let stage = Stage::new();
    let form =
        json!({"message": "Which one?", "requestedSchema": {"type": "object", "properties": {}}});
    let mut entry = stage.scripted(asking("elicitation/create", form), "a");
    entry["client"] = json!({"elicitation": "ask"});
    stage.servers(&json!({"a": entry}));
    let host = able(&stage).await;
    // The first has the session in which the lists were read, the other one of its own.
    for dialog in [dialog(&host, "default").await, dialog(&host, "default").await] {
        let accepted = json!({"action": "accept", "content": {"name": "this"}});
        assert_eq!(answered(&dialog, Ok(accepted.clone())).await["result"], accepted);
        let declined = json!({"action": "decline"});
        assert_eq!(answered(&dialog, Ok(declined.clone())).await["result"], declined);
        let refused = answered(&dialog, Err(RpcError::new(-32000, "not now"))).await;
        assert_eq!(refused["error"]["message"], "not now");
    }
    // Where nobody can be asked, nobody is.
    let alone = DialogRequest { answers: Some(Answers::default()), ..DialogRequest::default() };
    let alone = within(host.dialog(alone)).await.unwrap();
    let heard = text(&alone, "a__ask", &json!({})).await;
    assert!(heard.contains("-32601"), "{heard}");
    within(host.close()).await;
}

#[tokio::test]
async fn dis_42_only_what_can_be_answered_is_declared() {
    let declared = async |host: Host, stage: &Stage| {
        within(super::stage::names(&dialog(&host, "default").await)).await;
        within(host.close()).await;
        let first = stage.log("a").into_iter().find(|it| it["method"] == "initialize").unwrap();
        first["params"]["capabilities"].clone()
    };
    // Dispatch offers nothing.
    let stage = Stage::new();
    let text = json!({"servers": {"a": stage.scripted(Script::default(), "a")}}).to_string();
    stage.write(".dispatch/mcp.json", &text);
    assert_eq!(declared(able(&stage).await, &stage).await, json!({}));
    let stage = Stage::new();
    let mut entry = stage.scripted(Script { legacy_only: true, ..Script::default() }, "a");
    entry["client"] = json!({"elicitation": "ask", "sampling": "ask"});
    entry["lifecycle"] = json!({"connect": "eager"});
    stage.servers(&json!({"a": entry}));
    let all = json!({"roots": {}, "sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}});
    assert_eq!(declared(able(&stage).await, &stage).await, all);
}

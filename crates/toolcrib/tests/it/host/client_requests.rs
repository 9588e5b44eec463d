//! Requests of servers to dialogs, and the declared capabilities.

use serde_json::{Value, json};
use toolcrib::{Dialog, DialogCapabilities, DialogRequest, Host, HostEvent};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_wire::RpcError;

use super::workspace::{
    TestWorkspace, call_text, open_dialog, open_dialog_in, raw, request, wait_for_event,
};

/// A server that sends a request to its caller and returns the answer.
fn asking_script(method: &str, params: Value) -> Script {
    let ask = Step::SendRequest { method: method.to_owned(), params };
    Script { legacy_only: true, ..Script::default() }.on("tools/call ask", [ask, Step::Respond])
}

const ALL_CAPABILITIES: DialogCapabilities = DialogCapabilities::PERSON_AND_MODEL;

async fn start_host_with_capabilities(workspace: &TestWorkspace) -> Host {
    let host =
        with_time_limit(workspace.builder().capabilities(ALL_CAPABILITIES).start()).await.unwrap();
    with_time_limit(host.wait_until_ready()).await;
    host
}

#[tokio::test]
async fn dis_40_roots_list_returns_the_callers_folder() {
    let workspace = TestWorkspace::new();
    let folders = ["one", "two"].map(|name| workspace.write_dispatch(name, &json!({})));
    for scope in ["per_conversation", "shared"] {
        let mut entry = workspace.scripted_entry(asking_script("roots/list", json!({})), "a");
        entry["session"] = json!({"scope": scope});
        workspace.write_servers(&json!({"a": entry}));
        let host = workspace.start_host().await;
        for folder in &folders {
            let heard = call_text(&open_dialog_in(&host, folder).await, "a__ask", &json!({})).await;
            let heard: Value = serde_json::from_str(&heard).unwrap();
            let uri = format!("file://{}", folder.display());
            assert_eq!(heard["result"]["roots"][0]["uri"], json!(uri), "{scope}");
        }
        with_time_limit(host.close()).await;
    }
}

async fn answer_elicitation(dialog: &Dialog, answer: Result<Value, RpcError>) -> Value {
    let mut events = dialog.host().subscribe();
    let call = dialog.start_call(request("a__ask", &json!({}))).unwrap();
    let question = wait_for_event(&mut events, |event| match event {
        HostEvent::ClientRequest { request, .. } => Some(request.clone()),
        _ => None,
    })
    .await;
    assert_eq!((&*question.server, question.method.as_str()), ("a", "elicitation/create"));
    assert!(question.params.text().contains("Which one?"));
    assert_eq!(dialog.pending_requests().len(), 1);
    assert!(dialog.answer_request(question.id, answer.map(|answer| raw(&answer))));
    assert!(!dialog.answer_request(question.id, Ok(raw(&json!({})))));
    assert!(dialog.pending_requests().is_empty());
    let result = with_time_limit(dialog.wait_for_call(call)).await.unwrap().outcome.unwrap();
    let result: Value = serde_json::from_str(result.raw().text()).unwrap();
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn dis_41_elicitation_is_accepted_declined_or_refused() {
    let workspace = TestWorkspace::new();
    let form =
        json!({"message": "Which one?", "requestedSchema": {"type": "object", "properties": {}}});
    let mut entry = workspace.scripted_entry(asking_script("elicitation/create", form), "a");
    entry["client"] = json!({"elicitation": "ask"});
    workspace.write_servers(&json!({"a": entry}));
    let host = start_host_with_capabilities(&workspace).await;
    // The first dialog leases the main session, the second one a session of its own.
    for dialog in [open_dialog(&host, "default").await, open_dialog(&host, "default").await] {
        let accepted = json!({"action": "accept", "content": {"name": "this"}});
        assert_eq!(answer_elicitation(&dialog, Ok(accepted.clone())).await["result"], accepted);
        let declined = json!({"action": "decline"});
        assert_eq!(answer_elicitation(&dialog, Ok(declined.clone())).await["result"], declined);
        let refused = answer_elicitation(&dialog, Err(RpcError::new(-32000, "not now"))).await;
        assert_eq!(refused["error"]["message"], "not now");
    }
    // Without capabilities the request is refused.
    let alone = DialogRequest {
        capabilities: Some(DialogCapabilities::default()),
        ..DialogRequest::default()
    };
    let alone = with_time_limit(host.open_dialog(alone)).await.unwrap();
    let heard = call_text(&alone, "a__ask", &json!({})).await;
    assert!(heard.contains("-32601"), "{heard}");
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dis_42_only_answerable_capabilities_are_declared() {
    let declared = async |host: Host, workspace: &TestWorkspace| {
        with_time_limit(super::workspace::tool_names(&open_dialog(&host, "default").await)).await;
        with_time_limit(host.close()).await;
        let first = workspace.log("a").into_iter().find(|it| it["method"] == "initialize").unwrap();
        first["params"]["capabilities"].clone()
    };
    // The Dispatch dialect declares no capabilities.
    let workspace = TestWorkspace::new();
    let text =
        json!({"servers": {"a": workspace.scripted_entry(Script::default(), "a")}}).to_string();
    workspace.write(".dispatch/mcp.json", &text);
    assert_eq!(
        declared(start_host_with_capabilities(&workspace).await, &workspace).await,
        json!({})
    );
    let workspace = TestWorkspace::new();
    let mut entry =
        workspace.scripted_entry(Script { legacy_only: true, ..Script::default() }, "a");
    entry["client"] = json!({"elicitation": "ask", "sampling": "ask"});
    entry["lifecycle"] = json!({"connect": "eager"});
    workspace.write_servers(&json!({"a": entry}));
    let all = json!({"roots": {}, "sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}});
    assert_eq!(declared(start_host_with_capabilities(&workspace).await, &workspace).await, all);
}

//! What goes into a call, what comes out, and what is written down of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib::host::Event;
use toolcrib::shape::{Audience, ErrorKind};
use toolcrib::{CallRequest, Host};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;
use toolcrib_upstream::conn::peer::mailbox;
use toolcrib_wire::Raw;

use super::stage::{Stage, call, dialog, raw, request, server, text, until};

/// A host with one server.
async fn host_of(stage: &Stage, script: Script, policy: &Value) -> Host {
    let mut entry = stage.scripted(script, "log");
    for (key, value) in policy.as_object().unwrap() {
        entry[key] = value.clone();
    }
    stage.servers(&json!({"it": entry}));
    stage.host().await
}

fn result(value: Value) -> Step {
    Step::Result(value)
}

/// A server with one tool of its own.
fn listing(tool: &Value) -> Script {
    Script::default().on("tools/list", [result(json!({"tools": [tool]}))])
}

#[tokio::test]
async fn dom_13_dis_23_a_call_carries_the_original_name_and_the_arguments() {
    let stage = Stage::new();
    let host = host_of(&stage, Script::default(), &json!({})).await;
    let dialog = dialog(&host, "default").await;
    let arguments = r#"{ "a":1.50, "b":[ {"c":null} ] }"#;
    let limits = toolcrib_wire::Limits::default();
    let request = CallRequest::new("it__echo", Raw::parse(arguments, &limits).unwrap());
    let called = within(dialog.call(request)).await.unwrap();
    // DIS-23: byte for byte, which the echo shows; MIN-41: the call returns the final result.
    assert_eq!(
        called.result.content().next().unwrap().raw().json().get("text").unwrap().as_str().unwrap(),
        arguments
    );
    let sent: Vec<Value> = stage.log("log");
    let sent = sent.iter().find(|message| message["method"] == "tools/call").unwrap();
    assert_eq!(sent["params"]["name"], "echo");
    within(host.close()).await;
}

#[tokio::test]
async fn min_39_a_tool_that_nobody_offers_is_not_asked_for() {
    let stage = Stage::new();
    let host =
        host_of(&stage, Script::default(), &json!({"expose": {"tools": {"deny": ["env"]}}})).await;
    let dialog = dialog(&host, "default").await;
    for name in ["it__nothing", "it__env", "echo"] {
        let error = call(&dialog, name, &json!({})).await.unwrap_err();
        assert_eq!(error.to_string(), format!("tool not found: {name}"));
    }
    assert_eq!(stage.count("log", "tools/call"), 0);
    within(host.close()).await;
}

#[tokio::test]
async fn min_36_a_list_belongs_to_whoever_asked_for_it() {
    let stage = Stage::new();
    let host = host_of(&stage, Script::default(), &json!({})).await;
    let dialog = dialog(&host, "default").await;
    let turn = within(dialog.turn()).await;
    let mut tools = turn.tools();
    let count = tools.len();
    tools.clear();
    assert_eq!((turn.tools().len(), count), (count, 3));
    within(host.close()).await;
}

#[tokio::test]
async fn min_77_arguments_are_checked_before_they_are_sent() {
    let stage = Stage::new();
    let schema =
        json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}});
    let script = listing(&json!({"name": "read", "inputSchema": schema}));
    let host = host_of(&stage, script, &json!({"calls": {"validate_input": true}})).await;
    let dialog = dialog(&host, "default").await;
    let error = call(&dialog, "it__read", &json!({})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArguments);
    assert!(error.to_string().contains("path"), "{error}");
    assert_eq!(stage.count("log", "tools/call"), 0);
    let wrong = call(&dialog, "it__read", &json!(["path"])).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArguments);
    call(&dialog, "it__read", &json!({"path": "a"})).await.unwrap();
    within(host.close()).await;
}

#[tokio::test]
async fn dkr_18_a_result_against_its_schema_is_an_error_or_a_problem() {
    for strict in [true, false] {
        let stage = Stage::new();
        let schema =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema});
        let count = stage.log_path("count");
        let turns = [json!({"n": "x"}), json!({"n": 1})].map(|structured| {
            vec![result(json!({"content": [], "structuredContent": structured}))]
        });
        let script =
            listing(&tool).on("tools/call t", [Step::Turns { count, turns: turns.to_vec() }]);
        let host = host_of(&stage, script, &json!({"calls": {"validate_output": strict}})).await;
        let dialog = dialog(&host, "default").await;
        let first = call(&dialog, "it__t", &json!({})).await;
        let told = || host.problems().iter().any(|problem| problem.code == "output.invalid");
        assert_eq!((first.is_err(), told()), (strict, !strict));
        if let Err(error) = first {
            assert!(error.to_string().contains("it__t"), "{error}");
        }
        call(&dialog, "it__t", &json!({})).await.unwrap();
        // What has been put right is no problem any more.
        assert!(!told());
        within(host.close()).await;
    }
}

#[tokio::test]
async fn dkr_31_to_37_errors_and_results_in_the_words_of_the_docker_design() {
    let stage = Stage::new();
    let big = "x".repeat(5000);
    let script = Script::default()
        .on(
            "tools/call s",
            [result(json!({"content": [], "isError": true,
            "structuredContent": {"message": "x", "code": "E_TIMEOUT", "retryable": "false"}}))],
        )
        .on("tools/call r", [result(json!({"content": [], "isError": true, "other": big}))])
        .on("tools/call y", [result(json!({"content": [], "structuredContent": {"a": [1, "b"]}}))]);
    let results = json!({"format": "yaml", "error_style": "throw", "error_message": "structured"});
    let host = host_of(&stage, script, &json!({"results": results})).await;
    let dialog = dialog(&host, "default").await;
    let thrown = async |tool: &str| {
        let called = within(dialog.execute(request(tool, &json!({})))).await;
        called.deliver(Audience::Other)
    };
    // DKR-31, DKR-32, DKR-34
    let error = thrown("it__s").await.unwrap_err();
    assert_eq!(error.message(), "x (code=E_TIMEOUT retriable=false)");
    assert!(error.cause_data().unwrap().text().contains("E_TIMEOUT"));
    // DKR-36: neither text nor structure: the raw result, cut at 2000 characters.
    let error = thrown("it__r").await.unwrap_err();
    assert!(error.message().contains("isError"), "{error}");
    assert!((1900..=2100).contains(&error.message().chars().count()), "{}", error.message().len());
    // DKR-37
    let yaml = thrown("it__y").await.unwrap().view.into_text();
    assert_eq!(yaml, "a:\n  - 1\n  - b\n");
    within(host.close()).await;
}

#[tokio::test]
async fn min_53_a_failure_of_any_kind_is_an_output() {
    let stage = Stage::new();
    let script = Script::default()
        .on("tools/call gone", [Step::Exit(1)])
        .on("tools/call refused", [Step::Error { code: -32000, message: "no".to_owned() }]);
    let policy = json!({
        "session": {"scope": "shared"},
        "results": {"error_style": "output", "format": "first_json"},
        "availability": {"on_unavailable": "keep"},
        "lifecycle": {"reconnect": {"auto": false, "on_demand": false}},
    });
    let host = host_of(&stage, script, &policy).await;
    let dialog = dialog(&host, "default").await;
    let output = async |tool: &str| -> Value {
        let called = within(dialog.execute(request(tool, &json!({"a": 1})))).await;
        let view = called.deliver(Audience::Other).unwrap().view;
        serde_json::from_str(view.into_json().text()).unwrap()
    };
    let good = output("it__echo").await;
    assert_eq!((&good["Success"], &good["Result"]), (&json!(true), &json!({"a": 1})));
    assert_eq!(output("it__fail").await["Error"], "it failed");
    // MIN-54
    assert_eq!(output("it__refused").await["Error"], "Tool execution failed: no");
    let lost = output("it__gone").await;
    assert!(lost["Error"].as_str().unwrap().starts_with("Tool execution failed: "), "{lost}");
    until("it is down", || server(&host, "it").pid.is_none()).await;
    let down = output("it__echo").await;
    assert!(down["Error"].as_str().unwrap().starts_with("Server not connected: "), "{down}");
    within(host.close()).await;
}

#[tokio::test]
async fn dkr_38_a_large_result_is_cut_and_the_whole_can_be_read_later() {
    let stage = Stage::new();
    let script = Script::default().on("tools/call big", [Step::Big(2 << 20)]);
    let host = host_of(&stage, script, &json!({"results": {"max_bytes": 1000}})).await;
    let (one, other) = (dialog(&host, "default").await, dialog(&host, "default").await);
    let called = call(&one, "it__big", &json!({})).await.unwrap();
    let cut = called.result.raw().text();
    assert!(cut.len() < 3000, "{}", cut.len());
    let start = cut.find("toolcrib://results/").unwrap();
    let uri: String = cut[start..].chars().take_while(|c| !"\"; ".contains(*c)).collect();
    let whole = within(one.turn_now().read(&uri, None)).await.unwrap();
    assert!(whole.text().len() > 2 << 20);
    // It is nobody else's.
    assert!(within(other.turn_now().read(&uri, None)).await.is_err());
    // DKR-38: without a limit it comes whole.
    within(host.close()).await;
    let stage = Stage::new();
    let script = Script::default().on("tools/call big", [Step::Big(10 << 20)]);
    let host = host_of(&stage, script, &json!({})).await;
    let dialog = dialog(&host, "default").await;
    assert!(text(&dialog, "it__big", &json!({})).await.len() == 10 << 20);
    within(host.close()).await;
}

#[tokio::test]
async fn dkr_39_progress_comes_before_the_result_to_the_caller_and_to_listeners() {
    let stage = Stage::new();
    let script = Script::default()
        .on("tools/call slow", [Step::Progress { times: 3, every: 5 }, Step::Answer]);
    let host = host_of(&stage, script, &json!({})).await;
    let dialog = dialog(&host, "default").await;
    let mut listening = host.listen();
    let (told, mut progress) = mailbox(16);
    let mut asked = request("it__slow", &json!({}));
    asked.besides.remarks = Some(told);
    within(dialog.call(asked)).await.unwrap();
    let mut count = 0;
    while progress.try_next().is_some() {
        count += 1;
    }
    assert_eq!(count, 3);
    let mut kinds = Vec::new();
    while kinds.last() != Some(&"call") {
        let event: Arc<Event> = within(listening.next()).await.unwrap();
        kinds.extend(["progress", "call"].into_iter().find(|kind| *kind == event.kind()));
    }
    assert_eq!(kinds, ["progress", "progress", "progress", "call"]);
    within(host.close()).await;
}

#[tokio::test]
async fn dis_25_a_call_that_is_dropped_is_cancelled_and_written_down() {
    let stage = Stage::new();
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Answer]);
    let host = host_of(&stage, script, &json!({})).await;
    let dialog = dialog(&host, "default").await;
    let stuck = dialog.call(request("it__stuck", &json!({})));
    let gave_up = tokio::time::timeout(Duration::from_millis(300), stuck).await;
    assert!(gave_up.is_err());
    until("it was told", || stage.count("log", "notifications/cancelled") == 1).await;
    let records = within(host.store().calls(None, 10)).await.unwrap();
    assert_eq!(
        (records[0].call.ended.as_ref(), &*records[0].call.tool),
        ("cancelled", "it__stuck")
    );
    assert_eq!(server(&host, "it").calls.in_flight, 0);
    within(host.close()).await;
}

#[tokio::test]
async fn min_42_a_call_can_be_started_polled_awaited_and_cancelled() {
    let stage = Stage::new();
    let script = Script::default()
        .on("tools/call slow", [Step::Sleep(200), Step::Answer])
        .on("tools/call stuck", [Step::Sleep(60_000), Step::Answer]);
    let host = host_of(&stage, script, &json!({})).await;
    let dialog = dialog(&host, "default").await;
    let slow = dialog.start(request("it__slow", &json!({}))).unwrap();
    assert!(dialog.poll(slow).is_none());
    let ended = within(dialog.wait(slow)).await.unwrap();
    assert!(ended.outcome.is_ok());
    assert_eq!(dialog.poll(slow).unwrap().call, slow);
    let stuck = dialog.start(request("it__stuck", &json!({}))).unwrap();
    until("it is under way", || stage.count("log", "tools/call") == 2).await;
    assert!(dialog.cancel(stuck));
    assert!(within(dialog.wait(stuck)).await.is_none() && !dialog.cancel(stuck));
    until("it was told", || stage.count("log", "notifications/cancelled") == 1).await;
    within(host.close()).await;
}

#[tokio::test]
async fn min_74_a_result_is_remembered_where_policy_says_so() {
    for (ttl, calls) in [("1h", 1), ("0s", 2)] {
        let stage = Stage::new();
        let policy = json!({"calls": {"cache": {"ttl": ttl}}});
        let host = host_of(&stage, Script::default(), &policy).await;
        let dialog = dialog(&host, "default").await;
        for _ in 0..2 {
            assert!(text(&dialog, "it__echo", &json!({"n": 1})).await.contains("\"n\""));
        }
        assert_eq!(stage.count("log", "tools/call"), calls);
        call(&dialog, "it__echo", &json!({"n": 2})).await.unwrap();
        assert_eq!(stage.count("log", "tools/call"), calls + 1);
        within(host.close()).await;
    }
}

#[tokio::test]
async fn min_66_and_67_every_call_is_counted_and_written_down() {
    let stage = Stage::new();
    let host = host_of(&stage, Script::default(), &json!({})).await;
    let dialog = dialog(&host, "ada").await;
    // `ada` is no member: what she may not use does not exist for her, and is not counted as the server's.
    let denied = call(&dialog, "it__echo", &json!({})).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::UnknownTool);
    let dialog = super::stage::dialog(&host, "default").await;
    for tool in ["it__echo", "it__fail", "it__echo", "it__fail", "it__echo"] {
        call(&dialog, tool, &json!({"secret": "geheim"})).await.unwrap();
    }
    let status = server(&host, "it");
    let counts = &status.calls;
    // MIN-66
    assert_eq!((counts.total, counts.succeeded, counts.failed), (5, 3, 2));
    assert_eq!((status.state.as_str(), status.tools), ("ready", 3));
    assert_eq!(status.spec.transport.kind().as_str(), "stdio");
    // MIN-67: an average between the shortest and the longest.
    assert!(counts.average.is_some_and(|average| average > 0.0 && average <= counts.sum));
    let records = within(host.store().calls(None, 10)).await.unwrap();
    let ends: Vec<_> = records.iter().map(|one| one.call.ended.to_string()).collect();
    assert_eq!(ends, ["ok", "tool", "ok", "tool", "ok", "denied"]);
    assert_eq!((&*records[5].call.agent, records[0].call.arguments.as_deref()), ("ada", None));
    within(host.close()).await;
}

#[tokio::test]
async fn a_timeout_of_the_call_counts_before_the_servers() {
    let stage = Stage::new();
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Answer]);
    let host = host_of(&stage, script, &json!({})).await;
    let dialog = dialog(&host, "default").await;
    let mut asked = CallRequest::new("it__stuck", raw(&json!({})));
    asked.timeout = Some(Duration::from_millis(200));
    let error = within(dialog.call(asked)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!((error.server(), error.tool()), (Some("it"), Some("it__stuck")));
    assert!(error.time().is_some());
    within(host.close()).await;
}

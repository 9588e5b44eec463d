//! Arguments, results and records of calls.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib::{Audience, CallRequest, ErrorKind, Host, HostEvent};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_upstream::conn::peer::mailbox;
use toolcrib_wire::RawJson;

use super::workspace::{
    TestWorkspace, call_text, call_tool, open_dialog, raw, request, server_status, wait_until,
};

/// Starts a host with one server.
async fn start_host_with(workspace: &TestWorkspace, script: Script, policy: &Value) -> Host {
    let mut entry = workspace.scripted_entry(script, "log");
    for (key, value) in policy.as_object().unwrap() {
        entry[key] = value.clone();
    }
    workspace.write_servers(&json!({"it": entry}));
    workspace.start_host().await
}

fn result_step(value: Value) -> Step {
    Step::Result(value)
}

/// A server with one tool.
fn script_with_tool(tool: &Value) -> Script {
    Script::default().on("tools/list", [result_step(json!({"tools": [tool]}))])
}

#[tokio::test]
async fn dom_13_dis_23_a_call_carries_the_original_name_and_the_arguments() {
    let workspace = TestWorkspace::new();
    let host = start_host_with(&workspace, Script::default(), &json!({})).await;
    let dialog = open_dialog(&host, "default").await;
    let arguments = r#"{ "a":1.50, "b":[ {"c":null} ] }"#;
    let limits = toolcrib_wire::MessageLimits::default();
    let request = CallRequest::new("it__echo", RawJson::parse(arguments, &limits).unwrap());
    let called = with_time_limit(dialog.call(request)).await.unwrap();
    // DIS-23: the echo returns the arguments byte for byte. MIN-41: the call returns the final
    // result.
    assert_eq!(
        called.result.content().next().unwrap().raw().json().get("text").unwrap().as_str().unwrap(),
        arguments
    );
    let sent: Vec<Value> = workspace.log("log");
    let sent = sent.iter().find(|message| message["method"] == "tools/call").unwrap();
    assert_eq!(sent["params"]["name"], "echo");
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_39_calls_of_unknown_tools_are_not_sent() {
    let workspace = TestWorkspace::new();
    let host = start_host_with(
        &workspace,
        Script::default(),
        &json!({"expose": {"tools": {"deny": ["env"]}}}),
    )
    .await;
    let dialog = open_dialog(&host, "default").await;
    for name in ["it__nothing", "it__env", "echo"] {
        let error = call_tool(&dialog, name, &json!({})).await.unwrap_err();
        assert_eq!(error.to_string(), format!("tool not found: {name}"));
    }
    assert_eq!(workspace.count_messages("log", "tools/call"), 0);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_36_returned_tool_lists_are_independent_copies() {
    let workspace = TestWorkspace::new();
    let host = start_host_with(&workspace, Script::default(), &json!({})).await;
    let dialog = open_dialog(&host, "default").await;
    let turn = with_time_limit(dialog.turn()).await;
    let mut tools = turn.tools();
    let count = tools.len();
    tools.clear();
    assert_eq!((turn.tools().len(), count), (count, 3));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_77_arguments_are_checked_before_they_are_sent() {
    let workspace = TestWorkspace::new();
    let schema =
        json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}});
    let script = script_with_tool(&json!({"name": "read", "inputSchema": schema}));
    let host =
        start_host_with(&workspace, script, &json!({"calls": {"validate_input": true}})).await;
    let dialog = open_dialog(&host, "default").await;
    let error = call_tool(&dialog, "it__read", &json!({})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArguments);
    assert!(error.to_string().contains("path"), "{error}");
    assert_eq!(workspace.count_messages("log", "tools/call"), 0);
    let wrong = call_tool(&dialog, "it__read", &json!(["path"])).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArguments);
    call_tool(&dialog, "it__read", &json!({"path": "a"})).await.unwrap();
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dkr_18_result_that_violates_its_schema_is_an_error_or_a_problem() {
    for strict in [true, false] {
        let workspace = TestWorkspace::new();
        let schema =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema});
        let count = workspace.log_path("count");
        let turns = [json!({"n": "x"}), json!({"n": 1})].map(|structured| {
            vec![result_step(json!({"content": [], "structuredContent": structured}))]
        });
        let script = script_with_tool(&tool)
            .on("tools/call t", [Step::Sequence { count, turns: turns.to_vec() }]);
        let host =
            start_host_with(&workspace, script, &json!({"calls": {"validate_output": strict}}))
                .await;
        let dialog = open_dialog(&host, "default").await;
        let first = call_tool(&dialog, "it__t", &json!({})).await;
        let reported = || host.problems().iter().any(|problem| problem.code == "output.invalid");
        assert_eq!((first.is_err(), reported()), (strict, !strict));
        if let Err(error) = first {
            assert!(error.to_string().contains("it__t"), "{error}");
        }
        call_tool(&dialog, "it__t", &json!({})).await.unwrap();
        // A valid result clears the problem.
        assert!(!reported());
        with_time_limit(host.close()).await;
    }
}

#[tokio::test]
async fn dkr_31_to_37_errors_and_results_follow_the_docker_format() {
    let workspace = TestWorkspace::new();
    let big = "x".repeat(5000);
    let script = Script::default()
        .on(
            "tools/call s",
            [result_step(json!({"content": [], "isError": true,
            "structuredContent": {"message": "x", "code": "E_TIMEOUT", "retryable": "false"}}))],
        )
        .on("tools/call r", [result_step(json!({"content": [], "isError": true, "other": big}))])
        .on(
            "tools/call y",
            [result_step(json!({"content": [], "structuredContent": {"a": [1, "b"]}}))],
        );
    let results = json!({"format": "yaml", "error_style": "throw", "error_message": "structured"});
    let host = start_host_with(&workspace, script, &json!({"results": results})).await;
    let dialog = open_dialog(&host, "default").await;
    let thrown = async |tool: &str| {
        let called = with_time_limit(dialog.execute(request(tool, &json!({})))).await;
        called.deliver(Audience::Other)
    };
    // DKR-31, DKR-32, DKR-34
    let error = thrown("it__s").await.unwrap_err();
    assert_eq!(error.message(), "x (code=E_TIMEOUT retriable=false)");
    assert!(error.cause_data().unwrap().text().contains("E_TIMEOUT"));
    // DKR-36: without text and structured content, the raw result is used, truncated to 2000
    // characters.
    let error = thrown("it__r").await.unwrap_err();
    assert!(error.message().contains("isError"), "{error}");
    assert!((1900..=2100).contains(&error.message().chars().count()), "{}", error.message().len());
    // DKR-37
    let yaml = thrown("it__y").await.unwrap().content.into_text();
    assert_eq!(yaml, "a:\n  - 1\n  - b\n");
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_53_every_failure_is_returned_as_output() {
    let workspace = TestWorkspace::new();
    let script = Script::default()
        .on("tools/call gone", [Step::Exit(1)])
        .on("tools/call refused", [Step::Error { code: -32000, message: "no".to_owned() }]);
    let policy = json!({
        "session": {"scope": "shared"},
        "results": {"error_style": "output", "format": "first_json"},
        "availability": {"on_unavailable": "keep"},
        "lifecycle": {"reconnect": {"auto": false, "on_demand": false}},
    });
    let host = start_host_with(&workspace, script, &policy).await;
    let dialog = open_dialog(&host, "default").await;
    let output = async |tool: &str| -> Value {
        let called = with_time_limit(dialog.execute(request(tool, &json!({"a": 1})))).await;
        let view = called.deliver(Audience::Other).unwrap().content;
        serde_json::from_str(view.into_json().text()).unwrap()
    };
    let good = output("it__echo").await;
    assert_eq!((&good["Success"], &good["Result"]), (&json!(true), &json!({"a": 1})));
    assert_eq!(output("it__fail").await["Error"], "it failed");
    // MIN-54
    assert_eq!(output("it__refused").await["Error"], "Tool execution failed: no");
    let lost = output("it__gone").await;
    assert!(lost["Error"].as_str().unwrap().starts_with("Tool execution failed: "), "{lost}");
    wait_until("the server is down", || server_status(&host, "it").pid.is_none()).await;
    let down = output("it__echo").await;
    assert!(down["Error"].as_str().unwrap().starts_with("Server not connected: "), "{down}");
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dkr_38_large_result_is_truncated_and_the_full_result_is_readable() {
    let workspace = TestWorkspace::new();
    let script = Script::default().on("tools/call big", [Step::LargeResult(2 << 20)]);
    let host = start_host_with(&workspace, script, &json!({"results": {"max_bytes": 1000}})).await;
    let (one, other) = (open_dialog(&host, "default").await, open_dialog(&host, "default").await);
    let called = call_tool(&one, "it__big", &json!({})).await.unwrap();
    let cut = called.result.raw().text();
    assert!(cut.len() < 3000, "{}", cut.len());
    let start = cut.find("toolcrib://results/").unwrap();
    let uri: String = cut[start..].chars().take_while(|c| !"\"; ".contains(*c)).collect();
    let whole = with_time_limit(one.turn_now().read_resource(&uri, None)).await.unwrap();
    assert!(whole.text().len() > 2 << 20);
    // The full result belongs to one dialog.
    assert!(with_time_limit(other.turn_now().read_resource(&uri, None)).await.is_err());
    // DKR-38: without a limit the result is complete.
    with_time_limit(host.close()).await;
    let workspace = TestWorkspace::new();
    let script = Script::default().on("tools/call big", [Step::LargeResult(10 << 20)]);
    let host = start_host_with(&workspace, script, &json!({})).await;
    let dialog = open_dialog(&host, "default").await;
    assert!(call_text(&dialog, "it__big", &json!({})).await.len() == 10 << 20);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dkr_39_progress_precedes_the_result_for_caller_and_listeners() {
    let workspace = TestWorkspace::new();
    let script = Script::default()
        .on("tools/call slow", [Step::Progress { times: 3, every: 5 }, Step::Respond]);
    let host = start_host_with(&workspace, script, &json!({})).await;
    let dialog = open_dialog(&host, "default").await;
    let mut events = host.subscribe();
    let (sender, mut progress) = mailbox(16);
    let mut asked = request("it__slow", &json!({}));
    asked.context.notifications = Some(sender);
    with_time_limit(dialog.call(asked)).await.unwrap();
    let mut count = 0;
    while progress.try_next().is_some() {
        count += 1;
    }
    assert_eq!(count, 3);
    let mut kinds = Vec::new();
    while kinds.last() != Some(&"call") {
        let event: Arc<HostEvent> = with_time_limit(events.next()).await.unwrap();
        kinds.extend(["progress", "call"].into_iter().find(|kind| *kind == event.kind()));
    }
    assert_eq!(kinds, ["progress", "progress", "progress", "call"]);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dis_25_dropped_call_is_cancelled_and_recorded() {
    let workspace = TestWorkspace::new();
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Respond]);
    let host = start_host_with(&workspace, script, &json!({})).await;
    let dialog = open_dialog(&host, "default").await;
    let stuck = dialog.call(request("it__stuck", &json!({})));
    let gave_up = tokio::time::timeout(Duration::from_millis(300), stuck).await;
    assert!(gave_up.is_err());
    wait_until("the server received the notification", || {
        workspace.count_messages("log", "notifications/cancelled") == 1
    })
    .await;
    let records = with_time_limit(host.store().calls(None, 10)).await.unwrap();
    assert_eq!(
        (records[0].call.ended.as_ref(), &*records[0].call.tool),
        ("cancelled", "it__stuck")
    );
    assert_eq!(server_status(&host, "it").calls.in_flight, 0);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_42_a_call_can_be_started_polled_awaited_and_cancelled() {
    let workspace = TestWorkspace::new();
    let script = Script::default()
        .on("tools/call slow", [Step::Sleep(200), Step::Respond])
        .on("tools/call stuck", [Step::Sleep(60_000), Step::Respond]);
    let host = start_host_with(&workspace, script, &json!({})).await;
    let dialog = open_dialog(&host, "default").await;
    let slow = dialog.start_call(request("it__slow", &json!({}))).unwrap();
    assert!(dialog.poll_call(slow).is_none());
    let ended = with_time_limit(dialog.wait_for_call(slow)).await.unwrap();
    assert!(ended.outcome.is_ok());
    assert_eq!(dialog.poll_call(slow).unwrap().call, slow);
    let stuck = dialog.start_call(request("it__stuck", &json!({}))).unwrap();
    wait_until("the call is running", || workspace.count_messages("log", "tools/call") == 2).await;
    assert!(dialog.cancel_call(stuck));
    assert!(
        with_time_limit(dialog.wait_for_call(stuck)).await.is_none() && !dialog.cancel_call(stuck)
    );
    wait_until("the server received the notification", || {
        workspace.count_messages("log", "notifications/cancelled") == 1
    })
    .await;
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_74_results_are_cached_by_policy() {
    for (ttl, calls) in [("1h", 1), ("0s", 2)] {
        let workspace = TestWorkspace::new();
        let policy = json!({"calls": {"cache": {"ttl": ttl}}});
        let host = start_host_with(&workspace, Script::default(), &policy).await;
        let dialog = open_dialog(&host, "default").await;
        for _ in 0..2 {
            assert!(call_text(&dialog, "it__echo", &json!({"n": 1})).await.contains("\"n\""));
        }
        assert_eq!(workspace.count_messages("log", "tools/call"), calls);
        call_tool(&dialog, "it__echo", &json!({"n": 2})).await.unwrap();
        assert_eq!(workspace.count_messages("log", "tools/call"), calls + 1);
        with_time_limit(host.close()).await;
    }
}

#[tokio::test]
async fn min_66_and_67_calls_are_counted_and_recorded() {
    let workspace = TestWorkspace::new();
    let host = start_host_with(&workspace, Script::default(), &json!({})).await;
    let dialog = open_dialog(&host, "ada").await;
    // `ada` is no member, so the tool does not exist for `ada` and the call does not count for the
    // server.
    let denied = call_tool(&dialog, "it__echo", &json!({})).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::UnknownTool);
    let dialog = super::workspace::open_dialog(&host, "default").await;
    for tool in ["it__echo", "it__fail", "it__echo", "it__fail", "it__echo"] {
        call_tool(&dialog, tool, &json!({"secret": "geheim"})).await.unwrap();
    }
    let status = server_status(&host, "it");
    let counts = &status.calls;
    // MIN-66
    assert_eq!((counts.total, counts.succeeded, counts.failed), (5, 3, 2));
    assert_eq!((status.state.as_str(), status.tools), ("ready", 3));
    assert_eq!(status.spec.transport.kind().as_str(), "stdio");
    // MIN-67: the average is positive and at most the sum.
    assert!(counts.average.is_some_and(|average| average > 0.0 && average <= counts.sum));
    let records = with_time_limit(host.store().calls(None, 10)).await.unwrap();
    let ends: Vec<_> = records.iter().map(|one| one.call.ended.to_string()).collect();
    assert_eq!(ends, ["ok", "tool", "ok", "tool", "ok", "denied"]);
    assert_eq!((&*records[5].call.agent, records[0].call.arguments.as_deref()), ("ada", None));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn call_timeout_overrides_the_servers_timeout() {
    let workspace = TestWorkspace::new();
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Respond]);
    let host = start_host_with(&workspace, script, &json!({})).await;
    let dialog = open_dialog(&host, "default").await;
    let mut asked = CallRequest::new("it__stuck", raw(&json!({})));
    asked.timeout = Some(Duration::from_millis(200));
    let error = with_time_limit(dialog.call(asked)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!((error.server(), error.tool()), (Some("it"), Some("it__stuck")));
    assert!(error.time().is_some());
    with_time_limit(host.close()).await;
}

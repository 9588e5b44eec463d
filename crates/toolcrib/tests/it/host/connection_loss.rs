//! Calls that lose their server while they run.

use serde_json::{Value, json};
use toolcrib::{ErrorKind, Host};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{TestWorkspace, call_tool, open_dialog, request, server_status, wait_until};

/// Starts a host with a tool that ends its server at the first call.
async fn start_host_with_crashing_tool(
    workspace: &TestWorkspace,
    retry: &str,
    annotations: Value,
) -> Host {
    let tool =
        json!({"name": "frail", "inputSchema": {"type": "object"}, "annotations": annotations});
    let turns = Step::Sequence {
        count: workspace.log_path("count"),
        turns: vec![vec![Step::Exit(1)], vec![Step::Respond]],
    };
    let script = Script::default()
        .on("tools/list", [Step::Result(json!({"tools": [tool]}))])
        .on("tools/call frail", [turns]);
    let mut entry = workspace.scripted_entry(script, "log");
    entry["calls"] = json!({"retry": retry});
    entry["lifecycle"] = json!({"reconnect": {"auto": true, "max": 3, "initial": "10ms"}});
    workspace.write_servers(&json!({"it": entry}));
    workspace.start_host().await
}

#[tokio::test]
async fn min_62_lost_calls_are_retried_by_policy() {
    for (retry, annotations, again) in [
        ("on_connection_loss", json!({}), true),
        ("if_idempotent", json!({"idempotentHint": true}), true),
        ("if_idempotent", json!({"readOnlyHint": true}), true),
        ("if_idempotent", json!({}), false),
        ("never", json!({"idempotentHint": true}), false),
    ] {
        let workspace = TestWorkspace::new();
        let host = start_host_with_crashing_tool(&workspace, retry, annotations).await;
        let dialog = open_dialog(&host, "default").await;
        let called = with_time_limit(dialog.execute(request("it__frail", &json!({})))).await;
        // The facts report that the result may come from a second run.
        let expected = if again { (true, 2, true) } else { (false, 1, false) };
        let facts = &called.facts;
        assert_eq!((called.outcome.is_ok(), facts.attempts, facts.repeated), expected, "{retry}");
        assert_eq!(workspace.count_messages("log", "tools/call"), if again { 2 } else { 1 });
        if let Err(error) = &called.outcome {
            assert_eq!(error.kind(), ErrorKind::Connection);
        }
        with_time_limit(host.close()).await;
    }
}

#[tokio::test]
async fn min_76_faulty_servers_do_not_stop_the_host() {
    let workspace = TestWorkspace::new();
    let legacy = || Script { legacy_only: true, ..Script::default() };
    let garbage = || Step::Raw("{\"jsonrpc\": nonsense\n".to_owned());
    let faults: [(&str, Script); 6] = [
        ("start", Script::default().start([Step::Exit(1)])),
        ("hello", legacy().on("initialize", [garbage(), Step::Abort])),
        ("list", Script::default().on("tools/list", [Step::Abort])),
        ("call", Script::default().on("tools/call t", [garbage(), Step::Abort])),
        ("mute", Script::default().on("tools/call t", [Step::CloseStdin, Step::Exit(0)])),
        ("odd", Script::default().on("tools/call t", [Step::Result(json!("no object"))])),
    ];
    let mut servers = json!({"good": workspace.scripted_entry(Script::default(), "good")});
    for (name, script) in faults {
        servers[name] = workspace.scripted_entry(script, name);
        servers[name]["lifecycle"] = json!({"retry": {"max": 0}, "reconnect": {"auto": false}});
    }
    workspace.write_servers(&servers);
    let host = workspace.start_host().await;
    let dialog = open_dialog(&host, "default").await;
    for name in ["call", "mute", "odd"] {
        let error = call_tool(&dialog, &format!("{name}__t"), &json!({})).await.unwrap_err();
        // MIN-76: the error names the server and the tool.
        assert_eq!(
            (error.server(), error.tool()),
            (Some(name), Some(format!("{name}__t").as_str()))
        );
    }
    for name in ["start", "hello", "list"] {
        assert_eq!(server_status(&host, name).state.as_str(), "failed", "{name}");
        let reported = || host.problems().iter().any(|it| it.server.as_deref() == Some(name));
        wait_until("a problem appears", reported).await;
    }
    call_tool(&dialog, "good__echo", &json!({})).await.unwrap();
    with_time_limit(host.close()).await;
}

//! Calls whose server is lost while they are under way.

use serde_json::{Value, json};
use toolcrib::Host;
use toolcrib::shape::ErrorKind;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;

use super::stage::{Stage, call, dialog, request, server, until};

/// A server whose tool ends it the first time.
async fn frail(stage: &Stage, retry: &str, annotations: Value) -> Host {
    let tool =
        json!({"name": "frail", "inputSchema": {"type": "object"}, "annotations": annotations});
    let turns = Step::Turns {
        count: stage.log_path("count"),
        turns: vec![vec![Step::Exit(1)], vec![Step::Answer]],
    };
    let script = Script::default()
        .on("tools/list", [Step::Result(json!({"tools": [tool]}))])
        .on("tools/call frail", [turns]);
    let mut entry = stage.scripted(script, "log");
    entry["calls"] = json!({"retry": retry});
    entry["lifecycle"] = json!({"reconnect": {"auto": true, "max": 3, "initial": "10ms"}});
    stage.servers(&json!({"it": entry}));
    stage.host().await
}

#[tokio::test]
async fn min_62_a_lost_call_is_made_again_where_policy_says_so() {
    for (retry, annotations, again) in [
        ("on_connection_loss", json!({}), true),
        ("if_idempotent", json!({"idempotentHint": true}), true),
        ("if_idempotent", json!({"readOnlyHint": true}), true),
        ("if_idempotent", json!({}), false),
        ("never", json!({"idempotentHint": true}), false),
    ] {
        let stage = Stage::new();
        let host = frail(&stage, retry, annotations).await;
        let dialog = dialog(&host, "default").await;
        let called = within(dialog.execute(request("it__frail", &json!({})))).await;
        // Whoever gets a result that may be of a second run is told so.
        let expected = if again { (true, 2, true) } else { (false, 1, false) };
        let facts = &called.facts;
        assert_eq!((called.outcome.is_ok(), facts.attempts, facts.repeated), expected, "{retry}");
        assert_eq!(stage.count("log", "tools/call"), if again { 2 } else { 1 });
        if let Err(error) = &called.outcome {
            assert_eq!(error.kind(), ErrorKind::Connection);
        }
        within(host.close()).await;
    }
}

#[tokio::test]
async fn min_76_whatever_a_server_does_the_host_goes_on() {
    let stage = Stage::new();
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
    let mut servers = json!({"good": stage.scripted(Script::default(), "good")});
    for (name, script) in faults {
        servers[name] = stage.scripted(script, name);
        servers[name]["lifecycle"] = json!({"retry": {"max": 0}, "reconnect": {"auto": false}});
    }
    stage.servers(&servers);
    let host = stage.host().await;
    let dialog = dialog(&host, "default").await;
    for name in ["call", "mute", "odd"] {
        let error = call(&dialog, &format!("{name}__t"), &json!({})).await.unwrap_err();
        // MIN-76: it says which server and which tool.
        assert_eq!(
            (error.server(), error.tool()),
            (Some(name), Some(format!("{name}__t").as_str()))
        );
    }
    for name in ["start", "hello", "list"] {
        assert_eq!(server(&host, name).state.as_str(), "failed", "{name}");
        let told = || host.problems().iter().any(|it| it.server.as_deref() == Some(name));
        until("there is a problem", told).await;
    }
    call(&dialog, "good__echo", &json!({})).await.unwrap();
    within(host.close()).await;
}

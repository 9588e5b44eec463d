//! Server states over their lifecycle, and operations on servers.

use serde_json::{Value, json};
use toolcrib::Host;
use toolcrib_config::{ConfigFile, Dialect};
use toolcrib_testkit::scripted::{Script, Step, server_binary};

use super::{Credential, TestApi, poll_until, tool_names};
use crate::fixture::{TestHost, with_timeout};

fn plain() -> (&'static str, Script, Value) {
    ("one", Script::default(), json!({}))
}

/// A workspace whose only file has another dialect.
async fn foreign(name: &str, dialect: Option<Dialect>, content: &Value) -> TestApi {
    let host_fixture = TestHost::new(&[]).await;
    with_timeout(host_fixture.host.close()).await;
    let path = host_fixture.path("root").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content.to_string()).unwrap();
    std::fs::remove_file(host_fixture.path("root/toolcrib.yaml")).unwrap();
    let mut builder = Host::builder(host_fixture.path("root"), host_fixture.path("state"));
    if dialect.is_some() {
        builder = builder.config_file(ConfigFile { path, dialect });
    }
    let host = with_timeout(builder.start()).await.unwrap();
    with_timeout(host.wait_until_ready()).await;
    TestApi::over(TestHost { host, ..host_fixture }).await
}

#[tokio::test]
async fn dis_18_server_states_are_reported_with_tools_and_error() {
    let slow = Script::default().on("initialize", [Step::Sleep(1000), Step::Respond]);
    let entry =
        |script: &Script| json!({"command": server_binary().unwrap(), "args": [script.to_json()]});
    let api_server = foreign(
        ".dispatch/mcp.json",
        None,
        &json!({"servers": {"slow": entry(&slow), "gone": {"command": "/no/such/program"}}}),
    )
    .await;
    let of = async |id: &str| api_server.get(&format!("servers/{id}")).await;
    assert_eq!(of("slow").await["dialect_state"], "disconnected"); // DIS-18: not started yet
    let listing = api_server.send(Credential::Socket, "GET tools", None);
    let connecting = poll_until(async || {
        let now = of("slow").await;
        (now["dialect_state"] == "connecting").then_some(now)
    });
    let (listed, connecting) = tokio::join!(listing, connecting); // DIS-18
    assert_eq!((&connecting["state"], &connecting["tools"]), (&json!("connecting"), &json!(0)));
    assert_eq!(tool_names(&listed.json()).len(), 3);
    let slow = of("slow").await;
    assert_eq!((&slow["dialect_state"], &slow["tools"]), (&json!("connected"), &json!(3))); // DIS-18
    let gone = of("gone").await;
    assert_eq!(gone["dialect_state"], "error"); // DIS-18
    assert!(gone["last_error"].as_str().unwrap().contains("/no/such/program"), "{gone}");
    api_server.post("servers/slow/disconnect", json!({})).await;
    assert_eq!(of("slow").await["dialect_state"], "disconnected"); // DIS-18
    api_server.close().await;
}

#[tokio::test]
async fn min_28_32_and_33_server_lifecycle_is_reported_in_minion_states() {
    let folder = tempfile::tempdir().unwrap();
    let life = |name: &str, turns: Vec<Vec<Step>>| Step::Sequence {
        count: folder.path().join(name),
        turns,
    };
    // Long enough to be observed.
    let dies = vec![Step::Sleep(200), Step::Exit(1)];
    let script = Script::default()
        .start([life("starts", vec![dies.clone(), dies, vec![]])])
        .on("tools/list", [Step::Sleep(700), Step::Respond])
        .on("tools/call die", [Step::Exit(3)]);
    let entry = json!({"ServerName": "s", "Transport": "stdio", "Command": server_binary().unwrap(),
        "Args": [script.to_json()]});
    let api_server = foreign(
        "minion.json",
        Some(Dialect::Minion),
        &json!({"manager": {"ReconnectDelay": "400ms"}, "servers": [entry]}),
    )
    .await;
    let of = async || api_server.get("servers/s").await;
    let fresh = of().await;
    assert_eq!(
        (&fresh["dialect_state"], &fresh["cache"]),
        (&json!("disconnected"), &json!("empty"))
    ); // MIN-28, 33
    assert_eq!((&fresh["last_error"], &fresh["attempts"]), (&Value::Null, &json!(0))); // MIN-32
    let connect = api_server.send(Credential::Socket, "POST servers/s/connect", None);
    // Every state until the third attempt, without repetitions.
    let mut said: Vec<String> = Vec::new();
    let mut failed_twice = Value::Null;
    let populating = poll_until(async || {
        let now = of().await;
        let word = now["dialect_state"].as_str().unwrap().to_owned();
        if said.last() != Some(&word) {
            said.push(word);
        }
        if now["dialect_state"] == "error" && now["attempts"] == 2 {
            failed_twice = now.clone();
        }
        (now["cache"] == "populating" && now["attempts"] == 2).then_some(now)
    });
    let (connected, populating) = tokio::join!(connect, populating);
    said.retain(|word| word != "disconnected");
    assert_eq!(said, ["connecting", "error", "connecting", "error", "connecting"]); // MIN-28
    assert!(failed_twice["last_error"].is_string(), "{failed_twice}"); // MIN-32: two failures
    assert!(failed_twice["last_error_time"].is_string() && failed_twice["next_retry"].is_string()); // MIN-32
    assert!(failed_twice["last_connected"].is_null()); // MIN-32
    assert_eq!(populating["dialect_state"], "connecting"); // MIN-28, 33
    assert!(connected.json()["server"]["last_error"].is_string(), "{connected:?}"); // MIN-32
    let ready = poll_until(async || {
        let now = of().await;
        (now["dialect_state"] == "connected" && now["cache"] == "ready").then_some(now) // MIN-28, 33
    })
    .await;
    assert!(ready["last_connected"].is_string()); // MIN-32
    assert_eq!(ready["last_error"], failed_twice["last_error"]); // MIN-32: it is kept
    assert_eq!(ready["tools"], 4); // MIN-33: what is ready is offered
    let dialog = api_server.dialog(json!({})).await;
    let calling = api_server.call(&dialog, "mcp_s_die", json!({}));
    let lost = poll_until(async || {
        let now = of().await;
        (now["cache"] == "stale").then_some(now)
    });
    let (_, lost) = tokio::join!(calling, lost); // MIN-33
    assert_eq!(lost["dialect_state"], "reconnecting"); // MIN-28
    assert_ne!(lost["last_error"], ready["last_error"]); // MIN-32: the newest
    assert_eq!(lost["last_connected"], ready["last_connected"]); // MIN-32: it is kept
    api_server.post("servers/s/disconnect", json!({})).await;
    assert_eq!(of().await["dialect_state"], "disconnected"); // MIN-28
    api_server.post("servers/s/disable", json!({})).await;
    assert_eq!(of().await["dialect_state"], "unknown"); // MIN-28: whatever that design has no word for
    api_server.close().await;
}

#[tokio::test]
async fn min_65_and_75_server_operations_work_over_the_owner_socket() {
    let api_server = TestApi::new(&[plain()]).await;
    assert_eq!(api_server.get("servers").await["servers"][0]["id"], "one"); // MIN-65: list, status of all
    let down = api_server.post("servers/one/disconnect", json!({})).await;
    assert_eq!((&down["ok"], &down["server"]["state"]), (&json!(true), &json!("stopped"))); // MIN-65
    let refused = api_server.send(Credential::Socket, "POST servers/one/refresh", None).await;
    assert_eq!(refused.status_and_code(), (409, "connection.down".to_owned()));
    assert_eq!(refused.json()["ok"], false);
    let up = api_server.post("servers/one/connect", json!({})).await;
    assert_eq!(up["server"]["state"], "ready"); // MIN-65: connect
    let twice = api_server.send(Credential::Socket, "POST servers/one/connect", None).await;
    assert_eq!(twice.status, 409);
    assert_eq!(api_server.post("servers/one/refresh", json!({})).await["ok"], true); // MIN-65
    let dialog = api_server.dialog(json!({})).await;
    let called = api_server.call(&dialog, "one__echo", json!({"a": 1})).await; // MIN-65: execute by name
    assert_eq!((&called["ok"], &called["text"]), (&json!(true), &json!(r#"{"a":1}"#)));
    let restarted = api_server.post("servers/one/restart", json!({})).await;
    assert_ne!(restarted["server"]["pid"], up["server"]["pid"]);
    let disabled = api_server.post("servers/one/disable", json!({})).await;
    assert_eq!(disabled["server"]["state"], "disabled");
    assert!(tool_names(&api_server.get("tools").await).is_empty());
    assert_eq!(api_server.post("servers/one/enable", json!({})).await["ok"], true);
    assert_eq!(tool_names(&api_server.get("tools?wait=true").await).len(), 3);
    // MIN-75: all operations above reached another task over a socket, as with a service; TCP works the same.
    assert_eq!(
        api_server.send(Credential::Anonymous, "GET servers/one", None).await.json()["state"],
        "ready"
    );
    api_server.close().await;
}

#[tokio::test]
async fn min_66_and_67_calls_are_counted_and_timed() {
    let slow = Script::default().on("tools/call slow", [Step::Sleep(300), Step::Respond]);
    let api_server = TestApi::new(&[("one", slow, json!({}))]).await;
    let dialog = api_server.dialog(json!({})).await;
    let mut average: Option<f64> = None;
    for (tool, ok) in [
        ("one__slow", true),
        ("one__echo", true),
        ("one__fail", false),
        ("one__slow", true),
        ("one__fail", false),
    ] {
        let called = api_server.call(&dialog, tool, json!({})).await;
        assert_eq!(called["ok"], ok, "{called}");
        let took = called["duration_ms"].as_f64().unwrap() / 1000.0;
        average = Some(average.map_or(took, |average| 0.1 * took + 0.9 * average));
    }
    let server = api_server.get("servers/one").await;
    let figures = ["id", "state", "transport", "tools", "calls", "last_error", "last_error_time"];
    let told: Vec<&Value> = figures.iter().map(|key| &server[key]).collect();
    let calls = json!({"total": 5, "succeeded": 3, "failed": 2});
    let expected = [&json!("one"), &json!("ready"), &json!("stdio"), &json!(4), &calls];
    assert_eq!(told[..5], expected); // MIN-66
    assert_eq!(told[5], "tool `one__fail` reported an error"); // MIN-66, MIN-80
    assert!(told[6].is_string()); // MIN-66, MIN-80
    let average = average.unwrap() - server["avg_response_seconds"].as_f64().unwrap();
    assert!(average.abs() < 0.005, "{average}"); // MIN-67: to the millisecond that the report rounds to
    api_server.close().await;
}

#[tokio::test]
async fn server_can_be_added_and_removed_and_its_log_read() {
    let api_server = TestApi::new(&[plain()]).await;
    let script = Script::default().start([Step::Stderr("hello from below".to_owned())]);
    let entry = json!({"id": "new", "command": server_binary().unwrap(), "args": [script.to_json()],
        "limits": {"tools": 10}, "timeouts": {"request": "7s"}});
    let added = api_server.send(Credential::Socket, "POST servers", Some(entry.clone())).await;
    assert_eq!((added.status, &added.json()["id"]), (201, &json!("new")), "{added:?}");
    let again = api_server.send(Credential::Socket, "POST servers", Some(entry)).await;
    assert_eq!(again.status_and_code(), (409, "server.connected".to_owned()));
    assert!(tool_names(&api_server.get("tools?server=new&wait=true").await).contains(&"new__echo"));
    let log = poll_until(async || {
        let log = api_server.get("servers/new/log").await["log"].clone();
        log.is_string().then_some(log)
    })
    .await;
    assert!(log.as_str().unwrap().contains("hello from below"), "{log}");
    let removed = api_server.send(Credential::Socket, "DELETE servers/new", None).await;
    assert_eq!((removed.status, removed.text.as_str()), (204, ""));
    assert_eq!(api_server.send(Credential::Socket, "GET servers/new", None).await.status, 404);
    let kept = api_server.send(Credential::Socket, "DELETE servers/one", None).await;
    assert_eq!(kept.status_and_code(), (409, "server.in_file".to_owned()));
    let bad = api_server
        .send(Credential::Socket, "POST servers", Some(json!({"id": "x", "comand": "y"})))
        .await;
    assert_eq!(bad.status_and_code(), (400, "server.entry.invalid".to_owned()), "{bad:?}");
    // A key contains characters that a path must escape.
    let by_key = api_server.get("servers/toolcrib.yaml%23one").await;
    assert_eq!((&by_key["id"], &by_key["key"]), (&json!("one"), &json!("toolcrib.yaml#one")));
    api_server.close().await;
}

//! How servers are, over their lives, and what can be done to one.

use serde_json::{Value, json};
use toolcrib::Host;
use toolcrib_config::{Dialect, Named};
use toolcrib_testkit::scripted::{Script, Step, program};

use super::{By, Crib, names, until};
use crate::scene::{Scene, within};

fn plain() -> (&'static str, Script, Value) {
    ("one", Script::default(), json!({}))
}

/// A workspace whose only file is of another format.
async fn foreign(name: &str, dialect: Option<Dialect>, content: &Value) -> Crib {
    let scene = Scene::new(&[]).await;
    within(scene.host.close()).await;
    let path = scene.path("root").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content.to_string()).unwrap();
    std::fs::remove_file(scene.path("root/toolcrib.yaml")).unwrap();
    let mut builder = Host::builder(scene.path("root"), scene.path("state"));
    if dialect.is_some() {
        builder = builder.config_file(Named { path, dialect });
    }
    let host = within(builder.start()).await.unwrap();
    within(host.ready()).await;
    Crib::of(Scene { host, ..scene }).await
}

#[tokio::test]
async fn dis_18_each_situation_of_a_server_is_told_with_its_tools_and_error() {
    let slow = Script::default().on("initialize", [Step::Sleep(1000), Step::Answer]);
    let entry =
        |script: &Script| json!({"command": program().unwrap(), "args": [script.to_json()]});
    let crib = foreign(
        ".dispatch/mcp.json",
        None,
        &json!({"servers": {"slow": entry(&slow), "gone": {"command": "/no/such/program"}}}),
    )
    .await;
    let of = async |id: &str| crib.get(&format!("servers/{id}")).await;
    assert_eq!(of("slow").await["dialect_state"], "disconnected"); // DIS-18: nobody wanted it yet
    let listing = crib.ask(By::Socket, "GET tools", None);
    let connecting = until(async || {
        let now = of("slow").await;
        (now["dialect_state"] == "connecting").then_some(now)
    });
    let (listed, connecting) = tokio::join!(listing, connecting); // DIS-18
    assert_eq!((&connecting["state"], &connecting["tools"]), (&json!("connecting"), &json!(0)));
    assert_eq!(names(&listed.json()).len(), 3);
    let slow = of("slow").await;
    assert_eq!((&slow["dialect_state"], &slow["tools"]), (&json!("connected"), &json!(3))); // DIS-18
    let gone = of("gone").await;
    assert_eq!(gone["dialect_state"], "error"); // DIS-18
    assert!(gone["last_error"].as_str().unwrap().contains("/no/such/program"), "{gone}");
    crib.post("servers/slow/disconnect", json!({})).await;
    assert_eq!(of("slow").await["dialect_state"], "disconnected"); // DIS-18
    crib.end().await;
}

#[tokio::test]
async fn min_28_32_and_33_a_scripted_life_in_minions_words() {
    let folder = tempfile::tempdir().unwrap();
    let life =
        |name: &str, turns: Vec<Vec<Step>>| Step::Turns { count: folder.path().join(name), turns };
    // Long enough to be seen.
    let dies = vec![Step::Sleep(200), Step::Exit(1)];
    let script = Script::default()
        .start([life("starts", vec![dies.clone(), dies, vec![]])])
        .on("tools/list", [Step::Sleep(700), Step::Answer])
        .on("tools/call die", [Step::Exit(3)]);
    let entry = json!({"ServerName": "s", "Transport": "stdio", "Command": program().unwrap(),
        "Args": [script.to_json()]});
    let crib = foreign(
        "minion.json",
        Some(Dialect::Minion),
        &json!({"manager": {"ReconnectDelay": "400ms"}, "servers": [entry]}),
    )
    .await;
    let of = async || crib.get("servers/s").await;
    let fresh = of().await;
    assert_eq!(
        (&fresh["dialect_state"], &fresh["cache"]),
        (&json!("disconnected"), &json!("empty"))
    ); // MIN-28, 33
    assert_eq!((&fresh["last_error"], &fresh["attempts"]), (&Value::Null, &json!(0))); // MIN-32
    let connect = crib.ask(By::Socket, "POST servers/s/connect", None);
    // Every word on the way to the third try, once each time it changes.
    let mut said: Vec<String> = Vec::new();
    let mut failed_twice = Value::Null;
    let populating = until(async || {
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
    let ready = until(async || {
        let now = of().await;
        (now["dialect_state"] == "connected" && now["cache"] == "ready").then_some(now) // MIN-28, 33
    })
    .await;
    assert!(ready["last_connected"].is_string()); // MIN-32
    assert_eq!(ready["last_error"], failed_twice["last_error"]); // MIN-32: it is kept
    assert_eq!(ready["tools"], 4); // MIN-33: what is ready is offered
    let dialog = crib.dialog(json!({})).await;
    let calling = crib.call(&dialog, "mcp_s_die", json!({}));
    let lost = until(async || {
        let now = of().await;
        (now["cache"] == "stale").then_some(now)
    });
    let (_, lost) = tokio::join!(calling, lost); // MIN-33
    assert_eq!(lost["dialect_state"], "reconnecting"); // MIN-28
    assert_ne!(lost["last_error"], ready["last_error"]); // MIN-32: the newest
    assert_eq!(lost["last_connected"], ready["last_connected"]); // MIN-32: it is kept
    crib.post("servers/s/disconnect", json!({})).await;
    assert_eq!(of().await["dialect_state"], "disconnected"); // MIN-28
    crib.post("servers/s/disable", json!({})).await;
    assert_eq!(of().await["dialect_state"], "unknown"); // MIN-28: whatever that design has no word for
    crib.end().await;
}

#[tokio::test]
async fn min_65_and_75_every_operation_is_there_over_the_socket() {
    let crib = Crib::new(&[plain()]).await;
    assert_eq!(crib.get("servers").await["servers"][0]["id"], "one"); // MIN-65: list, status of all
    let down = crib.post("servers/one/disconnect", json!({})).await;
    assert_eq!((&down["ok"], &down["server"]["state"]), (&json!(true), &json!("stopped"))); // MIN-65
    let refused = crib.ask(By::Socket, "POST servers/one/refresh", None).await;
    assert_eq!(refused.failure(), (409, "connection.down".to_owned()));
    assert_eq!(refused.json()["ok"], false);
    let up = crib.post("servers/one/connect", json!({})).await;
    assert_eq!(up["server"]["state"], "ready"); // MIN-65: connect
    let twice = crib.ask(By::Socket, "POST servers/one/connect", None).await;
    assert_eq!(twice.status, 409);
    assert_eq!(crib.post("servers/one/refresh", json!({})).await["ok"], true); // MIN-65
    let dialog = crib.dialog(json!({})).await;
    let called = crib.call(&dialog, "one__echo", json!({"a": 1})).await; // MIN-65: execute by name
    assert_eq!((&called["ok"], &called["text"]), (&json!(true), &json!(r#"{"a":1}"#)));
    let restarted = crib.post("servers/one/restart", json!({})).await;
    assert_ne!(restarted["server"]["pid"], up["server"]["pid"]);
    let disabled = crib.post("servers/one/disable", json!({})).await;
    assert_eq!(disabled["server"]["state"], "disabled");
    assert!(names(&crib.get("tools").await).is_empty());
    assert_eq!(crib.post("servers/one/enable", json!({})).await["ok"], true);
    assert_eq!(names(&crib.get("tools?wait=true").await).len(), 3);
    // MIN-75: all of this went to another task over a socket, as to a service; the same over its address.
    assert_eq!(crib.ask(By::Tcp, "GET servers/one", None).await.json()["state"], "ready");
    crib.end().await;
}

#[tokio::test]
async fn min_66_and_67_calls_are_counted_and_timed() {
    let slow = Script::default().on("tools/call slow", [Step::Sleep(300), Step::Answer]);
    let crib = Crib::new(&[("one", slow, json!({}))]).await;
    let dialog = crib.dialog(json!({})).await;
    let mut average: Option<f64> = None;
    for (tool, ok) in [
        ("one__slow", true),
        ("one__echo", true),
        ("one__fail", false),
        ("one__slow", true),
        ("one__fail", false),
    ] {
        let called = crib.call(&dialog, tool, json!({})).await;
        assert_eq!(called["ok"], ok, "{called}");
        let took = called["duration_ms"].as_f64().unwrap() / 1000.0;
        average = Some(average.map_or(took, |average| 0.1 * took + 0.9 * average));
    }
    let server = crib.get("servers/one").await;
    let figures = ["id", "state", "transport", "tools", "calls", "last_error", "last_error_time"];
    let told: Vec<&Value> = figures.iter().map(|key| &server[key]).collect();
    let calls = json!({"total": 5, "succeeded": 3, "failed": 2});
    let expected = [&json!("one"), &json!("ready"), &json!("stdio"), &json!(4), &calls];
    assert_eq!(told[..5], expected); // MIN-66
    assert_eq!(told[5], "tool `one__fail` reported an error"); // MIN-66, MIN-80
    assert!(told[6].is_string()); // MIN-66, MIN-80
    let average = average.unwrap() - server["avg_response_seconds"].as_f64().unwrap();
    assert!(average.abs() < 0.005, "{average}"); // MIN-67: to the millisecond that the report rounds to
    crib.end().await;
}

#[tokio::test]
async fn a_server_is_added_and_removed_and_its_log_is_the_owners() {
    let crib = Crib::new(&[plain()]).await;
    let script = Script::default().start([Step::Stderr("hello from below".to_owned())]);
    let entry = json!({"id": "new", "command": program().unwrap(), "args": [script.to_json()],
        "limits": {"tools": 10}, "timeouts": {"request": "7s"}});
    let added = crib.ask(By::Socket, "POST servers", Some(entry.clone())).await;
    assert_eq!((added.status, &added.json()["id"]), (201, &json!("new")), "{added:?}");
    let again = crib.ask(By::Socket, "POST servers", Some(entry)).await;
    assert_eq!(again.failure(), (409, "server.connected".to_owned()));
    assert!(names(&crib.get("tools?server=new&wait=true").await).contains(&"new__echo"));
    let log = until(async || {
        let log = crib.get("servers/new/log").await["log"].clone();
        log.is_string().then_some(log)
    })
    .await;
    assert!(log.as_str().unwrap().contains("hello from below"), "{log}");
    let removed = crib.ask(By::Socket, "DELETE servers/new", None).await;
    assert_eq!((removed.status, removed.text.as_str()), (204, ""));
    assert_eq!(crib.ask(By::Socket, "GET servers/new", None).await.status, 404);
    let kept = crib.ask(By::Socket, "DELETE servers/one", None).await;
    assert_eq!(kept.failure(), (409, "server.in_file".to_owned()));
    let bad = crib.ask(By::Socket, "POST servers", Some(json!({"id": "x", "comand": "y"}))).await;
    assert_eq!(bad.failure(), (400, "server.entry.invalid".to_owned()), "{bad:?}");
    // A key has signs in it that a path must not have as they are.
    let by_key = crib.get("servers/toolcrib.yaml%23one").await;
    assert_eq!((&by_key["id"], &by_key["key"]), (&json!("one"), &json!("toolcrib.yaml#one")));
    crib.end().await;
}

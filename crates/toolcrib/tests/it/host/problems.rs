//! What is wrong, for as long as it is wrong.

use serde_json::{Value, json};
use toolcrib::registry::Status;
use toolcrib_config::Severity;
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::within;

use super::stage::{Stage, counted, counting, dialog, has_problem, names, server, until, wrongs};

#[tokio::test]
async fn dom_88_a_host_starts_whatever_is_wrong() {
    let long = format!("version: 1\nservers: {}", "{a: ".repeat(500));
    for text in [
        "",
        "\0\u{feff}",
        "[]",
        "version: 1",
        "version: x",
        "servers: 7",
        "version: 1\nservers: [1]",
        "version: 1\nservers: {a: null, b: {transport: stdio}}",
        "version: 1\nservers: {a: {transport: stdio, command: /nowhere}}",
        "version: 1\nservers: {a: {transport: stdio, command: sh, args: [-c, 'exit 1']}}",
        "version: 1\nservers: {a: {transport: streamable_http, url: 'http://127.0.0.1:1'}}",
        "version: 1\nservers: {a: {transport: stdio, command: x, env: {A: {env: NOT_SET}}}}",
        &long,
    ] {
        let stage = Stage::new();
        stage.write(".minds/mcp.yaml", text);
        stage.write(".minds/team.yaml", text);
        let host = stage.host().await;
        assert_eq!(names(&dialog(&host, "default").await).await, [""; 0], "{text}");
        within(host.close()).await;
    }
}

#[tokio::test]
async fn dom_90_92_what_is_wrong_with_a_server_is_its_own_and_goes_when_it_is_mended() {
    let stage = Stage::new();
    let good = stage.minded(counting(), "good");
    let with = |key: &str, value: Value| {
        let mut entry = stage.minded(Script::default(), "bad");
        entry[key] = value;
        entry
    };
    let cases = [
        ("transport.unsupported", with("transport", json!("sse"))),
        ("env.missing", with("env", json!({"A": {"env": "NOT_SET"}}))),
        ("name.collision", with("transform", json!([{"prefix": "good_"}]))),
    ];
    stage.minds(&json!({"good": good}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let (pid, mut count) = (counted(&one, "good_count").await.0, 1);
    for (code, bad) in cases {
        stage.minds(&json!({"good": good, "bad": bad}));
        within(host.reload()).await.unwrap();
        until(code, || has_problem(&host, code, "bad")).await;
        count += 1;
        assert_eq!(counted(&one, "good_count").await, (pid, count), "{code}");
        assert!(wrongs(&host).iter().all(|(_, server)| server == "bad"), "{:?}", wrongs(&host));
        // DOM-92: it is gone with its cause, without a restart; whether the entry is mended or goes.
        match count % 2 {
            0 => stage.minds(&json!({"good": good})),
            _ => stage.minds(&json!({"good": good, "bad": stage.minded(Script::default(), "bad")})),
        }
        within(host.reload()).await.unwrap();
        assert!(wrongs(&host).is_empty(), "{code}: {:?}", wrongs(&host));
    }
    within(host.close()).await;
}

#[tokio::test]
async fn what_is_wrong_now_stays_what_it_was_and_where_it_was() {
    let stage = Stage::new();
    let both = Script { tools: vec!["open".into()], ..Script::default() };
    let entry = |name: &str| {
        let mut entry = stage.scripted(both.clone(), name);
        entry["transport"] = json!("stdio");
        entry["tools"] = json!({"whitelist": ["open"]});
        entry
    };
    let (a, b) = (entry("a"), entry("b"));
    stage.minds(&json!({"a": a, "b": b}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let owner = || async {
        let turn = within(one.turn()).await;
        turn.tool("open").map(|tool| tool.toolset().to_owned())
    };
    assert_eq!(owner().await.as_deref(), Some("a"));
    // A cannot be read any more; it goes on, and the name is still its own.
    let mut broken = a.clone();
    broken["transport"] = json!("sse");
    stage.minds(&json!({"a": broken, "b": b}));
    within(host.reload()).await.unwrap();
    assert_eq!(owner().await.as_deref(), Some("a"));
    // EXT-09: order is the file's, and a name that became free is taken up.
    stage.minds(&json!({"b": b, "a": a}));
    within(host.reload()).await.unwrap();
    assert_eq!(owner().await.as_deref(), Some("b"));
    let ids: Vec<_> = host.servers().into_iter().map(|it| it.spec.id.clone()).collect();
    assert_eq!(ids, ["b", "a"]);
    assert!(has_problem(&host, "name.collision", "a"));
    stage.minds(&json!({"a": a}));
    within(host.reload()).await.unwrap();
    assert_eq!(owner().await.as_deref(), Some("a"));
    assert!(!has_problem(&host, "name.collision", "a"));
    within(host.close()).await;
}

#[tokio::test]
async fn ext_08_each_declared_server_has_a_word_for_how_it_is() {
    let stage = Stage::new();
    let mut rival = stage.scripted(Script::default(), "rival");
    rival["toolset"] = json!("good");
    stage.native(&json!({
        "version": 1,
        "host": {"reserved_toolsets": ["os"]},
        "servers": {
            "good": stage.scripted(Script::default(), "good"),
            "away": {"command": "sh", "args": ["-c", "exit 1"], "lifecycle": {"retry": {"max": 0}}},
            "rival": rival,
            "os": stage.scripted(Script::default(), "os"),
            "off": {"command": "x", "enabled": false},
        },
    }));
    let host = stage.host().await;
    let ids: Vec<_> = host.servers().into_iter().map(|it| it.spec.id.clone()).collect();
    assert_eq!(ids, ["good", "away", "rival", "off"], "{:?}", host.problems());
    for (id, status) in [
        ("good", Status::Loaded),
        ("away", Status::TemporarilyUnavailable),
        ("rival", Status::ConfigInvalid),
        ("off", Status::Disabled),
    ] {
        assert_eq!(server(&host, id).registered, status, "{id}");
    }
    let severity = |id: &str| {
        let of = host.problems().into_iter().find(|it| it.server.as_deref() == Some(id));
        of.map(|problem| problem.severity)
    };
    assert_eq!(severity("away"), Some(Severity::Info), "{:?}", host.problems());
    assert_eq!(severity("rival"), Some(Severity::Error));
    // What cannot even be taken in is told apart from what is not declared.
    assert_eq!((severity("os"), host.config().rejected.len()), (Some(Severity::Error), 1));
    assert_eq!((severity("good"), severity("off")), (None, None));
    within(host.close()).await;
}

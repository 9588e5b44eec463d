//! Problems persist exactly as long as their cause.

use serde_json::{Value, json};
use toolcrib::internal::RegistrationStatus;
use toolcrib_config::Severity;
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{
    TestWorkspace, call_count, counting_script, has_problem, open_dialog, problem_codes,
    server_status, tool_names, wait_until,
};

#[tokio::test]
async fn dom_88_host_starts_with_any_broken_config() {
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
        let workspace = TestWorkspace::new();
        workspace.write(".minds/mcp.yaml", text);
        workspace.write(".minds/team.yaml", text);
        let host = workspace.start_host().await;
        assert_eq!(tool_names(&open_dialog(&host, "default").await).await, [""; 0], "{text}");
        with_time_limit(host.close()).await;
    }
}

#[tokio::test]
async fn dom_90_92_server_problems_are_isolated_and_end_with_their_cause() {
    let workspace = TestWorkspace::new();
    let good = workspace.minds_entry(counting_script(), "good");
    let with = |key: &str, value: Value| {
        let mut entry = workspace.minds_entry(Script::default(), "bad");
        entry[key] = value;
        entry
    };
    let cases = [
        ("transport.unsupported", with("transport", json!("sse"))),
        ("env.missing", with("env", json!({"A": {"env": "NOT_SET"}}))),
        ("name.collision", with("transform", json!([{"prefix": "good_"}]))),
    ];
    workspace.write_minds(&json!({"good": good}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let (pid, mut count) = (call_count(&one, "good_count").await.0, 1);
    for (code, bad) in cases {
        workspace.write_minds(&json!({"good": good, "bad": bad}));
        with_time_limit(host.reload()).await.unwrap();
        wait_until(code, || has_problem(&host, code, "bad")).await;
        count += 1;
        assert_eq!(call_count(&one, "good_count").await, (pid, count), "{code}");
        assert!(
            problem_codes(&host).iter().all(|(_, server)| server == "bad"),
            "{:?}",
            problem_codes(&host)
        );
        // DOM-92: the problem ends with its cause without a restart, whether the entry is corrected
        // or removed.
        match count % 2 {
            0 => workspace.write_minds(&json!({"good": good})),
            _ => workspace.write_minds(
                &json!({"good": good, "bad": workspace.minds_entry(Script::default(), "bad")}),
            ),
        }
        with_time_limit(host.reload()).await.unwrap();
        assert!(problem_codes(&host).is_empty(), "{code}: {:?}", problem_codes(&host));
    }
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn broken_entry_keeps_its_tool_names_and_file_order_decides_collisions() {
    let workspace = TestWorkspace::new();
    let both = Script { tools: vec!["open".into()], ..Script::default() };
    let entry = |name: &str| {
        let mut entry = workspace.scripted_entry(both.clone(), name);
        entry["transport"] = json!("stdio");
        entry["tools"] = json!({"whitelist": ["open"]});
        entry
    };
    let (a, b) = (entry("a"), entry("b"));
    workspace.write_minds(&json!({"a": a, "b": b}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let owner = || async {
        let turn = with_time_limit(one.turn()).await;
        turn.tool("open").map(|tool| tool.toolset().to_owned())
    };
    assert_eq!(owner().await.as_deref(), Some("a"));
    // The unreadable entry `a` keeps its server and its tool name.
    let mut broken = a.clone();
    broken["transport"] = json!("sse");
    workspace.write_minds(&json!({"a": broken, "b": b}));
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(owner().await.as_deref(), Some("a"));
    // EXT-09: the order of the file decides, and a released name is taken over.
    workspace.write_minds(&json!({"b": b, "a": a}));
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(owner().await.as_deref(), Some("b"));
    let ids: Vec<_> = host.servers().into_iter().map(|it| it.spec.id.clone()).collect();
    assert_eq!(ids, ["b", "a"]);
    assert!(has_problem(&host, "name.collision", "a"));
    workspace.write_minds(&json!({"a": a}));
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(owner().await.as_deref(), Some("a"));
    assert!(!has_problem(&host, "name.collision", "a"));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn ext_08_every_declared_server_has_a_registration_status() {
    let workspace = TestWorkspace::new();
    let mut rival = workspace.scripted_entry(Script::default(), "rival");
    rival["toolset"] = json!("good");
    workspace.write_native(&json!({
        "version": 1,
        "host": {"reserved_toolsets": ["os"]},
        "servers": {
            "good": workspace.scripted_entry(Script::default(), "good"),
            "away": {"command": "sh", "args": ["-c", "exit 1"], "lifecycle": {"retry": {"max": 0}}},
            "rival": rival,
            "os": workspace.scripted_entry(Script::default(), "os"),
            "off": {"command": "x", "enabled": false},
        },
    }));
    let host = workspace.start_host().await;
    let ids: Vec<_> = host.servers().into_iter().map(|it| it.spec.id.clone()).collect();
    assert_eq!(ids, ["good", "away", "rival", "off"], "{:?}", host.problems());
    for (id, status) in [
        ("good", RegistrationStatus::Loaded),
        ("away", RegistrationStatus::TemporarilyUnavailable),
        ("rival", RegistrationStatus::ConfigInvalid),
        ("off", RegistrationStatus::Disabled),
    ] {
        assert_eq!(server_status(&host, id).registered, status, "{id}");
    }
    let severity = |id: &str| {
        let of = host.problems().into_iter().find(|it| it.server.as_deref() == Some(id));
        of.map(|problem| problem.severity)
    };
    assert_eq!(severity("away"), Some(Severity::Info), "{:?}", host.problems());
    assert_eq!(severity("rival"), Some(Severity::Error));
    // A rejected entry differs from a missing one.
    assert_eq!((severity("os"), host.config().rejected.len()), (Some(Severity::Error), 1));
    assert_eq!((severity("good"), severity("off")), (None, None));
    with_time_limit(host.close()).await;
}

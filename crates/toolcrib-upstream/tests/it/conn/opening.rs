//! How a session comes to be: the handshake, its order, and what is passed along.

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{Event, FailureKind, State, Want, Words};

use crate::scene::{Same, Scene, can, names, text, tool, until, within};

#[tokio::test]
async fn dom_16_dis_12_the_handshake_comes_first_then_all_pages_of_the_list() {
    let scene = Scene::new();
    let script = Script {
        page: 2,
        tools: vec!["a".into(), "b".into(), "c".into()],
        legacy_only: true,
        ..Script::default()
    };
    let mut entry = scene.scripted(script, "log");
    entry["protocol"] = json!("legacy");
    entry["discovery"] = json!({"prompts": false, "resources": false});
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let methods = scene.methods("log");
    assert_eq!(methods[..3], ["initialize", "notifications/initialized", "tools/list"]);
    let pages = scene.count("log", "tools/list");
    let catalog = conn.view().catalog.unwrap();
    assert_eq!(pages, catalog.tools.len().div_ceil(2), "{methods:?}");
    assert!(["a", "b", "c"].iter().all(|name| names(&catalog).contains(name)));
    let log = scene.log("log");
    let params = &log[0]["params"];
    assert_eq!(params["protocolVersion"], "2025-11-25"); // DIS-12
    assert_eq!(params["clientInfo"]["name"], "toolcrib");
    assert_eq!(params["capabilities"], json!({})); // DIS-42: what is not offered is not declared
    drop(ticket);
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn dis_42_what_the_caller_can_do_is_declared() {
    let scene = Scene::new();
    let mut entry = scene.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    entry["init"] = json!({"client_capabilities": ["batch"]});
    let mut setup = scene.setup(scene.server(&entry));
    setup.caller = can(json!({"roots": {}}), Same(json!({"roots": []})));
    let conn = scene.start_with(setup);
    within(conn.ready(Want::Call)).await.unwrap();
    let log = scene.log("log");
    let asked = log.iter().find(|message| message["method"] == "initialize").unwrap();
    let expected = json!({"roots": {}, "experimental": {"batch": {}}});
    assert_eq!(asked["params"]["capabilities"], expected);
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn hol_16_free_settings_reach_the_server_by_environment_and_handshake() {
    let scene = Scene::with(Default::default(), &[("TOKEN", "s3cret")]);
    let config = json!({"allowed": ["a"], "deep": {"n": 1.50}, "key": "${TOKEN}"});
    let mut entry = scene.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    entry["init"] = json!({"config": config, "config_delivery": "both"});
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let expected = json!({"allowed": ["a"], "deep": {"n": 1.50}, "key": "s3cret"});
    let log = scene.log("log");
    let asked = log.iter().find(|message| message["method"] == "initialize").unwrap();
    assert_eq!(asked["params"]["capabilities"]["experimental"]["config"], expected);
    let environment = tool(&ticket.session, "env", &json!({})).await.unwrap();
    let environment: serde_json::Value = serde_json::from_str(text(&environment)).unwrap();
    let given: serde_json::Value =
        serde_json::from_str(environment["env"]["MCP_CONFIG"].as_str().unwrap()).unwrap();
    assert_eq!(given, expected);
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn dis_17_dkr_14_ten_at_once_open_one_session() {
    // DKR-14 as well.
    let scene = Scene::new();
    let entry =
        scene.scripted(Script::default().on("tools/list", [Step::Sleep(100), Step::Answer]), "log");
    let conn = scene.start(scene.server(&entry));
    let tickets = futures_util::future::join_all((0..10).map(|_| conn.ready(Want::Call)));
    let tickets = within(tickets).await;
    assert!(tickets.iter().all(Result::is_ok));
    assert_eq!(scene.count("log", "tools/list"), 1);
    assert_eq!(scene.count("log", "server/discover") + scene.count("log", "initialize"), 1);
    // DKR-13: what is known is not asked for again.
    for _ in 0..10 {
        within(conn.ready(Want::List)).await.unwrap();
    }
    assert_eq!(scene.count("log", "tools/list"), 1);
    drop((tickets, conn));
    scene.close().await;
}

#[tokio::test]
async fn min_25_dis_11_nothing_runs_before_it_is_wanted() {
    // DIS-11 as well.
    let scene = Scene::new();
    let mut entry = scene.scripted(Script::default(), "log");
    entry["lifecycle"] = json!({"connect": "on_first_call"});
    let conn = scene.start(scene.server(&entry));
    within(conn.tell(Event::Begin)).await;
    assert_eq!(conn.view().life.state(), State::Idle);
    assert!(scene.log("log").is_empty());
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    assert_eq!(conn.view().life.state(), State::Ready);
    drop(ticket);
    // MIN-26: what was disconnected stays down until it is connected.
    within(conn.tell(Event::Disconnect)).await;
    let refused = within(conn.ready(Want::Call)).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Connection);
    assert!(refused.message.starts_with("Server not connected"), "{}", refused.message);
    within(conn.tell(Event::Disconnect)).await; // MIN-24: twice is no error
    within(conn.tell(Event::Connect)).await;
    within(conn.ready(Want::Call)).await.unwrap();
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn hol_17_and_18_only_what_policy_wants_is_listed() {
    let scene = Scene::new();
    for (tools, prompts) in [(true, false), (false, true), (true, true)] {
        let log = format!("log-{tools}-{prompts}");
        let mut entry = scene.scripted(Script::default(), &log);
        entry["discovery"] = json!({"tools": tools, "prompts": prompts, "resources": false});
        let conn = scene.start(scene.server(&entry));
        within(conn.ready(Want::Call)).await.unwrap();
        assert_eq!(scene.count(&log, "tools/list"), usize::from(tools), "{log}"); // HOL-17
        assert_eq!(scene.count(&log, "prompts/list"), usize::from(prompts), "{log}"); // HOL-18
        assert_eq!(scene.count(&log, "resources/list"), 0);
    }
    scene.close().await;
}

#[tokio::test]
async fn calls_of_one_at_a_time_servers_follow_each_other() {
    let scene = Scene::new();
    let script = Script::default().on("tools/call slow", [Step::Sleep(50), Step::Answer]);
    let mut entry = scene.scripted(script, "log");
    entry["session"] = json!({"max_in_flight": 1});
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    // What it was asked for besides is no call of a tool, but in flight as well.
    until("the subscription", || scene.count("log", "subscriptions/listen") == 1).await;
    until("its refusal", || ticket.session.peer().in_flight() == 0).await;
    let arguments = json!({});
    let calls = (0..3).map(|_| tool(&ticket.session, "slow", &arguments));
    let mut calls = Box::pin(futures_util::future::join_all(calls));
    let mut most = 0;
    let done = loop {
        tokio::select! {
            done = &mut calls => break done,
            // The count is looked at, since nobody tells of it.
            () = tokio::time::sleep(std::time::Duration::from_millis(2)) => {
                most = most.max(ticket.session.peer().in_flight());
            }
        }
    };
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(most, 1);
    drop(calls);
    drop((ticket, conn));
    scene.close().await;
}

#[tokio::test]
async fn dis_01_each_server_has_its_own_session() {
    let scene = Scene::new();
    let text = json!({"version": 1, "servers": {
        "a": scene.scripted(Script::default(), "log-a"),
        "b": scene.scripted(Script::default(), "log-b"),
    }});
    let specs = scene.servers("toolcrib.yaml", &text.to_string());
    let conns: Vec<_> = specs.into_iter().map(|spec| scene.start(spec)).collect();
    for conn in &conns {
        within(conn.ready(Want::Call)).await.unwrap();
    }
    for log in ["log-a", "log-b"] {
        until("the handshake", || scene.count(log, "tools/list") == 1).await;
    }
    let pid = |at: usize| conns[at].view().session.unwrap().peer().facts().pid.unwrap();
    assert_ne!(pid(0), pid(1));
    drop(conns);
    scene.close().await;
}

#[tokio::test]
async fn min_21_connecting_twice_is_an_error() {
    let scene = Scene::new();
    let mut entry = scene.scripted(Script::default(), "log");
    entry["lifecycle"] = json!({"connect": "on_first_call"});
    let conn = scene.start(scene.server(&entry));
    within(conn.connect()).await.unwrap();
    let again = within(conn.connect()).await.unwrap_err();
    assert_eq!(again.message, "already connected");
    // What was connected goes on.
    assert_eq!(conn.view().life.state(), State::Ready);
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn min_04_older_versions_of_the_protocol_are_negotiated() {
    let scene = Scene::new();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let result = json!({"protocolVersion": version, "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}});
        let script = Script { legacy_only: true, ..Script::default() }
            .on("initialize", [Step::Result(result)]);
        let conn = scene.start(scene.server(&scene.scripted(script, version)));
        let ticket = within(conn.ready(Want::Call)).await.unwrap();
        assert_eq!(ticket.session.agreed().version.as_str(), version);
        let log = scene.log(version);
        let asked = log.iter().find(|message| message["method"] == "initialize").unwrap();
        assert_eq!(asked["params"]["protocolVersion"], "2025-11-25");
        tool(&ticket.session, "echo", &json!({})).await.unwrap();
    }
    scene.close().await;
}

#[tokio::test]
async fn dis_18_the_status_has_words_a_count_of_tools_and_the_error() {
    let scene = Scene::new();
    let script = Script::default()
        .on("tools/list", [Step::Sleep(300), Step::Answer])
        .on("tools/call die", [Step::Exit(1)]);
    let mut entry = scene.scripted(script, "log");
    entry["lifecycle"] = json!({"connect": "on_first_call", "reconnect": {"auto": false}});
    let conn = scene.start(scene.server(&entry));
    let word = || conn.view().life.word(Words::Dispatch);
    assert_eq!(word(), "disconnected");
    let ticket = async {
        let ticket = within(conn.ready(Want::Call)).await.unwrap();
        assert_eq!(word(), "connected");
        ticket
    };
    let meanwhile = until("it is connecting", || word() == "connecting");
    let (ticket, ()) = tokio::join!(ticket, meanwhile);
    assert_eq!(conn.view().catalog.unwrap().tools.len(), 4);
    tool(&ticket.session, "die", &json!({})).await.unwrap_err();
    drop(ticket);
    until("the error", || word() == "error").await;
    let error = conn.view().life.last_error().unwrap().1.message.clone();
    assert!(error.contains("ended"), "{error}");
    drop(conn);
    scene.close().await;
}

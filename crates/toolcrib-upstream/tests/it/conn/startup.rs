//! Startup of sessions: handshake, order, capabilities and configuration.

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{ConnEvent, Demand, FailureKind, ServerState, StateVocabulary};

use crate::test_host::{
    FixedResponse, TestHost, call_tool, result_text, session_client, tool_names, wait_until,
    with_time_limit,
};

#[tokio::test]
async fn dom_16_dis_12_the_handshake_comes_first_then_all_pages_of_the_list() {
    let host = TestHost::new();
    let script = Script {
        page: 2,
        tools: vec!["a".into(), "b".into(), "c".into()],
        legacy_only: true,
        ..Script::default()
    };
    let mut entry = host.scripted(script, "log");
    entry["protocol"] = json!("legacy");
    entry["discovery"] = json!({"prompts": false, "resources": false});
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let methods = host.methods("log");
    assert_eq!(methods[..3], ["initialize", "notifications/initialized", "tools/list"]);
    let pages = host.count("log", "tools/list");
    let catalog = conn.view().catalog.unwrap();
    assert_eq!(pages, catalog.tools.len().div_ceil(2), "{methods:?}");
    assert!(["a", "b", "c"].iter().all(|name| tool_names(&catalog).contains(name)));
    let log = host.log("log");
    let params = &log[0]["params"];
    assert_eq!(params["protocolVersion"], "2025-11-25"); // DIS-12
    assert_eq!(params["clientInfo"]["name"], "toolcrib");
    assert_eq!(params["capabilities"], json!({})); // DIS-42: unsupported capabilities are not declared
    drop(permit);
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn dis_42_client_capabilities_are_declared() {
    let host = TestHost::new();
    let mut entry = host.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    entry["init"] = json!({"client_capabilities": ["batch"]});
    let mut setup = host.setup(host.server(&entry));
    setup.client = session_client(json!({"roots": {}}), FixedResponse(json!({"roots": []})));
    let conn = host.start_with(setup);
    with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let log = host.log("log");
    let request = log.iter().find(|message| message["method"] == "initialize").unwrap();
    let expected = json!({"roots": {}, "experimental": {"batch": {}}});
    assert_eq!(request["params"]["capabilities"], expected);
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn hol_16_init_config_is_delivered_by_environment_and_handshake() {
    let host = TestHost::with(Default::default(), &[("TOKEN", "s3cret")]);
    let config = json!({"allowed": ["a"], "deep": {"n": 1.50}, "key": "${TOKEN}"});
    let mut entry = host.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    entry["init"] = json!({"config": config, "config_delivery": "both"});
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let expected = json!({"allowed": ["a"], "deep": {"n": 1.50}, "key": "s3cret"});
    let log = host.log("log");
    let request = log.iter().find(|message| message["method"] == "initialize").unwrap();
    assert_eq!(request["params"]["capabilities"]["experimental"]["config"], expected);
    let environment = call_tool(&permit.session, "env", &json!({})).await.unwrap();
    let environment: serde_json::Value = serde_json::from_str(result_text(&environment)).unwrap();
    let given: serde_json::Value =
        serde_json::from_str(environment["env"]["MCP_CONFIG"].as_str().unwrap()).unwrap();
    assert_eq!(given, expected);
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn dis_17_dkr_14_ten_concurrent_demands_open_one_session() {
    let host = TestHost::new();
    let entry =
        host.scripted(Script::default().on("tools/list", [Step::Sleep(100), Step::Respond]), "log");
    let conn = host.start(host.server(&entry));
    let permits =
        futures_util::future::join_all((0..10).map(|_| conn.acquire_session(Demand::Call)));
    let permits = with_time_limit(permits).await;
    assert!(permits.iter().all(Result::is_ok));
    assert_eq!(host.count("log", "tools/list"), 1);
    assert_eq!(host.count("log", "server/discover") + host.count("log", "initialize"), 1);
    // DKR-13: known lists are not read again.
    for _ in 0..10 {
        with_time_limit(conn.acquire_session(Demand::List)).await.unwrap();
    }
    assert_eq!(host.count("log", "tools/list"), 1);
    drop((permits, conn));
    host.close().await;
}

#[tokio::test]
async fn min_25_dis_11_lazy_server_starts_on_the_first_demand() {
    let host = TestHost::new();
    let mut entry = host.scripted(Script::default(), "log");
    entry["lifecycle"] = json!({"connect": "on_first_call"});
    let conn = host.start(host.server(&entry));
    with_time_limit(conn.send_event(ConnEvent::Start)).await;
    assert_eq!(conn.view().lifecycle.state(), ServerState::Idle);
    assert!(host.log("log").is_empty());
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(conn.view().lifecycle.state(), ServerState::Ready);
    drop(permit);
    // MIN-26: a disconnected server stays down until it is connected.
    with_time_limit(conn.send_event(ConnEvent::Disconnect)).await;
    let refused = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Connection);
    assert!(refused.message.starts_with("Server not connected"), "{}", refused.message);
    with_time_limit(conn.send_event(ConnEvent::Disconnect)).await; // MIN-24: a second disconnect is no error
    with_time_limit(conn.send_event(ConnEvent::Connect)).await;
    with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn hol_17_and_18_only_enabled_lists_are_requested() {
    let host = TestHost::new();
    for (tools, prompts) in [(true, false), (false, true), (true, true)] {
        let log = format!("log-{tools}-{prompts}");
        let mut entry = host.scripted(Script::default(), &log);
        entry["discovery"] = json!({"tools": tools, "prompts": prompts, "resources": false});
        let conn = host.start(host.server(&entry));
        with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
        assert_eq!(host.count(&log, "tools/list"), usize::from(tools), "{log}"); // HOL-17
        assert_eq!(host.count(&log, "prompts/list"), usize::from(prompts), "{log}"); // HOL-18
        assert_eq!(host.count(&log, "resources/list"), 0);
    }
    host.close().await;
}

#[tokio::test]
async fn max_in_flight_of_one_serializes_calls() {
    let host = TestHost::new();
    let script = Script::default().on("tools/call slow", [Step::Sleep(50), Step::Respond]);
    let mut entry = host.scripted(script, "log");
    entry["session"] = json!({"max_in_flight": 1});
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    // The subscription is in flight too, but not a tool call.
    wait_until("the subscription", || host.count("log", "subscriptions/listen") == 1).await;
    wait_until("the subscription is refused", || permit.session.peer().in_flight() == 0).await;
    let arguments = json!({});
    let calls = (0..3).map(|_| call_tool(&permit.session, "slow", &arguments));
    let mut calls = Box::pin(futures_util::future::join_all(calls));
    let mut most = 0;
    let done = loop {
        tokio::select! {
            done = &mut calls => break done,
            // The count has no notification, so poll it.
            () = tokio::time::sleep(std::time::Duration::from_millis(2)) => {
                most = most.max(permit.session.peer().in_flight());
            }
        }
    };
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(most, 1);
    drop(calls);
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn dis_01_each_server_has_its_own_session() {
    let host = TestHost::new();
    let text = json!({"version": 1, "servers": {
        "a": host.scripted(Script::default(), "log-a"),
        "b": host.scripted(Script::default(), "log-b"),
    }});
    let specs = host.servers("toolcrib.yaml", &text.to_string());
    let conns: Vec<_> = specs.into_iter().map(|spec| host.start(spec)).collect();
    for conn in &conns {
        with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    }
    for log in ["log-a", "log-b"] {
        wait_until("the handshake", || host.count(log, "tools/list") == 1).await;
    }
    let pid = |at: usize| conns[at].view().session.unwrap().peer().link_info().pid.unwrap();
    assert_ne!(pid(0), pid(1));
    drop(conns);
    host.close().await;
}

#[tokio::test]
async fn min_21_connecting_twice_is_an_error() {
    let host = TestHost::new();
    let mut entry = host.scripted(Script::default(), "log");
    entry["lifecycle"] = json!({"connect": "on_first_call"});
    let conn = host.start(host.server(&entry));
    with_time_limit(conn.connect()).await.unwrap();
    let again = with_time_limit(conn.connect()).await.unwrap_err();
    assert_eq!(again.message, "already connected");
    // The connection is unaffected.
    assert_eq!(conn.view().lifecycle.state(), ServerState::Ready);
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn min_04_older_versions_of_the_protocol_are_negotiated() {
    let host = TestHost::new();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let result = json!({"protocolVersion": version, "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}});
        let script = Script { legacy_only: true, ..Script::default() }
            .on("initialize", [Step::Result(result)]);
        let conn = host.start(host.server(&host.scripted(script, version)));
        let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
        assert_eq!(permit.session.agreed().version.as_str(), version);
        let log = host.log(version);
        let request = log.iter().find(|message| message["method"] == "initialize").unwrap();
        assert_eq!(request["params"]["protocolVersion"], "2025-11-25");
        call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    }
    host.close().await;
}

#[tokio::test]
async fn dis_18_status_has_labels_a_tool_count_and_the_error() {
    let host = TestHost::new();
    let script = Script::default()
        .on("tools/list", [Step::Sleep(300), Step::Respond])
        .on("tools/call die", [Step::Exit(1)]);
    let mut entry = host.scripted(script, "log");
    entry["lifecycle"] = json!({"connect": "on_first_call", "reconnect": {"auto": false}});
    let conn = host.start(host.server(&entry));
    let word = || conn.view().lifecycle.state_label(StateVocabulary::Dispatch);
    assert_eq!(word(), "disconnected");
    let permit = async {
        let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
        assert_eq!(word(), "connected");
        permit
    };
    let meanwhile = wait_until("it is connecting", || word() == "connecting");
    let (permit, ()) = tokio::join!(permit, meanwhile);
    assert_eq!(conn.view().catalog.unwrap().tools.len(), 4);
    call_tool(&permit.session, "die", &json!({})).await.unwrap_err();
    drop(permit);
    wait_until("the error", || word() == "error").await;
    let error = conn.view().lifecycle.last_error().unwrap().1.message.clone();
    assert!(error.contains("ended"), "{error}");
    drop(conn);
    host.close().await;
}

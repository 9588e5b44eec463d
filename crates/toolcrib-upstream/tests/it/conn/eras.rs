//! Era detection and era-specific requests.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_config::model::transport::FramingMode;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{ConnAvailability, Demand, FailureKind, ServerTraits};
use toolcrib_wire::{Era, Version};

use crate::test_host::{
    FixedResponse, TestHost, call_tool, result_text, session_client, with_time_limit,
};

async fn spoken(host: &TestHost, script: Script, protocol: &str) -> Result<Version, FailureKind> {
    let mut entry = host.scripted(script, "log");
    entry["protocol"] = json!(protocol);
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call))
        .await
        .map_err(|failure| failure.kind)?;
    call_tool(&permit.session, "echo", &json!({"a": 1})).await.unwrap();
    Ok(permit.session.agreed().version.clone())
}

#[tokio::test]
async fn newest_common_era_is_chosen() {
    let both = Script::default;
    let legacy = || Script { legacy_only: true, ..Script::default() };
    let modern = || Script { modern_only: true, ..Script::default() };
    for (script, protocol, expected) in [
        (both(), "auto", Ok(Version::V2026_07_28)),
        (both(), "legacy", Ok(Version::V2025_11_25)),
        (both(), "2024-11-05", Ok(Version::V2024_11_05)),
        (legacy(), "auto", Ok(Version::V2025_11_25)),
        (legacy(), "modern", Err(FailureKind::Protocol)),
        (modern(), "auto", Ok(Version::V2026_07_28)),
        (modern(), "legacy", Err(FailureKind::Protocol)),
    ] {
        let host = TestHost::new();
        assert_eq!(spoken(&host, script, protocol).await, expected, "{protocol}");
        host.close().await;
    }
}

#[tokio::test]
async fn slow_discover_response_triggers_initialize() {
    let host = TestHost::new();
    let script = Script { legacy_only: true, ..Script::default() }.on("server/discover", []);
    assert_eq!(spoken(&host, script, "auto").await, Ok(Version::V2025_11_25));
    assert_eq!(host.methods("log")[..2], ["server/discover", "initialize"]);
    host.close().await;
}

#[tokio::test]
async fn server_that_exits_on_discover_is_respawned_once() {
    let host = TestHost::new();
    let script = Script::default().on("server/discover", [Step::Exit(3)]);
    assert_eq!(spoken(&host, script, "auto").await, Ok(Version::V2025_11_25));
    assert_eq!(host.methods("log")[..2], ["server/discover", "initialize"]);
    host.close().await;
}

#[tokio::test]
async fn known_era_is_reused_and_probed_again_when_wrong() {
    let host = TestHost::new();
    let entry = host.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    let spec = host.server(&entry);
    let hash = spec.hash;
    let conn = host.start(spec.clone());
    with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(host.context.traits.get(hash).era, Some(Era::Legacy));
    drop(conn);
    let before = host.count("log", "server/discover");
    let conn = host.start(spec.clone());
    with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(host.count("log", "server/discover"), before); // no second probe
    drop(conn);
    // The known era is wrong for the changed server.
    host.context.traits.insert(hash, ServerTraits { era: Some(Era::Modern), framing: None });
    let conn = host.start(spec);
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(permit.session.agreed().era, Era::Legacy);
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn dis_47_dkr_08_content_length_server_is_detected() {
    let host = TestHost::new();
    let script = Script { content_length: true, legacy_only: true, ..Script::default() };
    let mut entry = host.scripted(script, "log");
    // The server ignores lines, which only the timeout shows.
    entry["timeouts"] = json!({"startup": "1500ms"});
    let spec = host.server(&entry);
    let conn = host.start(spec.clone());
    // DIS-53: waiting callers fail at the timeout; the server comes up in the background.
    let failure = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout, "{failure:?}");
    let mut view = conn.watch();
    with_time_limit(view.wait_for(|view| view.lifecycle.availability() == ConnAvailability::Up))
        .await
        .unwrap();
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let sent = call_tool(&permit.session, "echo", &json!({"word": "größer 🙂"})).await.unwrap();
    assert!(result_text(&sent).contains("größer 🙂"));
    assert_eq!(host.context.traits.get(spec.hash).framing, Some(FramingMode::ContentLength));
    drop((permit, conn));
    host.close().await;
}

/// DIS-52: stored traits outlive hosts, so wrong ones must not stay.
#[tokio::test]
async fn stored_traits_are_removed_after_a_silent_start() {
    let host = TestHost::new();
    let silent = Script::default()
        .on("server/discover", [Step::Sleep(600_000)])
        .on("initialize", [Step::Sleep(600_000)]);
    let mut entry = host.scripted(silent, "log");
    entry["timeouts"] = json!({"startup": "500ms"});
    let spec = host.server(&entry);
    for era in [None, Some(Era::Legacy)] {
        let learned = ServerTraits { era, framing: Some(FramingMode::ContentLength) };
        host.context.traits.insert(spec.hash, learned);
        let conn = host.start(spec.clone());
        with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
        assert_eq!(host.context.traits.get(spec.hash), ServerTraits::default());
        drop(conn);
    }
    host.close().await;
}

#[tokio::test]
async fn modern_requests_carry_client_info_and_capabilities() {
    let host = TestHost::new();
    let mut setup = host.setup(host.server(&host.scripted(Script::default(), "log")));
    setup.client = session_client(
        json!({"elicitation": {"form": {}}}),
        FixedResponse(json!({"action": "decline"})),
    );
    let conn = host.start_with(setup);
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    let log = host.log("log");
    for method in ["server/discover", "tools/list", "tools/call"] {
        let message = log.iter().find(|message| message["method"] == method).unwrap();
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{method}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "toolcrib");
        let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*capabilities, json!({"elicitation": {"form": {}}}));
    }
    drop((permit, conn));
    host.close().await;
}

fn asks(key: &str, state: &str) -> Step {
    let request = json!({"method": "elicitation/create", "params": {"message": "who?"}});
    Step::Result(
        json!({"resultType": "input_required", "inputRequests": {key: request}, "requestState": state}),
    )
}

#[tokio::test]
async fn modern_server_gets_input_over_several_rounds() {
    let host = TestHost::new();
    let turns = vec![vec![asks("first", "s1")], vec![asks("second", "s2")], vec![Step::Respond]];
    let script = Script { modern_only: true, ..Script::default() }
        .on("tools/call who", [Step::Sequence { count: host.path().join("turns"), turns }]);
    let mut setup = host.setup(host.server(&host.scripted(script, "log")));
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    setup.client = session_client(json!({"elicitation": {}}), FixedResponse(answer.clone()));
    let conn = host.start_with(setup);
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    call_tool(&permit.session, "who", &json!({"a": 1})).await.unwrap();
    let calls: Vec<Value> =
        host.log("log").into_iter().filter(|message| message["method"] == "tools/call").collect();
    assert_eq!(calls.len(), 3);
    assert!(calls[0]["params"].get("inputResponses").is_none());
    assert_eq!(calls[1]["params"]["inputResponses"], json!({"first": answer}));
    assert_eq!(calls[1]["params"]["requestState"], "s1");
    assert_eq!(calls[2]["params"]["inputResponses"], json!({"second": answer}));
    assert_eq!(calls[2]["params"]["requestState"], "s2");
    assert!(calls.iter().all(|call| call["params"]["arguments"] == json!({"a": 1})));
    let ids: std::collections::HashSet<_> =
        calls.iter().map(|call| call["id"].to_string()).collect();
    assert_eq!(ids.len(), 3); // each is a separate request
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn endless_or_unanswered_input_requests_fail_the_call() {
    let host = TestHost::new();
    let script = Script { modern_only: true, ..Script::default() }
        .on("tools/call endless", [asks("again", "s")])
        .on("tools/call odd", [Step::Result(json!({"resultType": "input_required"}))]);
    let mut setup = host.setup(host.server(&host.scripted(script, "log")));
    setup.client =
        session_client(json!({"elicitation": {}}), FixedResponse(json!({"action": "decline"})));
    let conn = host.start_with(setup);
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let endless = call_tool(&permit.session, "endless", &json!({})).await.unwrap_err();
    assert!(endless.to_string().contains("16 rounds"), "{endless}");
    let odd = call_tool(&permit.session, "odd", &json!({})).await.unwrap_err();
    assert_eq!(odd.to_string(), "malformed response");
    let refusing_client = session_client(json!({}), toolcrib_upstream::conn::peer::RefuseRequests);
    let params = toolcrib_wire::RawJson::from_value(&json!({"name": "endless"})).unwrap();
    let call = permit.session.call(
        "tools/call",
        params,
        crate::test_host::options(),
        Some(&refusing_client),
    );
    let unanswered = with_time_limit(call).await.unwrap_err();
    assert_eq!(unanswered.to_string(), "cannot answer the server's `elicitation/create` request");
    call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    drop((permit, conn));
    host.close().await;
}

#[tokio::test]
async fn dkr_23_min_20_startup_timeout_fails_the_server() {
    let host = TestHost::new();
    let script = Script::default().on("initialize", []).on("server/discover", []);
    let mut entry = host.scripted(script, "log");
    entry["timeouts"] = json!({"startup": "300ms"});
    entry["transport"] = json!({"framing": "newline"});
    entry["lifecycle"] = json!({"retry": {"max": 0}});
    let conn = host.start(host.server(&entry));
    let failure = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(failure.message.contains("not ready within 0.3 s"), "{}", failure.message);
    drop(conn);
    tokio::time::sleep(Duration::from_millis(1)).await; // lets the task end before its context does
    host.close().await;
}

//! Tests calls: concurrency, deadlines, cancellation and invalid responses.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::peer::{
    Anomaly, BadResponse, CallNotification, CallOptions, CallTimeouts, PeerCallError, ProgressMode,
    RefuseRequests, TimeoutKind, mailbox,
};
use toolcrib_wire::Version;

use super::{
    IMMEDIATE, ManualServer, ScriptedPeer, TIME_LIMIT, call_tool, check_echo, oddity_count, raw,
    request_timeout, result_text, with_time_limit,
};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn dom_65_fifty_calls_answered_in_reverse_get_their_own_responses() {
    let script = Script::default().on("tools/call echo", [Step::Barrier(50), Step::Respond]);
    let scripted = ScriptedPeer::new(script).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..50 {
        let peer = scripted.peer.clone();
        calls.spawn(async move {
            let arguments = json!({"number": number});
            let body = call_tool(&peer, "echo", &arguments).await.unwrap();
            assert_eq!(result_text(&body), arguments.to_string());
        });
    }
    with_time_limit(calls.join_all()).await;
    assert_eq!((scripted.peer.in_flight(), scripted.peer.anomalies()), (0, Vec::new()));
    scripted.close().await;
}

#[tokio::test]
async fn min_40_slow_calls_run_concurrently() {
    let scripted = ScriptedPeer::new(
        Script::default().on("tools/call slow", [Step::Sleep(500), Step::Respond]),
    )
    .await;
    let start = Instant::now();
    let calls = (0..20).map(|_| {
        let peer = scripted.peer.clone();
        async move { call_tool(&peer, "slow", &json!({})).await.unwrap() }
    });
    let calls: tokio::task::JoinSet<_> = calls.collect();
    assert_eq!(with_time_limit(calls.join_all()).await.len(), 20);
    // Sequential calls would take 10 s.
    assert!(start.elapsed() < IMMEDIATE, "{:?}", start.elapsed());
    scripted.close().await;
}

#[tokio::test]
async fn dis_25_dropped_call_is_cancelled_at_server() {
    let scripted = ScriptedPeer::new(Script::default().on("tools/call silent", [])).await;
    let peer = scripted.peer.clone();
    let call = async move { call_tool(&peer, "silent", &json!({})).await };
    let mut running = tokio::task::JoinSet::new();
    running.spawn(call);
    let request = scripted.wait_for_message("tools/call").await;
    let start = Instant::now();
    with_time_limit(running.shutdown()).await;
    assert!(start.elapsed() < IMMEDIATE);
    let cancelled = scripted.wait_for_message("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    assert_eq!(scripted.peer.in_flight(), 0);
    check_echo(&scripted.peer, "still there").await;
    scripted.close().await;
}

#[tokio::test(start_paused = true)]
async fn hol_19_dkr_22_unanswered_call_times_out() {
    let (peer, _events, mut server) = ManualServer::start(RefuseRequests);
    let start = Instant::now();
    let error =
        peer.call("tools/list", raw(&json!({})), request_timeout(MINUTE)).await.unwrap_err();
    assert_eq!(start.elapsed(), MINUTE);
    assert!(
        matches!(error, PeerCallError::Timeout { limit: TimeoutKind::Request, .. }),
        "{error:?}"
    );
    assert_eq!(error.to_string(), "no answer within 60 s");
    server.read().await;
    let cancelled = server.read().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn initialize_is_never_cancelled() {
    let (peer, _events, mut server) = ManualServer::start(RefuseRequests);
    peer.call("initialize", raw(&json!({})), request_timeout(MINUTE)).await.unwrap_err();
    peer.notify("notifications/next", None).await.unwrap();
    assert_eq!(server.read().await["method"], "initialize");
    assert_eq!(server.read().await["method"], "notifications/next");
}

#[tokio::test(start_paused = true)]
async fn dkr_39_progress_precedes_result_and_extends_deadline() {
    let (peer, _events, mut server) = ManualServer::start(RefuseRequests);
    let (sender, mut progress) = mailbox::<CallNotification>(8);
    let options = CallOptions {
        progress: ProgressMode::Deliver(Arc::new(sender)),
        ..request_timeout(MINUTE)
    };
    let params = raw(&json!({"name": "slow", "_meta": {"kept": true}}));
    let call = peer.call("tools/call", params, options);
    let server = async {
        let request = server.read().await;
        let meta = &request["params"]["_meta"];
        assert_eq!(meta, &json!({"progressToken": 1, "kept": true}));
        for step in 1..=3 {
            tokio::time::sleep(Duration::from_secs(50)).await;
            let params = json!({"progressToken": meta["progressToken"], "progress": step});
            server
                .write(
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                )
                .await;
        }
        server.respond(&request["id"]).await;
    };
    let start = Instant::now();
    let (outcome, ()) = tokio::join!(call, server);
    outcome.unwrap();
    assert_eq!(start.elapsed().as_secs(), 150);
    let steps: Vec<Value> = std::iter::from_fn(|| progress.try_next())
        .map(|params| {
            serde_json::from_str::<Value>(params.params().text()).unwrap()["progress"].clone()
        })
        .collect();
    assert_eq!(steps, [1, 2, 3]);
    assert!(progress.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn dkr_39_progress_does_not_extend_call_beyond_maximum() {
    let (peer, _events, mut server) = ManualServer::start(RefuseRequests);
    let options = CallOptions {
        timeouts: CallTimeouts { request: Some(MINUTE), max: Some(MINUTE * 3) },
        progress: ProgressMode::Extend,
        ..CallOptions::default()
    };
    let call = peer.call("tools/call", raw(&json!({})), options);
    let server = async {
        let token = server.read().await["params"]["_meta"]["progressToken"].clone();
        loop {
            tokio::time::sleep(Duration::from_secs(50)).await;
            let params = json!({"progressToken": token, "progress": 1});
            server
                .write(
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                )
                .await;
        }
    };
    let start = Instant::now();
    let outcome = tokio::select! {
        outcome = call => outcome,
        () = server => unreachable!(),
    };
    assert!(
        matches!(outcome, Err(PeerCallError::Timeout { limit: TimeoutKind::Max, .. })),
        "{outcome:?}"
    );
    assert_eq!(start.elapsed(), MINUTE * 3);
}

#[tokio::test]
async fn invalid_response_fails_only_its_call_at_once() {
    type Expected<'a> = &'a dyn Fn(&PeerCallError) -> bool;
    let not_an_object = |error: &PeerCallError| {
        matches!(error, PeerCallError::Malformed(BadResponse::NotAnObject(_)))
    };
    let fault =
        |error: &PeerCallError| matches!(error, PeerCallError::Malformed(BadResponse::Fault(_)));
    let other_id = |error: &PeerCallError| {
        matches!(error, PeerCallError::Malformed(BadResponse::IdOfAnotherType))
    };
    let table: [(&str, Expected<'_>); 7] = [
        (r#"{"jsonrpc":"2.0","id":$id,"result":7}"#, &not_an_object),
        (r#"{"jsonrpc":"2.0","id":$id,"result":null}"#, &not_an_object),
        (r#"{"jsonrpc":"2.0","id":$id,"result":{},"error":{"code":1,"message":"x"}}"#, &fault),
        (r#"{"jsonrpc":"2.0","id":$id,"error":"oops"}"#, &fault),
        (r#"{"jsonrpc":"2.0","id":$id}"#, &fault),
        (r#"{"jsonrpc":"2.0","id":$id,"result":{"unfinished":"#, &fault),
        (r#"{"jsonrpc":"2.0","id":"$id","result":{}}"#, &other_id),
    ];
    for (answer, expected) in table {
        let (peer, _events, mut server) = ManualServer::start(RefuseRequests);
        let bad = peer.call("bad", raw(&json!({})), request_timeout(TIME_LIMIT));
        let good = peer.call("good", raw(&json!({})), request_timeout(TIME_LIMIT));
        let server = async {
            let (first, second) = (server.read().await, server.read().await);
            assert_eq!(first["method"], "bad");
            server.write_text(&format!("{}\n", answer.replace("$id", "1"))).await;
            server.respond(&second["id"]).await;
        };
        let (bad, good, ()) = tokio::join!(with_time_limit(bad), with_time_limit(good), server);
        let error = bad.unwrap_err();
        assert!(expected(&error), "{answer}: {error:?}");
        good.unwrap();
    }
}

#[tokio::test]
async fn server_error_is_returned_unchanged() {
    let error = Step::Error { code: -32099, message: "no".to_owned() };
    let scripted = ScriptedPeer::new(Script::default().on("tools/call no", [error])).await;
    let outcome = call_tool(&scripted.peer, "no", &json!({})).await;
    let Err(PeerCallError::Refused(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((error.code, error.message.as_str()), (-32099, "no"));
    scripted.close().await;
}

#[tokio::test]
async fn stray_responses_are_counted_by_kind() {
    let twice = Step::Message(r#"{"jsonrpc":"2.0","id":$id,"result":{}}"#.to_owned());
    let stranger = Step::Message(r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#.to_owned());
    let nobody = Step::Message(
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#.to_owned(),
    );
    let script = Script::default()
        .on("tools/call twice", [Step::Respond, twice])
        .on("tools/call stranger", [stranger, nobody, Step::Respond])
        .on(
            "tools/call late",
            [
                Step::Sleep(300),
                Step::Respond,
                Step::Message(r#"{"jsonrpc":"2.0","method":"notifications/late"}"#.to_owned()),
            ],
        );
    let mut scripted = ScriptedPeer::new(script).await;
    call_tool(&scripted.peer, "twice", &json!({})).await.unwrap();
    call_tool(&scripted.peer, "stranger", &json!({})).await.unwrap();
    let late = json!({"name": "late"});
    let error = scripted
        .peer
        .call("tools/call", raw(&late), request_timeout(Duration::from_millis(50)))
        .await
        .unwrap_err();
    assert!(matches!(error, PeerCallError::Timeout { .. }), "{error:?}");
    with_time_limit(async {
        while !matches!(
            scripted.events.next().await,
            Some(toolcrib_upstream::conn::peer::PeerEvent::Notification { .. })
        ) {}
    })
    .await;
    check_echo(&scripted.peer, "unharmed").await;
    for odd in [Anomaly::Duplicate, Anomaly::UnknownId, Anomaly::NoId, Anomaly::Late] {
        assert_eq!(oddity_count(&scripted.peer, odd), 1, "{odd:?}");
    }
    scripted.close().await;
}

#[tokio::test]
async fn cancellations_are_queued_for_server_that_does_not_read() {
    let (peer, _events, mut server) = ManualServer::with_pipe_capacity(64, RefuseRequests);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let peer = peer.clone();
        calls.spawn(
            async move { peer.call("x", raw(&json!({})), request_timeout(TIME_LIMIT)).await },
        );
    }
    while peer.in_flight() < 64 {
        tokio::task::yield_now().await;
    }
    let in_flight = peer.in_flight();
    assert!(in_flight < 200, "most calls wait before they are registered: {in_flight}");
    with_time_limit(calls.shutdown()).await;
    assert_eq!(peer.in_flight(), 0);
    let mut requests = Vec::new();
    let mut cancelled = Vec::new();
    while requests.is_empty() || cancelled.len() < requests.len() {
        let message = server.read().await;
        match message["method"].as_str() {
            Some("x") => requests.push(message["id"].clone()),
            _ => cancelled.push(message["params"]["requestId"].clone()),
        }
    }
    requests.sort_by_key(Value::to_string);
    cancelled.sort_by_key(Value::to_string);
    assert_eq!(requests, cancelled);
}

#[tokio::test]
async fn modern_server_may_end_request() {
    let (peer, _events, mut server) = ManualServer::start(RefuseRequests);
    peer.set_version(Version::V2026_07_28);
    let call = peer.call("subscriptions/listen", raw(&json!({})), CallOptions::default());
    let server = async {
        let id = server.read().await["id"].clone();
        let params = json!({"requestId": id});
        server
            .write(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
            .await;
    };
    let (outcome, ()) = tokio::join!(with_time_limit(call), server);
    assert!(matches!(outcome, Err(PeerCallError::EndedByServer)), "{outcome:?}");
}

//! Calls: many at once, bounded in time, cancelled when nobody waits, and failed by their own bad answer alone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::peer::{
    BadAnswer, CallError, CallOptions, Limit, NoRequests, Odd, Patience, ProgressWish, Remark,
    mailbox,
};
use toolcrib_wire::Version;

use super::{AT_ONCE, Hand, LIMIT, Served, echo, patience, raw, seen, text, tool, within};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn dom_65_fifty_calls_answered_in_reverse_each_get_their_own() {
    let script = Script::default().on("tools/call echo", [Step::Hold(50), Step::Answer]);
    let served = Served::new(script).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..50 {
        let peer = served.peer.clone();
        calls.spawn(async move {
            let arguments = json!({"number": number});
            let body = tool(&peer, "echo", &arguments).await.unwrap();
            assert_eq!(text(&body), arguments.to_string());
        });
    }
    within(calls.join_all()).await;
    assert_eq!((served.peer.in_flight(), served.peer.oddities()), (0, Vec::new()));
    served.end().await;
}

#[tokio::test]
async fn min_40_slow_calls_run_side_by_side() {
    let served =
        Served::new(Script::default().on("tools/call slow", [Step::Sleep(500), Step::Answer]))
            .await;
    let start = Instant::now();
    let calls = (0..20).map(|_| {
        let peer = served.peer.clone();
        async move { tool(&peer, "slow", &json!({})).await.unwrap() }
    });
    let calls: tokio::task::JoinSet<_> = calls.collect();
    assert_eq!(within(calls.join_all()).await.len(), 20);
    // One after the other they would take 10 s.
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    served.end().await;
}

#[tokio::test]
async fn dis_25_a_dropped_call_is_cancelled_at_the_server() {
    let served = Served::new(Script::default().on("tools/call silent", [])).await;
    let peer = served.peer.clone();
    let call = async move { tool(&peer, "silent", &json!({})).await };
    let mut running = tokio::task::JoinSet::new();
    running.spawn(call);
    let request = served.received("tools/call").await;
    let start = Instant::now();
    within(running.shutdown()).await;
    assert!(start.elapsed() < AT_ONCE);
    let cancelled = served.received("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    assert_eq!(served.peer.in_flight(), 0);
    echo(&served.peer, "still there").await;
    served.end().await;
}

#[tokio::test(start_paused = true)]
async fn hol_19_dkr_22_a_call_without_an_answer_times_out() {
    // DKR-22 as well.
    let (peer, _events, mut hand) = Hand::start(NoRequests);
    let start = Instant::now();
    let error = peer.call("tools/list", raw(&json!({})), patience(MINUTE)).await.unwrap_err();
    assert_eq!(start.elapsed(), MINUTE);
    assert!(matches!(error, CallError::Timeout { limit: Limit::Request, .. }), "{error:?}");
    assert_eq!(error.to_string(), "no answer within 60 s");
    hand.read().await;
    let cancelled = hand.read().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn initialize_is_never_cancelled() {
    let (peer, _events, mut hand) = Hand::start(NoRequests);
    peer.call("initialize", raw(&json!({})), patience(MINUTE)).await.unwrap_err();
    peer.notify("notifications/next", None).await.unwrap();
    assert_eq!(hand.read().await["method"], "initialize");
    assert_eq!(hand.read().await["method"], "notifications/next");
}

#[tokio::test(start_paused = true)]
async fn dkr_39_progress_comes_before_the_result_and_extends_the_deadline() {
    let (peer, _events, mut hand) = Hand::start(NoRequests);
    let (sender, mut progress) = mailbox::<Remark>(8);
    let options =
        CallOptions { progress: ProgressWish::Deliver(Arc::new(sender)), ..patience(MINUTE) };
    let params = raw(&json!({"name": "slow", "_meta": {"kept": true}}));
    let call = peer.call("tools/call", params, options);
    let server = async {
        let request = hand.read().await;
        let meta = &request["params"]["_meta"];
        assert_eq!(meta, &json!({"progressToken": 1, "kept": true}));
        for step in 1..=3 {
            tokio::time::sleep(Duration::from_secs(50)).await;
            let params = json!({"progressToken": meta["progressToken"], "progress": step});
            hand.write(
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
            )
            .await;
        }
        hand.answer(&request["id"]).await;
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
async fn dkr_39_no_progress_extends_a_call_beyond_its_cap() {
    let (peer, _events, mut hand) = Hand::start(NoRequests);
    let options = CallOptions {
        patience: Patience { request: Some(MINUTE), max: Some(MINUTE * 3) },
        progress: ProgressWish::Extend,
        ..CallOptions::default()
    };
    let call = peer.call("tools/call", raw(&json!({})), options);
    let server = async {
        let token = hand.read().await["params"]["_meta"]["progressToken"].clone();
        loop {
            tokio::time::sleep(Duration::from_secs(50)).await;
            let params = json!({"progressToken": token, "progress": 1});
            hand.write(
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
    assert!(matches!(outcome, Err(CallError::Timeout { limit: Limit::Max, .. })), "{outcome:?}");
    assert_eq!(start.elapsed(), MINUTE * 3);
}

#[tokio::test]
async fn an_impossible_answer_fails_its_call_at_once_and_no_other() {
    type Expected<'a> = &'a dyn Fn(&CallError) -> bool;
    let not_an_object =
        |error: &CallError| matches!(error, CallError::Malformed(BadAnswer::NotAnObject(_)));
    let fault = |error: &CallError| matches!(error, CallError::Malformed(BadAnswer::Fault(_)));
    let other_id =
        |error: &CallError| matches!(error, CallError::Malformed(BadAnswer::IdOfAnotherType));
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
        let (peer, _events, mut hand) = Hand::start(NoRequests);
        let bad = peer.call("bad", raw(&json!({})), patience(LIMIT));
        let good = peer.call("good", raw(&json!({})), patience(LIMIT));
        let server = async {
            let (first, second) = (hand.read().await, hand.read().await);
            assert_eq!(first["method"], "bad");
            hand.write_text(&format!("{}\n", answer.replace("$id", "1"))).await;
            hand.answer(&second["id"]).await;
        };
        let (bad, good, ()) = tokio::join!(within(bad), within(good), server);
        let error = bad.unwrap_err();
        assert!(expected(&error), "{answer}: {error:?}");
        good.unwrap();
    }
}

#[tokio::test]
async fn an_error_of_the_server_is_handed_on_whole() {
    let error = Step::Error { code: -32099, message: "no".to_owned() };
    let served = Served::new(Script::default().on("tools/call no", [error])).await;
    let outcome = tool(&served.peer, "no", &json!({})).await;
    let Err(CallError::Refused(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((error.code, error.message.as_str()), (-32099, "no"));
    served.end().await;
}

#[tokio::test]
async fn stray_answers_are_counted_by_kind_and_harm_nobody() {
    let twice = Step::Message(r#"{"jsonrpc":"2.0","id":$id,"result":{}}"#.to_owned());
    let stranger = Step::Message(r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#.to_owned());
    let nobody = Step::Message(
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#.to_owned(),
    );
    let script = Script::default()
        .on("tools/call twice", [Step::Answer, twice])
        .on("tools/call stranger", [stranger, nobody, Step::Answer])
        .on(
            "tools/call late",
            [
                Step::Sleep(300),
                Step::Answer,
                Step::Message(r#"{"jsonrpc":"2.0","method":"notifications/late"}"#.to_owned()),
            ],
        );
    let mut served = Served::new(script).await;
    tool(&served.peer, "twice", &json!({})).await.unwrap();
    tool(&served.peer, "stranger", &json!({})).await.unwrap();
    let late = json!({"name": "late"});
    let error = served
        .peer
        .call("tools/call", raw(&late), patience(Duration::from_millis(50)))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error:?}");
    within(async {
        while !matches!(
            served.events.next().await,
            Some(toolcrib_upstream::conn::peer::Event::Notification { .. })
        ) {}
    })
    .await;
    echo(&served.peer, "unharmed").await;
    for odd in [Odd::Duplicate, Odd::UnknownId, Odd::NoId, Odd::Late] {
        assert_eq!(seen(&served.peer, odd), 1, "{odd:?}");
    }
    served.end().await;
}

#[tokio::test]
async fn a_server_that_does_not_read_holds_nobody_up_and_learns_of_the_cancellation_later() {
    let (peer, _events, mut hand) = Hand::with_room(64, NoRequests);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let peer = peer.clone();
        calls.spawn(async move { peer.call("x", raw(&json!({})), patience(LIMIT)).await });
    }
    while peer.in_flight() < 64 {
        tokio::task::yield_now().await;
    }
    let in_flight = peer.in_flight();
    assert!(in_flight < 200, "calls wait where nothing is known of them yet: {in_flight}");
    within(calls.shutdown()).await;
    assert_eq!(peer.in_flight(), 0);
    let mut requests = Vec::new();
    let mut cancelled = Vec::new();
    while requests.is_empty() || cancelled.len() < requests.len() {
        let message = hand.read().await;
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
async fn in_the_modern_era_the_server_may_end_a_request() {
    let (peer, _events, mut hand) = Hand::start(NoRequests);
    peer.speak(Version::V2026_07_28);
    let call = peer.call("subscriptions/listen", raw(&json!({})), CallOptions::default());
    let server = async {
        let id = hand.read().await["id"].clone();
        let params = json!({"requestId": id});
        hand.write(
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        )
        .await;
    };
    let (outcome, ()) = tokio::join!(within(call), server);
    assert!(matches!(outcome, Err(CallError::EndedByServer)), "{outcome:?}");
}

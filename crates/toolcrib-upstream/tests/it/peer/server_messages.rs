//! Tests requests and notifications from the server: policy, order and bounds.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::peer::{
    CallOptions, HandlerFuture, PeerCallError, PeerEvent, RefuseRequests, RequestHandler,
    ServerRequest,
};

use super::{
    ManualServer, ScriptedPeer, call_tool, raw, request_timeout, result_text, with_time_limit,
};

/// Answers `roots/list` at once, answers `elicitation/create` after a delay, and panics on `panic`.
struct TestHandler;

const ANSWER_DELAY: Duration = Duration::from_secs(20);

impl RequestHandler for TestHandler {
    fn handle(&self, received: ServerRequest) -> Option<HandlerFuture> {
        match received.method.as_str() {
            "roots/list" => Some(Box::pin(async { Ok(raw(&json!({"roots": []}))) })),
            "elicitation/create" => Some(Box::pin(async move {
                let first = received.calls().next();
                let _pause = received.pause(|tag| tag == first);
                tokio::time::sleep(ANSWER_DELAY).await;
                Ok(raw(&json!({"action": "accept"})))
            })),
            "panic" => Some(Box::pin(async { panic!("the handler panics") })),
            _ => None,
        }
    }
}

async fn send_request(server: &mut ManualServer, method: &str) -> Value {
    server.write(json!({"jsonrpc": "2.0", "id": "q", "method": method})).await;
    server.read().await
}

#[tokio::test]
async fn ping_is_always_answered_and_other_requests_by_handler() {
    let (_peer, _events, mut server) = ManualServer::start(TestHandler);
    assert_eq!(
        send_request(&mut server, "ping").await,
        json!({"jsonrpc": "2.0", "id": "q", "result": {}})
    );
    assert_eq!(send_request(&mut server, "roots/list").await["result"], json!({"roots": []}));
    assert_eq!(send_request(&mut server, "sampling/createMessage").await["error"]["code"], -32601);
    assert_eq!(send_request(&mut server, "panic").await["error"]["code"], -32603);
}

#[tokio::test]
async fn server_request_during_call_is_answered() {
    let ask = Step::SendRequest { method: "sampling/createMessage".to_owned(), params: json!({}) };
    let scripted =
        ScriptedPeer::new(Script::default().on("tools/call asking", [ask, Step::Respond])).await;
    let body = call_tool(&scripted.peer, "asking", &json!({})).await.unwrap();
    assert!(result_text(&body).contains("-32601"), "{}", result_text(&body));
    scripted.close().await;
}

#[tokio::test(start_paused = true)]
async fn deadline_is_paused_during_elicitation() {
    let (peer, _events, mut server) = ManualServer::start(TestHandler);
    let call = peer.call("tools/call", raw(&json!({})), request_timeout(ANSWER_DELAY / 2));
    let server = async {
        let id = server.read().await["id"].clone();
        assert_eq!(
            send_request(&mut server, "elicitation/create").await["result"]["action"],
            "accept"
        );
        server.respond(&id).await;
    };
    let start = Instant::now();
    let (outcome, ()) = tokio::join!(call, server);
    outcome.unwrap();
    assert!(start.elapsed() >= ANSWER_DELAY);
}

#[tokio::test(start_paused = true)]
async fn only_deadline_of_asking_call_is_paused() {
    let (peer, _events, mut server) = ManualServer::start(TestHandler);
    let tagged = |tag| CallOptions { tag: Some(tag), ..request_timeout(ANSWER_DELAY / 2) };
    let received = peer.call("tools/call", raw(&json!({})), tagged(1));
    let other = peer.call("tools/call", raw(&json!({})), tagged(2));
    let server = async {
        let id = server.read().await["id"].clone();
        server.read().await;
        server.write(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create"})).await;
        assert_eq!(server.read().await["method"], "notifications/cancelled");
        assert_eq!(server.read().await["result"]["action"], "accept");
        server.respond(&id).await;
    };
    let (received, other, ()) =
        with_time_limit(async { tokio::join!(received, other, server) }).await;
    received.unwrap();
    assert!(matches!(other, Err(PeerCallError::Timeout { .. })), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn request_cancelled_by_server_is_not_answered() {
    let (_peer, _events, mut server) = ManualServer::start(TestHandler);
    server.write(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create"})).await;
    let params = json!({"requestId": "q"});
    server
        .write(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    tokio::time::sleep(ANSWER_DELAY * 2).await;
    assert_eq!(send_request(&mut server, "ping").await["result"], json!({}));
}

#[tokio::test]
async fn batch_items_are_processed_and_answered_as_batch() {
    let (peer, mut events, mut server) = ManualServer::start(TestHandler);
    let call = peer.call("tools/list", raw(&json!({})), request_timeout(super::TIME_LIMIT));
    let server = async {
        let id = server.read().await["id"].clone();
        let items = json!([
            {"jsonrpc": "2.0", "id": "a", "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
            {"jsonrpc": "2.0", "id": id, "result": {"tools": []}},
            {"jsonrpc": "1.0", "id": "b", "method": "ping"},
            {"jsonrpc": "2.0", "id": "c", "method": "roots/list"},
        ]);
        server.write(items).await;
        server.read().await
    };
    let (outcome, answers) = tokio::join!(with_time_limit(call), server);
    outcome.unwrap();
    let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    with_time_limit(async {
        while !matches!(events.next().await, Some(PeerEvent::Notification { .. })) {}
    })
    .await;
}

#[tokio::test]
async fn notification_flood_is_bounded_and_does_not_block() {
    let log = |times| Step::Notify {
        method: "notifications/message".to_owned(),
        params: json!({"level": "info", "data": "flood"}),
        times,
    };
    let changed = Step::Notify {
        method: "notifications/tools/list_changed".to_owned(),
        params: json!({}),
        times: 2,
    };
    let script = Script::default().on("tools/call flood", [changed, log(100_000), Step::Respond]);
    let mut scripted = ScriptedPeer::new(script).await;
    call_tool(&scripted.peer, "flood", &json!({})).await.unwrap();
    let kept: Vec<PeerEvent> = std::iter::from_fn(|| scripted.events.try_next()).collect();
    assert!(kept.len() <= 256, "{}", kept.len());
    assert_eq!(kept.len() as u64 + scripted.events.dropped(), 100_001);
    // The first notification is kept, once.
    assert!(
        matches!(&kept[0], PeerEvent::Notification { notification, .. } if notification.method.ends_with("list_changed"))
    );
    scripted.close().await;
}

#[tokio::test]
async fn unread_progress_is_bounded() {
    let steps = [Step::Progress { times: 1000, every: 0 }, Step::Respond];
    let scripted = ScriptedPeer::new(Script::default().on("tools/call busy", steps)).await;
    let (sender, mut progress) = toolcrib_upstream::conn::peer::mailbox(10);
    let options = toolcrib_upstream::conn::peer::CallOptions {
        progress: toolcrib_upstream::conn::peer::ProgressMode::Deliver(Arc::new(sender)),
        ..request_timeout(super::TIME_LIMIT)
    };
    let call = scripted.peer.call("tools/call", raw(&json!({"name": "busy"})), options);
    with_time_limit(call).await.unwrap();
    assert_eq!(progress.dropped(), 990);
    let last = std::iter::from_fn(|| progress.try_next()).last().unwrap();
    assert!(last.params().text().contains("\"progress\":1000"), "{last:?}");
    scripted.close().await;
}

#[tokio::test]
async fn refused_server_request_does_not_fail_own_call() {
    let (peer, _events, mut server) = ManualServer::start(RefuseRequests);
    let call = peer.call("tools/list", raw(&json!({})), request_timeout(super::TIME_LIMIT));
    let server = async {
        let id = server.read().await["id"].clone();
        // Server request ids are independent of ours; this one has the same number.
        server.write(json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})).await;
        assert_eq!(server.read().await["error"]["code"], -32601);
        server.respond(&id).await;
    };
    let (outcome, ()) = tokio::join!(with_time_limit(call), server);
    assert!(!matches!(outcome, Err(PeerCallError::Refused(_))), "{outcome:?}");
    outcome.unwrap();
}

#[tokio::test]
async fn unread_answers_to_server_requests_are_bounded() {
    let (peer, _events, mut server) = ManualServer::with_pipe_capacity(1024, RefuseRequests);
    let id = "i".repeat(64 << 10);
    for _ in 0..1000 {
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        server.write(ping).await;
    }
    // The link queue holds 64 answers, and the backlog as many.
    with_time_limit(async {
        while super::oddity_count(&peer, toolcrib_upstream::conn::peer::Anomaly::Unread) < 800 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let call = peer.call("x", raw(&json!({})), request_timeout(Duration::from_millis(50)));
    assert!(matches!(with_time_limit(call).await, Err(PeerCallError::Timeout { .. })));
}

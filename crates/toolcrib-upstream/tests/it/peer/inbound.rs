//! What the server asks and tells: answered by policy, delivered in order, bounded.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::peer::{
    Answering, Asked, CallError, CallOptions, Event, Handler, NoRequests,
};

use super::{Hand, Served, patience, raw, text, tool, within};

/// Answers `roots/list` at once, asks a person for `elicitation/create`, and panics on `panic`.
struct Client;

const PERSON: Duration = Duration::from_secs(20);

impl Handler for Client {
    fn take(&self, asked: Asked) -> Option<Answering> {
        match asked.method.as_str() {
            "roots/list" => Some(Box::pin(async { Ok(raw(&json!({"roots": []}))) })),
            "elicitation/create" => Some(Box::pin(async move {
                let first = asked.calls().next();
                let _pause = asked.pause(|tag| tag == first);
                tokio::time::sleep(PERSON).await;
                Ok(raw(&json!({"action": "accept"})))
            })),
            "panic" => Some(Box::pin(async { panic!("a handler falls") })),
            _ => None,
        }
    }
}

async fn ask(hand: &mut Hand, method: &str) -> Value {
    hand.write(json!({"jsonrpc": "2.0", "id": "q", "method": method})).await;
    hand.read().await
}

#[tokio::test]
async fn ping_is_always_answered_and_the_rest_by_policy() {
    let (_peer, _events, mut hand) = Hand::start(Client);
    assert_eq!(ask(&mut hand, "ping").await, json!({"jsonrpc": "2.0", "id": "q", "result": {}}));
    assert_eq!(ask(&mut hand, "roots/list").await["result"], json!({"roots": []}));
    assert_eq!(ask(&mut hand, "sampling/createMessage").await["error"]["code"], -32601);
    assert_eq!(ask(&mut hand, "panic").await["error"]["code"], -32603);
}

#[tokio::test]
async fn a_server_that_asks_in_the_middle_of_a_call_gets_its_answer() {
    let ask = Step::Ask { method: "sampling/createMessage".to_owned(), params: json!({}) };
    let served = Served::new(Script::default().on("tools/call asking", [ask, Step::Answer])).await;
    let body = tool(&served.peer, "asking", &json!({})).await.unwrap();
    assert!(text(&body).contains("-32601"), "{}", text(&body));
    served.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_deadline_waits_while_a_person_is_asked() {
    let (peer, _events, mut hand) = Hand::start(Client);
    let call = peer.call("tools/call", raw(&json!({})), patience(PERSON / 2));
    let server = async {
        let id = hand.read().await["id"].clone();
        assert_eq!(ask(&mut hand, "elicitation/create").await["result"]["action"], "accept");
        hand.answer(&id).await;
    };
    let start = Instant::now();
    let (outcome, ()) = tokio::join!(call, server);
    outcome.unwrap();
    assert!(start.elapsed() >= PERSON);
}

#[tokio::test(start_paused = true)]
async fn only_the_clock_of_the_call_that_is_asked_for_stands_still() {
    let (peer, _events, mut hand) = Hand::start(Client);
    let tagged = |tag| CallOptions { tag: Some(tag), ..patience(PERSON / 2) };
    let asked = peer.call("tools/call", raw(&json!({})), tagged(1));
    let other = peer.call("tools/call", raw(&json!({})), tagged(2));
    let server = async {
        let id = hand.read().await["id"].clone();
        hand.read().await;
        hand.write(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create"})).await;
        assert_eq!(hand.read().await["method"], "notifications/cancelled");
        assert_eq!(hand.read().await["result"]["action"], "accept");
        hand.answer(&id).await;
    };
    let (asked, other, ()) = within(async { tokio::join!(asked, other, server) }).await;
    asked.unwrap();
    assert!(matches!(other, Err(CallError::Timeout { .. })), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_server_calls_off_is_not_answered() {
    let (_peer, _events, mut hand) = Hand::start(Client);
    hand.write(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create"})).await;
    let params = json!({"requestId": "q"});
    hand.write(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    tokio::time::sleep(PERSON * 2).await;
    assert_eq!(ask(&mut hand, "ping").await["result"], json!({}));
}

#[tokio::test]
async fn a_batch_is_taken_item_by_item_and_its_requests_are_answered_together() {
    let (peer, mut events, mut hand) = Hand::start(Client);
    let call = peer.call("tools/list", raw(&json!({})), patience(super::LIMIT));
    let server = async {
        let id = hand.read().await["id"].clone();
        let items = json!([
            {"jsonrpc": "2.0", "id": "a", "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
            {"jsonrpc": "2.0", "id": id, "result": {"tools": []}},
            {"jsonrpc": "1.0", "id": "b", "method": "ping"},
            {"jsonrpc": "2.0", "id": "c", "method": "roots/list"},
        ]);
        hand.write(items).await;
        hand.read().await
    };
    let (outcome, answers) = tokio::join!(within(call), server);
    outcome.unwrap();
    let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    within(async { while !matches!(events.next().await, Some(Event::Notification { .. })) {} })
        .await;
}

#[tokio::test]
async fn a_hundred_thousand_notifications_hold_nothing_up_and_are_bounded() {
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
    let script = Script::default().on("tools/call flood", [changed, log(100_000), Step::Answer]);
    let mut served = Served::new(script).await;
    tool(&served.peer, "flood", &json!({})).await.unwrap();
    let kept: Vec<Event> = std::iter::from_fn(|| served.events.try_next()).collect();
    assert!(kept.len() <= 256, "{}", kept.len());
    assert_eq!(kept.len() as u64 + served.events.lost(), 100_001);
    // It came first and is still there, once.
    assert!(
        matches!(&kept[0], Event::Notification { notification, .. } if notification.method.ends_with("list_changed"))
    );
    served.end().await;
}

#[tokio::test]
async fn progress_that_nobody_takes_is_bounded() {
    let steps = [Step::Progress { times: 1000, every: 0 }, Step::Answer];
    let served = Served::new(Script::default().on("tools/call busy", steps)).await;
    let (sender, mut progress) = toolcrib_upstream::conn::peer::mailbox(10);
    let options = toolcrib_upstream::conn::peer::CallOptions {
        progress: toolcrib_upstream::conn::peer::ProgressWish::Deliver(Arc::new(sender)),
        ..patience(super::LIMIT)
    };
    let call = served.peer.call("tools/call", raw(&json!({"name": "busy"})), options);
    within(call).await.unwrap();
    assert_eq!(progress.lost(), 990);
    let last = std::iter::from_fn(|| progress.try_next()).last().unwrap();
    assert!(last.params().text().contains("\"progress\":1000"), "{last:?}");
    served.end().await;
}

#[tokio::test]
async fn a_refusing_client_still_fails_nothing_of_its_own() {
    let (peer, _events, mut hand) = Hand::start(NoRequests);
    let call = peer.call("tools/list", raw(&json!({})), patience(super::LIMIT));
    let server = async {
        let id = hand.read().await["id"].clone();
        // The server's ids are its own: this one is the same number as ours.
        hand.write(json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})).await;
        assert_eq!(hand.read().await["error"]["code"], -32601);
        hand.answer(&id).await;
    };
    let (outcome, ()) = tokio::join!(within(call), server);
    assert!(!matches!(outcome, Err(CallError::Refused(_))), "{outcome:?}");
    outcome.unwrap();
}

#[tokio::test]
async fn a_server_that_asks_and_never_reads_costs_no_more_than_the_backlog() {
    let (peer, _events, mut hand) = Hand::with_room(1024, NoRequests);
    let id = "i".repeat(64 << 10);
    for _ in 0..1000 {
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        hand.write(ping).await;
    }
    // 64 answers fit into the queue of the link and as many again into the backlog.
    within(async {
        while super::seen(&peer, toolcrib_upstream::conn::peer::Odd::Unread) < 800 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let call = peer.call("x", raw(&json!({})), patience(Duration::from_millis(50)));
    assert!(matches!(within(call).await, Err(CallError::Timeout { .. })));
}

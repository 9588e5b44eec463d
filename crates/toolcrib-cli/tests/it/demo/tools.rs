//! Tests every tool in both eras over both transports.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcrib_upstream::conn::peer::{
    CallNotification, HandlerFuture, MailboxReceiver, PeerEvent, ProgressMode, RequestHandler,
    ServerRequest, mailbox,
};
use toolcrib_wire::view::{ElicitAction, elicit_result};
use toolcrib_wire::{RawJson, method};

use super::{CONNECTION_MODES, Client, result_text, with_time_limit};

#[tokio::test]
async fn echo_add_fail_and_image_return_documented_results() {
    for mode in CONNECTION_MODES {
        let client = Client::new(mode).await;
        let output = "ü \u{1F6E0} \"quoted\"\nline";
        assert_eq!(result_text(&client.call_tool("echo", json!({"text": output})).await), output);
        let sum = client.call_tool("add", json!({"a": 2, "b": 40})).await;
        assert_eq!(sum["structuredContent"], json!({"sum": 42}));
        assert_eq!(result_text(&sum), r#"{"sum":42}"#);
        let failed = client.call_tool("fail", json!({"message": "so be it"})).await;
        assert_eq!((result_text(&failed), &failed["isError"]), ("so be it", &json!(true)));
        let image = client.call_tool("image", json!({})).await;
        assert_eq!(image["content"][0]["type"], "image");
        assert_eq!(image["content"][0]["mimeType"], "image/png");
        // The PNG signature in Base64.
        assert!(image["content"][0]["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
        client.close().await;
    }
}

#[tokio::test]
async fn counter_is_kept_per_session_or_handle() {
    for mode in CONNECTION_MODES {
        let client = Client::new(mode).await;
        let first = client.call_tool("counter", json!({})).await["structuredContent"].clone();
        assert_eq!(first["value"], 1);
        let arguments = match mode.is_modern() {
            true => json!({"by": 2, "counter": first["counter"]}),
            false => json!({"by": 2}),
        };
        let second = client.call_tool("counter", arguments).await;
        assert_eq!(second["structuredContent"], json!({"counter": first["counter"], "value": 3}));
        if mode.is_modern() {
            let fresh = client.call_tool("counter", json!({})).await;
            assert_eq!(fresh["structuredContent"]["value"], 1);
        }
        if mode.http {
            let other = client.second_client().await;
            let own = other.call_tool("counter", json!({})).await;
            assert_eq!(own["structuredContent"]["value"], 1, "each client has its own counter");
            other.close().await;
        }
        client.close().await;
    }
}

#[tokio::test]
async fn slow_reports_progress_and_blocks_no_other_call() {
    for mode in CONNECTION_MODES {
        let client = Client::new(mode).await;
        let (sender, mut progress) = mailbox(16);
        let params = json!({"name": "slow", "arguments": {"seconds": 0.4}});
        let slow = client.request_with_progress(
            "tools/call",
            params,
            ProgressMode::Deliver(Arc::new(sender)),
        );
        let others = async {
            client.wait_for_running_calls(1).await;
            for number in 0..10 {
                let output = number.to_string();
                assert_eq!(
                    result_text(&client.call_tool("echo", json!({"text": output})).await),
                    output
                );
            }
        };
        let (slow, ()) = tokio::join!(slow, others);
        assert_eq!(result_text(&slow.unwrap()), "That took 0.4 seconds.");
        let steps: Vec<Value> = std::iter::from_fn(|| progress.try_next())
            .map(|step: CallNotification| step.params().json().read().unwrap())
            .collect();
        let seen: Vec<i64> = steps.iter().map(|step| step["progress"].as_i64().unwrap()).collect();
        assert_eq!(seen, [1, 2, 3, 4]);
        assert!(steps.iter().all(|step| step["total"] == 4), "{steps:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn dropped_slow_call_is_cancelled_at_server() {
    for mode in CONNECTION_MODES {
        let client = Arc::new(Client::new(mode).await);
        let mut calls = JoinSet::new();
        let own = Arc::clone(&client);
        calls.spawn(async move { own.call_tool("slow", json!({"seconds": 600})).await });
        client.wait_for_running_calls(1).await;
        with_time_limit(calls.shutdown()).await;
        client.wait_for_running_calls(0).await;
        assert_eq!(result_text(&client.call_tool("echo", json!({"text": "on"})).await), "on");
        Arc::into_inner(client).unwrap().close().await;
    }
}

/// Records elicitation requests. Accepts the first one and declines the others.
#[derive(Clone, Default)]
struct RecordingUser(Arc<Mutex<Vec<Value>>>);

impl RecordingUser {
    fn answer(&self, received: Value) -> RawJson {
        let mut all = self.0.lock().unwrap();
        all.push(received);
        match all.len() {
            1 => {
                let content = RawJson::from_value(&json!({"name": "Ada"})).unwrap();
                elicit_result(ElicitAction::Accept, Some(content.json()))
            }
            _ => elicit_result(ElicitAction::Decline, None),
        }
    }
}

impl RequestHandler for RecordingUser {
    fn handle(&self, received: ServerRequest) -> Option<HandlerFuture> {
        assert_eq!(received.method, method::ELICIT);
        let answer = self.answer(received.params.json().read().unwrap());
        Some(Box::pin(async move { Ok(answer) }))
    }
}

#[tokio::test]
async fn elicit_asks_for_name_and_uses_it() {
    for mode in CONNECTION_MODES {
        let user = RecordingUser::default();
        let client =
            Client::with_capabilities(mode, json!({"elicitation": {}}), user.clone()).await;
        for expected in ["Hello, Ada!", "You would not tell your name"] {
            let mut result = client.call_tool("elicit", json!({})).await;
            if mode.is_modern() {
                assert_eq!(result["resultType"], "input_required");
                let received = result["inputRequests"]["name"]["params"].clone();
                let answer: Value = user.answer(received).json().read().unwrap();
                let params = json!({"name": "elicit", "arguments": {}, "inputResponses": {"name": answer}, "requestState": result["requestState"]});
                result = client.request("tools/call", params).await.unwrap();
            }
            assert!(result_text(&result).contains(expected), "{mode:?} {result}");
        }
        let received = user.0.lock().unwrap().clone();
        assert_eq!(received.len(), 2);
        let name = &received[0]["requestedSchema"]["properties"]["name"];
        assert_eq!(name["type"], "string");
        client.close().await;
    }
}

#[tokio::test]
async fn elicit_works_without_elicitation_capability() {
    for mode in CONNECTION_MODES {
        let client = Client::new(mode).await;
        let result = client.call_tool("elicit", json!({})).await;
        assert!(result_text(&result).starts_with("Hello, stranger!"), "{result}");
        assert_eq!(result.get("isError"), None);
        client.close().await;
    }
}

#[tokio::test]
async fn subscription_notifications_carry_subscription_id() {
    for mode in CONNECTION_MODES.into_iter().filter(|mode| mode.is_modern()) {
        let mut client = Client::new(mode).await;
        let mut events = client.events.take().unwrap();
        let filter = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["demo://calls"]}});
        let listening = client.request(method::SUBSCRIPTIONS_LISTEN, filter);
        let hearing = async {
            let (first, agreed) = notification(&mut events).await;
            assert_eq!(first, method::SUBSCRIPTION_ACKNOWLEDGED);
            let only = json!({"resourceSubscriptions": ["demo://calls"]});
            assert_eq!(agreed["notifications"], only, "the lists never change");
            client.call_tool("echo", json!({"text": ""})).await;
            let (second, updated) = notification(&mut events).await;
            assert_eq!(
                (second.as_str(), &updated["uri"]),
                (method::RESOURCE_UPDATED, &json!("demo://calls"))
            );
            assert!(agreed["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number());
            assert_eq!(updated["_meta"], agreed["_meta"]);
        };
        tokio::select! {
            ended = listening => panic!("{ended:?}"),
            () = hearing => {}
        }
        client.close().await;
    }
}

async fn notification(events: &mut MailboxReceiver<PeerEvent>) -> (String, Value) {
    match with_time_limit(events.next()).await.unwrap() {
        PeerEvent::Notification { notification, .. } => {
            let params = notification.params.json().read().unwrap();
            (notification.method, params)
        }
        other => panic!("{other:?}"),
    }
}

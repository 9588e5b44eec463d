//! Each tool in each era over each transport.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcrib_upstream::conn::peer::{
    Answering, Asked, Event, Handler, ProgressWish, Receiver, Remark, mailbox,
};
use toolcrib_wire::view::{ElicitAction, elicit_result};
use toolcrib_wire::{Raw, method};

use super::{Client, WAYS, text, within};

#[tokio::test]
async fn echo_add_fail_and_image_give_what_they_say() {
    for way in WAYS {
        let client = Client::new(way).await;
        let said = "ü \u{1F6E0} \"quoted\"\nline";
        assert_eq!(text(&client.tool("echo", json!({"text": said})).await), said);
        let sum = client.tool("add", json!({"a": 2, "b": 40})).await;
        assert_eq!(sum["structuredContent"], json!({"sum": 42}));
        assert_eq!(text(&sum), r#"{"sum":42}"#);
        let failed = client.tool("fail", json!({"message": "so be it"})).await;
        assert_eq!((text(&failed), &failed["isError"]), ("so be it", &json!(true)));
        let image = client.tool("image", json!({})).await;
        assert_eq!(image["content"][0]["type"], "image");
        assert_eq!(image["content"][0]["mimeType"], "image/png");
        // The eight bytes that every PNG begins with, and a little more.
        assert!(image["content"][0]["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
        client.end().await;
    }
}

#[tokio::test]
async fn the_counter_counts_in_its_session_or_by_its_handle() {
    for way in WAYS {
        let client = Client::new(way).await;
        let first = client.tool("counter", json!({})).await["structuredContent"].clone();
        assert_eq!(first["value"], 1);
        let arguments = match way.is_modern() {
            true => json!({"by": 2, "counter": first["counter"]}),
            false => json!({"by": 2}),
        };
        let second = client.tool("counter", arguments).await;
        assert_eq!(second["structuredContent"], json!({"counter": first["counter"], "value": 3}));
        if way.is_modern() {
            let fresh = client.tool("counter", json!({})).await;
            assert_eq!(fresh["structuredContent"]["value"], 1);
        }
        if way.http {
            let other = client.beside().await;
            let own = other.tool("counter", json!({})).await;
            assert_eq!(own["structuredContent"]["value"], 1, "another client, another counter");
            other.end().await;
        }
        client.end().await;
    }
}

#[tokio::test]
async fn slow_reports_progress_and_holds_nobody_up() {
    for way in WAYS {
        let client = Client::new(way).await;
        let (sender, mut progress) = mailbox(16);
        let params = json!({"name": "slow", "arguments": {"seconds": 0.4}});
        let slow = client.ask_with("tools/call", params, ProgressWish::Deliver(Arc::new(sender)));
        let others = async {
            client.runs(1).await;
            for number in 0..10 {
                let said = number.to_string();
                assert_eq!(text(&client.tool("echo", json!({"text": said})).await), said);
            }
        };
        let (slow, ()) = tokio::join!(slow, others);
        assert_eq!(text(&slow.unwrap()), "That took 0.4 seconds.");
        let steps: Vec<Value> = std::iter::from_fn(|| progress.try_next())
            .map(|step: Remark| step.params().json().read().unwrap())
            .collect();
        let seen: Vec<i64> = steps.iter().map(|step| step["progress"].as_i64().unwrap()).collect();
        assert_eq!(seen, [1, 2, 3, 4]);
        assert!(steps.iter().all(|step| step["total"] == 4), "{steps:?}");
        client.end().await;
    }
}

#[tokio::test]
async fn a_slow_call_that_is_dropped_ends_at_the_server() {
    for way in WAYS {
        let client = Arc::new(Client::new(way).await);
        let mut calls = JoinSet::new();
        let own = Arc::clone(&client);
        calls.spawn(async move { own.tool("slow", json!({"seconds": 600})).await });
        client.runs(1).await;
        within(calls.shutdown()).await;
        client.runs(0).await;
        assert_eq!(text(&client.tool("echo", json!({"text": "on"})).await), "on");
        Arc::into_inner(client).unwrap().end().await;
    }
}

/// Somebody called Ada, who remembers what she was asked; once she declines.
#[derive(Clone, Default)]
struct Ada(Arc<Mutex<Vec<Value>>>);

impl Ada {
    fn answer(&self, asked: Value) -> Raw {
        let mut all = self.0.lock().unwrap();
        all.push(asked);
        match all.len() {
            1 => {
                let content = Raw::of(&json!({"name": "Ada"})).unwrap();
                elicit_result(ElicitAction::Accept, Some(content.json()))
            }
            _ => elicit_result(ElicitAction::Decline, None),
        }
    }
}

impl Handler for Ada {
    fn take(&self, asked: Asked) -> Option<Answering> {
        assert_eq!(asked.method, method::ELICIT);
        let answer = self.answer(asked.params.json().read().unwrap());
        Some(Box::pin(async move { Ok(answer) }))
    }
}

#[tokio::test]
async fn a_name_is_asked_for_and_used() {
    for way in WAYS {
        let ada = Ada::default();
        let client = Client::able(way, json!({"elicitation": {}}), ada.clone()).await;
        for expected in ["Hello, Ada!", "whoever you are"] {
            let mut result = client.tool("elicit", json!({})).await;
            if way.is_modern() {
                assert_eq!(result["resultType"], "input_required");
                let asked = result["inputRequests"]["name"]["params"].clone();
                let answer: Value = ada.answer(asked).json().read().unwrap();
                let params = json!({"name": "elicit", "arguments": {}, "inputResponses": {"name": answer}, "requestState": result["requestState"]});
                result = client.ask("tools/call", params).await.unwrap();
            }
            assert!(text(&result).contains(expected), "{way:?} {result}");
        }
        let asked = ada.0.lock().unwrap().clone();
        assert_eq!(asked.len(), 2);
        let name = &asked[0]["requestedSchema"]["properties"]["name"];
        assert_eq!(name["type"], "string");
        client.end().await;
    }
}

#[tokio::test]
async fn a_client_that_cannot_ask_is_greeted_all_the_same() {
    for way in WAYS {
        let client = Client::new(way).await;
        let result = client.tool("elicit", json!({})).await;
        assert!(text(&result).starts_with("Hello, stranger!"), "{result}");
        assert_eq!(result.get("isError"), None);
        client.end().await;
    }
}

#[tokio::test]
async fn who_listens_hears_of_each_change_under_the_id_of_the_subscription() {
    for way in WAYS.into_iter().filter(|way| way.is_modern()) {
        let mut client = Client::new(way).await;
        let mut events = client.events.take().unwrap();
        let filter = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["demo://calls"]}});
        let listening = client.ask(method::SUBSCRIPTIONS_LISTEN, filter);
        let hearing = async {
            let (first, agreed) = notification(&mut events).await;
            assert_eq!(first, method::SUBSCRIPTION_ACKNOWLEDGED);
            let only = json!({"resourceSubscriptions": ["demo://calls"]});
            assert_eq!(agreed["notifications"], only, "the lists never change");
            client.tool("echo", json!({"text": ""})).await;
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
        client.end().await;
    }
}

async fn notification(events: &mut Receiver<Event>) -> (String, Value) {
    match within(events.next()).await.unwrap() {
        Event::Notification { notification, .. } => {
            let params = notification.params.json().read().unwrap();
            (notification.method, params)
        }
        other => panic!("{other:?}"),
    }
}

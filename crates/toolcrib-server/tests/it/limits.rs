//! What one client may take: it gets no more by sending several messages as one, or on another way.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message as Frame;
use toolcrib_testkit::scripted::{Script, Step};

use crate::scene::{Scene, within};
use crate::web::{Served, request};

#[tokio::test]
async fn a_batch_gets_nobody_around_the_most_at_once() {
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({"session": {"scope": "shared"}}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let batch = |from: i64| {
        let call = |id| request(id, "tools/call", json!({"name": "it__stuck", "arguments": {}}));
        Value::from_iter((from..from + 100).map(call))
    };
    let (first, second) = (batch(100), batch(200));
    let stuck = async {
        // Nothing of them is ever answered.
        let (one, other) = (
            served.post("/mcp", Some(&session), &first),
            served.post("/mcp", Some(&session), &second),
        );
        tokio::join!(one, other)
    };
    let refused = async {
        while scene.log("it").iter().filter(|it| it["method"] == "tools/call").count() < 200 {
            tokio::task::yield_now().await;
        }
        let mut answer = served.post("/mcp", Some(&session), &batch(300)).await;
        for _ in 256..300 {
            let refused = answer.message().await;
            assert_eq!(refused["error"]["code"], -32603, "{refused}");
        }
    };
    tokio::select! {
        _ = stuck => panic!("they are stuck"),
        () = within(refused) => {}
    }
    served.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_message_over_a_websocket_is_as_long_as_a_body_may_be() {
    let limits = json!({"gateway": {"limits": {"body": 2000}}});
    let scene = Scene::with(&limits, &[]).await;
    let served = Served::new(&scene).await;
    for (length, is_taken) in [(1000, true), (3000, false)] {
        let stream = within(tokio::net::TcpStream::connect(served.address)).await.unwrap();
        let address = format!("ws://{}/ws", served.address);
        let (mut socket, _) =
            within(tokio_tungstenite::client_async(address, stream)).await.unwrap();
        let long = request(1, "ping", json!({"_meta": {"x": "x".repeat(length)}}));
        socket.send(Frame::text(long.to_string())).await.unwrap();
        let answer = async {
            loop {
                match socket.next().await {
                    Some(Ok(Frame::Ping(_))) => {}
                    answer => return answer,
                }
            }
        };
        let is_answer = matches!(within(answer).await, Some(Ok(Frame::Text(_))));
        assert_eq!(is_answer, is_taken, "{length}");
    }
    served.end().await;
    within(scene.host.close()).await;
}

//! Limits per client that batches and other transports must not bypass.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message as Frame;
use toolcrib_testkit::scripted::{Script, Step};

use super::HTTP_MODE;
use crate::fixture::{TestHost, with_timeout};
use crate::http_client::{TestServer, request};

#[tokio::test]
async fn batch_counts_against_the_concurrent_request_limit() {
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Respond]);
    let host_fixture =
        TestHost::start(HTTP_MODE, &[("it", script, json!({"session": {"scope": "shared"}}))])
            .await;
    let server = TestServer::new(&host_fixture).await;
    let session = server.open_session("/mcp", json!({})).await;
    let batch = |from: i64| {
        let call = |id| request(id, "tools/call", json!({"name": "it__stuck", "arguments": {}}));
        Value::from_iter((from..from + 100).map(call))
    };
    let (first, second) = (batch(100), batch(200));
    let stuck = async {
        // These calls are never answered.
        let (one, other) = (
            server.post("/mcp", Some(&session), &first),
            server.post("/mcp", Some(&session), &second),
        );
        tokio::join!(one, other)
    };
    let refused = async {
        while host_fixture.log("it").iter().filter(|it| it["method"] == "tools/call").count() < 200
        {
            tokio::task::yield_now().await;
        }
        let mut answer = server.post("/mcp", Some(&session), &batch(300)).await;
        for _ in 256..300 {
            let refused = answer.next_message().await;
            assert_eq!(refused["error"]["code"], -32603, "{refused}");
        }
    };
    tokio::select! {
        _ = stuck => panic!("stuck calls must not be answered"),
        () = with_timeout(refused) => {}
    }
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn websocket_message_is_limited_like_a_body() {
    let limits = json!({"gateway": {"limits": {"body": 2000}}});
    let host_fixture = TestHost::start_with(HTTP_MODE, &limits, &[]).await;
    let server = TestServer::new(&host_fixture).await;
    for (length, is_taken) in [(1000, true), (3000, false)] {
        let stream = with_timeout(tokio::net::TcpStream::connect(server.address)).await.unwrap();
        let address = format!("ws://{}/ws", server.address);
        let (mut socket, _) =
            with_timeout(tokio_tungstenite::client_async(address, stream)).await.unwrap();
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
        let is_answer = matches!(with_timeout(answer).await, Some(Ok(Frame::Text(_))));
        assert_eq!(is_answer, is_taken, "{length}");
    }
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}

//! How the server ends: with its input, or by a signal, and what is under way gets an answer.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::net::TcpStream;
use toolcrib_wire::method;

use super::stdio::Hand;
use super::{Client, HttpServer, WAYS, within};

fn terminate(pid: u32) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
}

/// A slow call with the id 1.
const SLOW: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"seconds":600}}}"#;

#[tokio::test]
async fn the_end_of_the_input_is_the_end_and_nothing_but_messages_was_said() {
    let mut hand = Hand::start();
    hand.open().await;
    hand.write(&format!("{SLOW}\n")).await;
    // The last one lacks its line break.
    hand.write(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
    hand.stdin = None;
    assert_eq!(hand.next().await.unwrap()["id"], 2);
    let ended = hand.next().await.unwrap();
    assert_eq!((&ended["id"], &ended["error"]["code"]), (&json!(1), &json!(-32603)));
    assert_eq!(hand.next().await, None);
    assert_eq!(within(hand.child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_signal_ends_it_on_its_streams_while_the_input_is_open() {
    let mut hand = Hand::start();
    hand.open().await;
    hand.write(&format!("{SLOW}\n")).await;
    // An answer shows that the call before it has begun.
    hand.write("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n").await;
    assert_eq!(hand.next().await.unwrap()["id"], 2);
    terminate(hand.child.id().unwrap());
    assert_eq!(hand.next().await.unwrap()["id"], 1);
    assert_eq!(within(hand.child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_signal_ends_it_over_http() {
    let mut server = HttpServer::start().await;
    let address = server.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    // A connection on which nothing is said does not hold it up.
    let _idle = within(TcpStream::connect(address)).await.unwrap();
    terminate(server.child.id().unwrap());
    assert_eq!(within(server.child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn who_listens_learns_that_it_was_an_orderly_end() {
    for way in WAYS.into_iter().filter(|way| way.is_modern()) {
        let mut client = Client::new(way).await;
        let mut events = client.events.take().unwrap();
        let pid = match &client.server {
            Some(server) => server.child.id(),
            None => client.peer.facts().pid,
        };
        let listening = client.ask(method::SUBSCRIPTIONS_LISTEN, json!({"notifications": {}}));
        let ending = async {
            within(events.next()).await.unwrap();
            terminate(pid.unwrap());
        };
        let (answer, ()) = tokio::join!(listening, ending);
        assert_eq!(answer.unwrap()["resultType"], "complete", "{way:?}");
        within(client.peer.close(Duration::from_secs(5))).await;
        within(client.instance.close()).await;
    }
}

//! The same conversation over whatever carries bytes both ways.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step, program};
use toolcrib_upstream::conn::peer::{CallError, Event, NoRequests, Odd, Peer};
use toolcrib_upstream::transport::{CloseReason, over};

use super::{
    AT_ONCE, Hand, LIMIT, Served, echo, patience, raw, seen, settings, stream_settings, tool,
    within,
};

/// What any transport must do; the server has a tool `leave` that ends it mid-call.
async fn dkr_05_06_07_hold(peer: &Peer) {
    echo(peer, "first").await;
    tool(peer, "garbage", &json!({})).await.unwrap();
    assert_eq!(seen(peer, Odd::Noise), 1);
    let nothing = json!({});
    let (left, pending) =
        tokio::join!(tool(peer, "leave", &nothing), tool(peer, "silent", &nothing),);
    for outcome in [left, pending] {
        assert!(matches!(outcome, Err(CallError::Closed(_))), "{outcome:?}");
    }
    let after = tool(peer, "echo", &json!({})).await.unwrap_err();
    assert_eq!(after.to_string(), "Transport closed");
}

fn leaving() -> Script {
    Script::default()
        .on("tools/call garbage", [Step::Raw("garbage\r\n".to_owned()), Step::Answer])
        .on("tools/call silent", [])
        .on("tools/call leave", [Step::Sleep(100), Step::Exit(3)])
}

#[tokio::test]
async fn dkr_10_a_child_s_pipes_carry_it() {
    let served = Served::new(leaving()).await;
    dkr_05_06_07_hold(&served.peer).await;
    let reason = within(served.peer.closed()).await;
    assert_eq!(reason.to_string(), "the server's process ended with exit code 3");
    served.end().await;
}

#[tokio::test]
async fn dkr_10_a_socket_pair_carries_it() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(program().unwrap())
        .arg(leaving().to_json())
        .stdin(OwnedFd::from(theirs.try_clone().unwrap()))
        .stdout(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    ours.set_nonblocking(true).unwrap();
    let (reader, writer) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
    let (peer, _events) =
        Peer::start(over(reader, writer, stream_settings()), settings(NoRequests));
    dkr_05_06_07_hold(&peer).await;
    let reason = within(peer.closed()).await;
    assert!(matches!(reason, CloseReason::Ended), "{reason:?}");
    child.wait().unwrap();
}

#[tokio::test]
async fn dkr_07_the_end_of_the_stream_fails_what_is_under_way_at_once() {
    let (peer, mut events, mut hand) = Hand::start(NoRequests);
    let call = peer.call("tools/list", raw(&json!({})), patience(LIMIT));
    let server = async {
        hand.read().await;
        drop(hand);
        tokio::time::Instant::now()
    };
    let (outcome, ended) = tokio::join!(within(call), server);
    let took = ended.elapsed();
    assert!(matches!(outcome, Err(CallError::Closed(CloseReason::Ended))), "{outcome:?}");
    assert!(took < AT_ONCE, "{took:?}");
    let event = within(events.next()).await;
    assert!(matches!(event, Some(Event::Closed(CloseReason::Ended))), "{event:?}");
    assert!(within(events.next()).await.is_none());
}

#[tokio::test]
async fn dkr_04_a_carriage_return_and_any_split_are_tolerated() {
    let (peer, _events, mut hand) = Hand::start(NoRequests);
    let call = peer.call("tools/list", raw(&json!({})), patience(LIMIT));
    let server = async {
        let request = hand.read().await;
        assert_eq!(
            request,
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
        );
        for piece in ["{\"jsonrpc\":\"2.0\",\"i", "d\":1,\"result\":{\"tools\":[]}}", "\r\n"] {
            hand.write_text(piece).await;
            tokio::task::yield_now().await;
        }
    };
    let (outcome, ()) = tokio::join!(within(call), server);
    assert_eq!(outcome.unwrap().json().text(), "{\"tools\":[]}");
}

#[tokio::test]
async fn dkr_08_a_server_that_writes_content_length_is_answered_in_kind() {
    let (peer, _events, mut hand) = Hand::start(NoRequests);
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}";
    hand.write_text(&format!("Content-Length: {}\r\n\r\n{ping}", ping.len())).await;
    let mut start = [0; 15];
    within(tokio::io::AsyncReadExt::read_exact(&mut hand.stream, &mut start)).await.unwrap();
    assert_eq!(&start, b"Content-Length:");
    drop(peer);
}

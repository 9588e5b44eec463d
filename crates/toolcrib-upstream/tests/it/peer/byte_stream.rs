//! Tests sessions over any pair of byte streams.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step, server_binary};
use toolcrib_upstream::conn::peer::{Anomaly, Peer, PeerCallError, PeerEvent, RefuseRequests};
use toolcrib_upstream::transport::{CloseReason, link_over_streams};

use super::{
    IMMEDIATE, ManualServer, ScriptedPeer, TIME_LIMIT, call_tool, check_echo, oddity_count, raw,
    request_timeout, settings, stream_settings, with_time_limit,
};

/// Checks the common behaviour of all transports. The server's tool `leave` ends it during the call.
async fn check_dkr_05_06_07(peer: &Peer) {
    check_echo(peer, "first").await;
    call_tool(peer, "garbage", &json!({})).await.unwrap();
    assert_eq!(oddity_count(peer, Anomaly::Noise), 1);
    let nothing = json!({});
    let (left, pending) =
        tokio::join!(call_tool(peer, "leave", &nothing), call_tool(peer, "silent", &nothing),);
    for outcome in [left, pending] {
        assert!(matches!(outcome, Err(PeerCallError::Closed(_))), "{outcome:?}");
    }
    let after = call_tool(peer, "echo", &json!({})).await.unwrap_err();
    assert_eq!(after.to_string(), "Transport closed");
}

fn leaving_script() -> Script {
    Script::default()
        .on("tools/call garbage", [Step::Raw("garbage\r\n".to_owned()), Step::Respond])
        .on("tools/call silent", [])
        .on("tools/call leave", [Step::Sleep(100), Step::Exit(3)])
}

#[tokio::test]
async fn dkr_10_child_pipes_carry_session() {
    let scripted = ScriptedPeer::new(leaving_script()).await;
    check_dkr_05_06_07(&scripted.peer).await;
    let reason = with_time_limit(scripted.peer.closed()).await;
    assert_eq!(reason.to_string(), "the server's process ended with exit code 3");
    scripted.close().await;
}

#[tokio::test]
async fn dkr_10_socket_pair_carries_session() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(server_binary().unwrap())
        .arg(leaving_script().to_json())
        .stdin(OwnedFd::from(theirs.try_clone().unwrap()))
        .stdout(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    ours.set_nonblocking(true).unwrap();
    let (reader, writer) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
    let (peer, _events) =
        Peer::start(link_over_streams(reader, writer, stream_settings()), settings(RefuseRequests));
    check_dkr_05_06_07(&peer).await;
    let reason = with_time_limit(peer.closed()).await;
    assert!(matches!(reason, CloseReason::StreamEnded), "{reason:?}");
    child.wait().unwrap();
}

#[tokio::test]
async fn dkr_07_end_of_stream_fails_in_flight_calls_at_once() {
    let (peer, mut events, mut server) = ManualServer::start(RefuseRequests);
    let call = peer.call("tools/list", raw(&json!({})), request_timeout(TIME_LIMIT));
    let server = async {
        server.read().await;
        drop(server);
        tokio::time::Instant::now()
    };
    let (outcome, ended) = tokio::join!(with_time_limit(call), server);
    let elapsed_time = ended.elapsed();
    assert!(matches!(outcome, Err(PeerCallError::Closed(CloseReason::StreamEnded))), "{outcome:?}");
    assert!(elapsed_time < IMMEDIATE, "{elapsed_time:?}");
    let event = with_time_limit(events.next()).await;
    assert!(matches!(event, Some(PeerEvent::Closed(CloseReason::StreamEnded))), "{event:?}");
    assert!(with_time_limit(events.next()).await.is_none());
}

#[tokio::test]
async fn dkr_04_carriage_return_and_split_messages_are_accepted() {
    let (peer, _events, mut server) = ManualServer::start(RefuseRequests);
    let call = peer.call("tools/list", raw(&json!({})), request_timeout(TIME_LIMIT));
    let server = async {
        let request = server.read().await;
        assert_eq!(
            request,
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
        );
        for piece in ["{\"jsonrpc\":\"2.0\",\"i", "d\":1,\"result\":{\"tools\":[]}}", "\r\n"] {
            server.write_text(piece).await;
            tokio::task::yield_now().await;
        }
    };
    let (outcome, ()) = tokio::join!(with_time_limit(call), server);
    assert_eq!(outcome.unwrap().json().text(), "{\"tools\":[]}");
}

#[tokio::test]
async fn dkr_08_content_length_server_is_answered_with_content_length() {
    let (peer, _events, mut server) = ManualServer::start(RefuseRequests);
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}";
    server.write_text(&format!("Content-Length: {}\r\n\r\n{ping}", ping.len())).await;
    let mut start = [0; 15];
    with_time_limit(tokio::io::AsyncReadExt::read_exact(&mut server.stream, &mut start))
        .await
        .unwrap();
    assert_eq!(&start, b"Content-Length:");
    drop(peer);
}

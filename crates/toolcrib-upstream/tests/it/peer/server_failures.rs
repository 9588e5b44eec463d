//! Tests broken servers: callers fail in bounded time, other calls continue, and memory stays bounded.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::peer::{Anomaly, PeerCallError};
use toolcrib_upstream::transport::CloseReason;
use toolcrib_wire::Version;

use super::{
    IMMEDIATE, ScriptedPeer, TIME_LIMIT, call_tool, check_echo, oddity_count, raw, request_timeout,
    result_text, with_time_limit,
};

/// Calls a tool that breaks the server while another call is in flight. Both must fail at once.
async fn expect_both_calls_to_fail(script: Script, tool_name: &str) -> (ScriptedPeer, CloseReason) {
    let scripted = ScriptedPeer::new(script.on("tools/call silent", [])).await;
    let start = Instant::now();
    let nothing = json!({});
    let (one, other) = tokio::join!(
        call_tool(&scripted.peer, "silent", &nothing),
        call_tool(&scripted.peer, tool_name, &nothing),
    );
    assert!(start.elapsed() < IMMEDIATE, "{:?}", start.elapsed());
    for outcome in [one, other] {
        assert!(matches!(outcome, Err(PeerCallError::Closed(_))), "{outcome:?}");
    }
    let reason = with_time_limit(scripted.peer.closed()).await;
    (scripted, reason)
}

#[tokio::test]
async fn server_killed_during_call_fails_calls_at_once() {
    let script = Script::default().on("tools/call die", [Step::Sleep(50), Step::Abort]);
    let (scripted, reason) = expect_both_calls_to_fail(script, "die").await;
    assert_eq!(reason.to_string(), "the server's process ended with signal 6");
    scripted.close().await;
}

#[tokio::test]
async fn truncated_line_at_exit_fails_calls_at_once() {
    let half = Step::Raw(r#"{"jsonrpc":"2.0","id":$id,"resu"#.to_owned());
    let script = Script::default().on("tools/call half", [Step::Sleep(50), half, Step::Exit(0)]);
    let (scripted, _) = expect_both_calls_to_fail(script, "half").await;
    assert_eq!(oddity_count(&scripted.peer, Anomaly::Truncated), 1);
    scripted.close().await;
}

#[tokio::test]
async fn silent_call_does_not_block_others() {
    let scripted = ScriptedPeer::new(Script::default().on("tools/call silent", [])).await;
    let params = raw(&json!({"name": "silent"}));
    let call =
        scripted.peer.call("tools/call", params, request_timeout(Duration::from_millis(200)));
    let (silent, ()) = tokio::join!(with_time_limit(call), check_echo(&scripted.peer, "meanwhile"));
    assert!(matches!(silent, Err(PeerCallError::Timeout { .. })), "{silent:?}");
    check_echo(&scripted.peer, "afterwards").await;
    scripted.close().await;
}

#[tokio::test]
async fn line_of_100_mb_fails_its_call_and_is_discarded() {
    let script = Script::default().on("tools/call giant", [Step::LargeResult(100 << 20)]);
    let scripted = ScriptedPeer::new(script).await;
    let error = call_tool(&scripted.peer, "giant", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerCallError::TooLarge { limit: 0x400_0000 }), "{error:?}");
    check_echo(&scripted.peer, "afterwards").await;
    assert_eq!(oddity_count(&scripted.peer, Anomaly::TooLarge), 1);
    scripted.close().await;
}

#[tokio::test]
async fn dkr_38_ten_megabytes_are_read_and_limit_is_reported() {
    let script = Script::default().on("tools/call big", [Step::LargeResult(10 << 20)]);
    let scripted = ScriptedPeer::new(script.clone()).await;
    let body = call_tool(&scripted.peer, "big", &json!({})).await.unwrap();
    assert_eq!(result_text(&body).len(), 10 << 20);
    scripted.close().await;

    let scripted = ScriptedPeer::with_config(script, |_, host| host.limits.size = 1 << 20).await;
    let error = call_tool(&scripted.peer, "big", &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "the answer is over the limit of 1048576 bytes");
    check_echo(&scripted.peer, "afterwards").await;
    scripted.close().await;
}

#[tokio::test]
async fn stderr_flood_is_drained_and_bounded() {
    let script =
        Script::default().on("tools/call loud", [Step::StderrFlood(20 << 20), Step::Respond]);
    let scripted = ScriptedPeer::new(script).await;
    call_tool(&scripted.peer, "loud", &json!({})).await.unwrap();
    let stderr = scripted.peer.link_info().stderr.clone().unwrap();
    assert!(stderr.text().len() <= 64 << 10);
    scripted.close().await;
}

#[tokio::test]
async fn server_with_closed_stdin_fails_sent_calls() {
    let script = Script { ignore_end: true, ..Script::default() };
    let script = script.on("tools/call deaf", [Step::CloseStdin, Step::Respond]);
    let moment = Duration::from_millis(50);
    let scripted = ScriptedPeer::with_config(script, |_, host| host.graces.close = moment).await;
    call_tool(&scripted.peer, "deaf", &json!({})).await.unwrap();
    let start = Instant::now();
    let error = call_tool(&scripted.peer, "echo", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerCallError::Unsent(_)), "{error:?}");
    assert!(start.elapsed() < IMMEDIATE, "{:?}", start.elapsed());
    scripted.close().await;
}

#[tokio::test]
async fn server_ignoring_sigterm_is_killed() {
    let script = Script { ignore_sigterm: true, ignore_end: true, ..Script::default() };
    let moment = Duration::from_millis(50);
    let scripted = ScriptedPeer::with_config(script, |_, host| {
        host.graces.close = moment;
        host.graces.terminate = moment;
    })
    .await;
    check_echo(&scripted.peer, "hello").await;
    let pid = scripted.peer.link_info().pid.unwrap();
    with_time_limit(scripted.peer.close(TIME_LIMIT)).await;
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    scripted.close().await;
}

#[tokio::test]
async fn oversized_response_with_trailing_id_fails_its_call_at_once() {
    let flood = Step::Flood { byte: 'x', times: 2 << 20 };
    let head = Step::Raw(r#"{"jsonrpc":"2.0","result":{"id":1,"text":""#.to_owned());
    let tail = Step::Raw("\"},\"id\":$id}\n".to_owned());
    let script = Script::default().on("tools/call giant", [head, flood, tail]);
    let script = script.on("tools/call silent", []);
    let scripted = ScriptedPeer::with_config(script, |_, host| host.limits.size = 1 << 20).await;
    // During the handshake, which ends with a version, an oversized response fails all calls.
    scripted.peer.set_version(Version::NEWEST_LEGACY);
    let start = Instant::now();
    let (none, some) = (json!({}), json!({"n": 1}));
    let error = tokio::select! {
        _ = call_tool(&scripted.peer, "silent", &none) => panic!("another call failed"),
        _ = call_tool(&scripted.peer, "silent", &some) => panic!("another call failed"),
        answer = call_tool(&scripted.peer, "giant", &none) => answer.unwrap_err(),
    };
    assert!(matches!(error, PeerCallError::TooLarge { .. }), "{error:?}");
    assert!(start.elapsed() < IMMEDIATE, "{:?}", start.elapsed());
    scripted.close().await;
}

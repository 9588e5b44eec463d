//! Servers that break: the caller learns it in bounded time, other calls go on, memory stays bounded.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::peer::{CallError, Odd};
use toolcrib_upstream::transport::CloseReason;

use super::{AT_ONCE, LIMIT, Served, echo, patience, raw, seen, text, tool, within};

/// A call of a tool that breaks the server, and one that was under way: both fail at once.
async fn both_fail(script: Script, tool_name: &str) -> (Served, CloseReason) {
    let served = Served::new(script.on("tools/call silent", [])).await;
    let start = Instant::now();
    let nothing = json!({});
    let (one, other) = tokio::join!(
        tool(&served.peer, "silent", &nothing),
        tool(&served.peer, tool_name, &nothing),
    );
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    for outcome in [one, other] {
        assert!(matches!(outcome, Err(CallError::Closed(_))), "{outcome:?}");
    }
    let reason = within(served.peer.closed()).await;
    (served, reason)
}

#[tokio::test]
async fn a_server_killed_in_the_middle_of_a_call() {
    let script = Script::default().on("tools/call die", [Step::Sleep(50), Step::Abort]);
    let (served, reason) = both_fail(script, "die").await;
    assert_eq!(reason.to_string(), "the server's process ended with signal 6");
    served.end().await;
}

#[tokio::test]
async fn half_a_line_and_then_the_end() {
    let half = Step::Raw(r#"{"jsonrpc":"2.0","id":$id,"resu"#.to_owned());
    let script = Script::default().on("tools/call half", [Step::Sleep(50), half, Step::Exit(0)]);
    let (served, _) = both_fail(script, "half").await;
    assert_eq!(seen(&served.peer, Odd::Truncated), 1);
    served.end().await;
}

#[tokio::test]
async fn a_server_that_never_answers_costs_only_its_own_call() {
    let served = Served::new(Script::default().on("tools/call silent", [])).await;
    let params = raw(&json!({"name": "silent"}));
    let call = served.peer.call("tools/call", params, patience(Duration::from_millis(200)));
    let (silent, ()) = tokio::join!(within(call), echo(&served.peer, "meanwhile"));
    assert!(matches!(silent, Err(CallError::Timeout { .. })), "{silent:?}");
    echo(&served.peer, "afterwards").await;
    served.end().await;
}

#[tokio::test]
async fn a_line_of_100_mb_fails_its_call_and_is_not_kept() {
    let script = Script::default().on("tools/call giant", [Step::Big(100 << 20)]);
    let served = Served::new(script).await;
    let error = tool(&served.peer, "giant", &json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::TooLarge { limit: 0x400_0000 }), "{error:?}");
    echo(&served.peer, "afterwards").await;
    assert_eq!(seen(&served.peer, Odd::TooLarge), 1);
    served.end().await;
}

#[tokio::test]
async fn dkr_38_ten_megabytes_arrive_and_a_limit_says_so() {
    let script = Script::default().on("tools/call big", [Step::Big(10 << 20)]);
    let served = Served::new(script.clone()).await;
    let body = tool(&served.peer, "big", &json!({})).await.unwrap();
    assert_eq!(text(&body).len(), 10 << 20);
    served.end().await;

    let served = Served::with(script, |_, world| world.limits.size = 1 << 20).await;
    let error = tool(&served.peer, "big", &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "the answer is over the limit of 1048576 bytes");
    echo(&served.peer, "afterwards").await;
    served.end().await;
}

#[tokio::test]
async fn a_flood_of_stderr_is_drained_and_bounded() {
    let script =
        Script::default().on("tools/call loud", [Step::StderrFlood(20 << 20), Step::Answer]);
    let served = Served::new(script).await;
    tool(&served.peer, "loud", &json!({})).await.unwrap();
    let stderr = served.peer.facts().stderr.clone().unwrap();
    assert!(stderr.text().len() <= 64 << 10);
    served.end().await;
}

#[tokio::test]
async fn a_server_that_closes_its_input_fails_what_is_sent_to_it() {
    let script = Script { ignore_end: true, ..Script::default() };
    let script = script.on("tools/call deaf", [Step::CloseStdin, Step::Answer]);
    let moment = Duration::from_millis(50);
    let served = Served::with(script, |_, world| world.graces.close = moment).await;
    tool(&served.peer, "deaf", &json!({})).await.unwrap();
    let start = Instant::now();
    let error = tool(&served.peer, "echo", &json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Unsent(_)), "{error:?}");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    served.end().await;
}

#[tokio::test]
async fn a_server_that_ignores_sigterm_is_ended_all_the_same() {
    let script = Script { ignore_sigterm: true, ignore_end: true, ..Script::default() };
    let moment = Duration::from_millis(50);
    let served = Served::with(script, |_, world| {
        world.graces.close = moment;
        world.graces.terminate = moment;
    })
    .await;
    echo(&served.peer, "hello").await;
    let pid = served.peer.facts().pid.unwrap();
    within(served.peer.close(LIMIT)).await;
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    served.end().await;
}

#[tokio::test]
async fn an_answer_over_the_limit_that_names_its_call_last_fails_that_call_at_once() {
    let flood = Step::Flood { byte: 'x', times: 2 << 20 };
    let head = Step::Raw(r#"{"jsonrpc":"2.0","result":{"id":1,"text":""#.to_owned());
    let tail = Step::Raw("\"},\"id\":$id}\n".to_owned());
    let script = Script::default().on("tools/call giant", [head, flood, tail]);
    let script = script.on("tools/call silent", []);
    let served = Served::with(script, |_, world| world.limits.size = 1 << 20).await;
    let start = Instant::now();
    let (none, some) = (json!({}), json!({"n": 1}));
    let error = tokio::select! {
        _ = tool(&served.peer, "silent", &none) => panic!("another call was failed"),
        _ = tool(&served.peer, "silent", &some) => panic!("another call was failed"),
        answer = tool(&served.peer, "giant", &none) => answer.unwrap_err(),
    };
    assert!(matches!(error, CallError::TooLarge { .. }), "{error:?}");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    served.end().await;
}

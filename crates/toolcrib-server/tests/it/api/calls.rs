//! Calls over the control API: waiting, streaming, background calls, cancellation and history.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{Credential, TestApi, poll_until};

fn script() -> Script {
    Script::default()
        .on("tools/call far", [Step::Progress { times: 3, every: 20 }, Step::Respond])
        .on("tools/call long", [Step::Sleep(60_000), Step::Respond])
}

#[tokio::test]
async fn dkr_39_progress_is_streamed_while_a_call_runs() {
    let api_server = TestApi::new(&[("one", script(), json!({}))]).await;
    let id = api_server.dialog(json!({})).await;
    let body = json!({"tool": "one__far", "arguments": {}, "with": ["result", "delivered"]});
    let mut events = api_server
        .event_stream(Credential::Socket, &format!("POST dialogs/{id}/calls"), Some(body))
        .await;
    let mut kinds = Vec::new();
    let mut last = Value::Null;
    while let Some((kind, data)) = events.next().await {
        kinds.push(kind);
        last = data;
    }
    assert_eq!(kinds, ["call", "progress", "progress", "progress", "result"]); // DKR-39
    assert_eq!((&last["ok"], &last["server"]), (&json!(true), &json!("one")));
    assert_eq!(last["result"]["content"], last["content"]);
    assert_eq!(last["delivered"]["text"], last["text"]);
    api_server.close().await;
}

#[tokio::test]
async fn call_outcome_sets_report_and_http_status() {
    let api_server = TestApi::new(&[("one", script(), json!({}))]).await;
    let id = api_server.dialog(json!({})).await;
    let path = format!("POST dialogs/{id}/calls");
    for (body, status, kind) in [
        (json!({"tool": "one__echo", "words": [["a", "b"]]}), 200, Value::Null),
        (json!({"tool": "one__fail"}), 200, json!("tool")),
        (json!({"tool": "one__none"}), 404, json!("unknown_tool")),
        (json!({"tool": "one__echo", "arguments": []}), 400, json!("invalid_arguments")),
        (json!({"tool": "one__long", "timeout_ms": 50}), 504, json!("timeout")),
    ] {
        let answer = api_server.send(Credential::Socket, &path, Some(body.clone())).await;
        let report = answer.json();
        assert_eq!((answer.status, &report["error"]["kind"]), (status, &kind), "{body} {report}");
        assert_eq!(report["ok"], kind.is_null(), "{report}");
        for key in
            ["is_error", "text", "content", "structured", "tool", "duration_ms", "attempts", "meta"]
        {
            assert!(report.get(key).is_some(), "{key}");
        }
    }
    let bad = api_server.send(Credential::Socket, &path, Some(json!({"arguments": {}}))).await;
    assert_eq!(bad.status_and_code(), (400, "request.invalid".to_owned()));
    let calls = api_server.get("calls?limit=3").await["calls"].clone();
    let told: Vec<(&Value, &Value)> =
        calls.as_array().unwrap().iter().map(|it| (&it["tool"], &it["ended"])).collect();
    assert_eq!(told[0], (&json!("one__long"), &json!("timeout")));
    assert_eq!(told.len(), 3);
    assert_eq!((&calls[0]["agent"], &calls[0]["dialog"]), (&json!("default"), &json!(id)));
    let below = api_server.get(&format!("calls?below={}", calls[2]["number"])).await;
    assert_eq!(below["calls"].as_array().unwrap().len(), 2);
    api_server.close().await;
}

#[tokio::test]
async fn background_call_runs_until_cancelled() {
    let api_server = TestApi::new(&[("one", script(), json!({}))]).await;
    let id = api_server.dialog(json!({})).await;
    let body = json!({"tool": "one__long"});
    let started = api_server
        .send(
            Credential::Socket,
            &format!("POST dialogs/{id}/calls?wait=false"),
            Some(body.clone()),
        )
        .await;
    assert_eq!(started.status, 202);
    let call = started.json()["call"].clone();
    let one = format!("dialogs/{id}/calls/{call}");
    assert_eq!(api_server.send(Credential::Socket, &format!("GET {one}"), None).await.status, 202);
    assert_eq!(
        api_server.send(Credential::Socket, &format!("DELETE {one}"), None).await.status,
        204
    );
    assert_eq!(
        api_server.send(Credential::Socket, &format!("GET {one}"), None).await.status_and_code().0,
        404
    );
    assert_eq!(
        api_server
            .send(Credential::Socket, &format!("DELETE {one}"), None)
            .await
            .status_and_code()
            .0,
        404
    );
    let cancelled = |api_server: &TestApi| {
        api_server
            .host_fixture
            .log("one")
            .iter()
            .filter(|it| it["method"] == "notifications/cancelled")
            .count()
    };
    poll_until(async || (cancelled(&api_server) == 1).then_some(())).await;
    // A disconnect cancels a call that was waited for.
    let mut events = api_server
        .event_stream(Credential::Socket, &format!("POST dialogs/{id}/calls"), Some(body))
        .await;
    assert_eq!(events.next().await.unwrap().0, "call");
    poll_until(async || {
        let called = api_server.host_fixture.log("one");
        let called = called.iter().filter(|it| it["params"]["name"] == "long").count();
        (called == 2).then_some(())
    })
    .await;
    drop(events);
    poll_until(async || (cancelled(&api_server) == 2).then_some(())).await;
    // The report of a finished background call stays available.
    let body = json!({"tool": "one__echo"});
    let started = api_server
        .send(Credential::Socket, &format!("POST dialogs/{id}/calls?wait=false"), Some(body))
        .await;
    let one = format!("GET dialogs/{id}/calls/{}", started.json()["call"]);
    let done = poll_until(async || {
        Some(api_server.send(Credential::Socket, &one, None).await)
            .filter(|answer| answer.status == 200)
    })
    .await;
    assert_eq!(done.json()["ok"], true);
    api_server.close().await;
}

#[tokio::test]
async fn once_call_returns_the_first_connect_failure() {
    let gone = json!({"command": "/no/such/program", "lifecycle": {"connect": "on_first_call"}});
    let api_server = TestApi::new(&[("one", Script::default(), gone)]).await;
    let id = api_server.dialog(json!({})).await;
    let body = json!({"tool": "one__echo", "once": true});
    let answer =
        api_server.send(Credential::Socket, &format!("POST dialogs/{id}/calls"), Some(body)).await;
    assert_eq!((answer.status, &answer.json()["ok"]), (404, &json!(false)), "{answer:?}");
    api_server.close().await;
}

//! Calls: waited for, followed, started and looked at later, cancelled; and what is remembered of them.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{By, Crib, until};

fn script() -> Script {
    Script::default()
        .on("tools/call far", [Step::Progress { times: 3, every: 20 }, Step::Answer])
        .on("tools/call long", [Step::Sleep(60_000), Step::Answer])
}

#[tokio::test]
async fn dkr_39_progress_is_told_while_a_call_runs() {
    let crib = Crib::new(&[("one", script(), json!({}))]).await;
    let id = crib.dialog(json!({})).await;
    let body = json!({"tool": "one__far", "arguments": {}, "with": ["result", "delivered"]});
    let mut events = crib.stream(By::Socket, &format!("POST dialogs/{id}/calls"), Some(body)).await;
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
    crib.end().await;
}

#[tokio::test]
async fn what_became_of_a_call_is_in_its_report_and_in_the_status() {
    let crib = Crib::new(&[("one", script(), json!({}))]).await;
    let id = crib.dialog(json!({})).await;
    let path = format!("POST dialogs/{id}/calls");
    for (body, status, kind) in [
        (json!({"tool": "one__echo", "words": [["a", "b"]]}), 200, Value::Null),
        (json!({"tool": "one__fail"}), 200, json!("tool")),
        (json!({"tool": "one__none"}), 404, json!("unknown_tool")),
        (json!({"tool": "one__echo", "arguments": []}), 400, json!("invalid_arguments")),
        (json!({"tool": "one__long", "timeout_ms": 50}), 504, json!("timeout")),
    ] {
        let answer = crib.ask(By::Socket, &path, Some(body.clone())).await;
        let report = answer.json();
        assert_eq!((answer.status, &report["error"]["kind"]), (status, &kind), "{body} {report}");
        assert_eq!(report["ok"], kind.is_null(), "{report}");
        for key in
            ["is_error", "text", "content", "structured", "tool", "duration_ms", "attempts", "meta"]
        {
            assert!(report.get(key).is_some(), "{key}");
        }
    }
    let bad = crib.ask(By::Socket, &path, Some(json!({"arguments": {}}))).await;
    assert_eq!(bad.failure(), (400, "request.invalid".to_owned()));
    let calls = crib.get("calls?limit=3").await["calls"].clone();
    let told: Vec<(&Value, &Value)> =
        calls.as_array().unwrap().iter().map(|it| (&it["tool"], &it["ended"])).collect();
    assert_eq!(told[0], (&json!("one__long"), &json!("timeout")));
    assert_eq!(told.len(), 3);
    assert_eq!((&calls[0]["agent"], &calls[0]["dialog"]), (&json!("default"), &json!(id)));
    let below = crib.get(&format!("calls?below={}", calls[2]["number"])).await;
    assert_eq!(below["calls"].as_array().unwrap().len(), 2);
    crib.end().await;
}

#[tokio::test]
async fn a_call_goes_on_by_itself_until_it_is_cancelled() {
    let crib = Crib::new(&[("one", script(), json!({}))]).await;
    let id = crib.dialog(json!({})).await;
    let body = json!({"tool": "one__long"});
    let started = crib
        .ask(By::Socket, &format!("POST dialogs/{id}/calls?wait=false"), Some(body.clone()))
        .await;
    assert_eq!(started.status, 202);
    let call = started.json()["call"].clone();
    let one = format!("dialogs/{id}/calls/{call}");
    assert_eq!(crib.ask(By::Socket, &format!("GET {one}"), None).await.status, 202);
    assert_eq!(crib.ask(By::Socket, &format!("DELETE {one}"), None).await.status, 204);
    assert_eq!(crib.ask(By::Socket, &format!("GET {one}"), None).await.failure().0, 404);
    assert_eq!(crib.ask(By::Socket, &format!("DELETE {one}"), None).await.failure().0, 404);
    let cancelled = |crib: &Crib| {
        crib.scene.log("one").iter().filter(|it| it["method"] == "notifications/cancelled").count()
    };
    until(async || (cancelled(&crib) == 1).then_some(())).await;
    // Whoever goes away cancels the call that he waited for.
    let mut events = crib.stream(By::Socket, &format!("POST dialogs/{id}/calls"), Some(body)).await;
    assert_eq!(events.next().await.unwrap().0, "call");
    until(async || {
        let called = crib.scene.log("one");
        let called = called.iter().filter(|it| it["params"]["name"] == "long").count();
        (called == 2).then_some(())
    })
    .await;
    drop(events);
    until(async || (cancelled(&crib) == 2).then_some(())).await;
    // One that ended is looked at when somebody wants to know.
    let body = json!({"tool": "one__echo"});
    let started =
        crib.ask(By::Socket, &format!("POST dialogs/{id}/calls?wait=false"), Some(body)).await;
    let one = format!("GET dialogs/{id}/calls/{}", started.json()["call"]);
    let done = until(async || {
        Some(crib.ask(By::Socket, &one, None).await).filter(|answer| answer.status == 200)
    })
    .await;
    assert_eq!(done.json()["ok"], true);
    crib.end().await;
}

#[tokio::test]
async fn who_waits_gets_the_first_failure() {
    let gone = json!({"command": "/no/such/program", "lifecycle": {"connect": "on_first_call"}});
    let crib = Crib::new(&[("one", Script::default(), gone)]).await;
    let id = crib.dialog(json!({})).await;
    let body = json!({"tool": "one__echo", "once": true});
    let answer = crib.ask(By::Socket, &format!("POST dialogs/{id}/calls"), Some(body)).await;
    assert_eq!((answer.status, &answer.json()["ok"]), (404, &json!(false)), "{answer:?}");
    crib.end().await;
}

//! Metrics, health and the page.

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};

use super::{By, Crib, until};

/// The value of a sample.
fn value(text: &str, sample: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn dkr_43_counters_move_as_scripted() {
    let script = Script::default()
        .on("tools/call slow", [Step::Sleep(60), Step::Answer])
        .on("tools/call die", [Step::Exit(3)]);
    let own = json!({"session": {"scope": "shared"}});
    let crib = Crib::new(&[("one", script, own)]).await;
    let metrics = async || crib.request(By::Tcp, "GET", "/metrics", &[], None).await;
    let of = r#"{server="one",source="toolcrib.yaml""#;
    let calls = |tool: &str, ended: &str| {
        format!("toolcrib_calls_total{of},tool=\"{tool}\",outcome=\"{ended}\"}}")
    };
    let first = metrics().await;
    assert_eq!(first.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(value(&first.text, &calls("one__slow", "ok")), None);
    let id = crib.dialog(json!({})).await;
    for tool in ["one__slow", "one__slow", "one__fail", "one__made_up"] {
        crib.call(&id, tool, json!({})).await;
    }
    let text = metrics().await.text;
    assert_eq!(value(&text, &calls("one__slow", "ok")), Some(2.0)); // DKR-43
    assert_eq!(value(&text, &calls("one__fail", "tool")), Some(1.0)); // DKR-43: errors
    assert!(!text.contains("made_up"), "names that callers make up are no labels");
    let bucket = |le: &str| {
        value(&text, &format!("toolcrib_call_duration_seconds_bucket{of},le=\"{le}\"}}"))
    };
    assert_eq!((bucket("0.05"), bucket("+Inf")), (Some(1.0), Some(3.0))); // DKR-43: latency
    let sum = value(&text, &format!("toolcrib_call_duration_seconds_sum{of}}}")).unwrap();
    assert!(sum >= 0.12, "{sum}"); // DKR-43
    assert_eq!(value(&text, &format!("toolcrib_server_restarts_total{of}}}")), Some(0.0));
    assert!(value(&text, "process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6));
    assert_eq!(
        (value(&text, "toolcrib_dialogs"), value(&text, "toolcrib_problems")),
        (Some(1.0), Some(0.0))
    );
    assert_eq!(value(&text, "toolcrib_reloads_total"), Some(1.0));
    crib.call(&id, "one__die", json!({})).await;
    let restarts = format!("toolcrib_server_restarts_total{of}}}");
    until(async || value(&metrics().await.text, &restarts).filter(|count| *count >= 1.0)).await; // DKR-43
    crib.end().await;
}

#[tokio::test]
async fn health_and_the_page_are_for_everybody() {
    let besides = json!({"gateway": {"tokens": [{"sha256": "00".repeat(32), "agent": "coder"}]}});
    let crib = Crib::with(&besides, &[]).await;
    for (path, status) in
        [("/healthz", 204), ("/readyz", 204), ("/", 200), ("/metrics", 401), ("/nothing", 404)]
    {
        let answer = crib.request(By::Tcp, "GET", path, &[], None).await;
        assert_eq!(answer.status, status, "{path} {answer:?}");
    }
    let page = crib.request(By::Tcp, "GET", "/", &[], None).await;
    assert!(page.text.contains(&format!("http://{}/mcp", crib.address)), "{}", page.text);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("content-security-policy"), Some("default-src 'none'"));
    crib.end().await;
}

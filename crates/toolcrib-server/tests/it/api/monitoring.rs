//! Metrics, health checks and the index page.

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};

use super::{Credential, TestApi, poll_until};

/// Value of a metric sample.
fn value(text: &str, sample: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn dkr_43_metrics_count_scripted_calls() {
    let script = Script::default()
        .on("tools/call slow", [Step::Sleep(60), Step::Respond])
        .on("tools/call die", [Step::Exit(3)]);
    let own = json!({"session": {"scope": "shared"}});
    let api_server = TestApi::new(&[("one", script, own)]).await;
    let metrics =
        async || api_server.request(Credential::Anonymous, "GET", "/metrics", &[], None).await;
    let of = r#"{server="one",source="toolcrib.yaml""#;
    let calls = |tool: &str, ended: &str| {
        format!("toolcrib_calls_total{of},tool=\"{tool}\",outcome=\"{ended}\"}}")
    };
    let first = metrics().await;
    assert_eq!(first.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(value(&first.text, &calls("one__slow", "ok")), None);
    let id = api_server.dialog(json!({})).await;
    for tool in ["one__slow", "one__slow", "one__fail", "one__made_up"] {
        api_server.call(&id, tool, json!({})).await;
    }
    let text = metrics().await.text;
    assert_eq!(value(&text, &calls("one__slow", "ok")), Some(2.0)); // DKR-43
    assert_eq!(value(&text, &calls("one__fail", "tool")), Some(1.0)); // DKR-43: errors
    assert!(!text.contains("made_up"), "invented tool names are no labels");
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
    api_server.call(&id, "one__die", json!({})).await;
    let restarts = format!("toolcrib_server_restarts_total{of}}}");
    poll_until(async || value(&metrics().await.text, &restarts).filter(|count| *count >= 1.0))
        .await; // DKR-43
    api_server.close().await;
}

#[tokio::test]
async fn health_checks_and_index_page_need_no_token() {
    let extra = json!({"gateway": {"tokens": [{"sha256": "00".repeat(32), "agent": "coder"}]}});
    let api_server = TestApi::with(&extra, &[]).await;
    for (path, status) in
        [("/healthz", 204), ("/readyz", 204), ("/", 200), ("/metrics", 401), ("/nothing", 404)]
    {
        let answer = api_server.request(Credential::Anonymous, "GET", path, &[], None).await;
        assert_eq!(answer.status, status, "{path} {answer:?}");
    }
    let page = api_server.request(Credential::Anonymous, "GET", "/", &[], None).await;
    assert!(page.text.contains(&format!("http://{}/mcp", api_server.address)), "{}", page.text);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("content-security-policy"), Some("default-src 'none'"));
    api_server.close().await;
}

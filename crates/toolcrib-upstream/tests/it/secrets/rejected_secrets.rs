//! Tests of secrets that change in their store: the first refusal invalidates the cache.

use std::sync::{Arc, Mutex};

use toolcrib_testkit::http::{HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_upstream::conn::Conn;

use super::*;

/// A server that accepts one key, in any header or in its URL.
async fn start_key_server(key: &Arc<Mutex<String>>) -> HttpServer {
    let key = Arc::clone(key);
    let server = HttpServer::start(move |request: &ReceivedRequest| {
        let key = key.lock().unwrap().clone();
        let shown = request.header("authorization").or(request.header("x-key"));
        let shown = shown.or(request.path.split_once("?key=").map(|(_, key)| key));
        if shown.and_then(|shown| shown.split(' ').next_back()) != Some(&*key) {
            return ScriptedResponse::status(401);
        }
        let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"}})
            }
            Some("tools/list") => json!({"tools": []}),
            Some("tools/call") => json!({"content": [{"type": "text", "text": key}]}),
            _ => return ScriptedResponse::status(202),
        };
        ScriptedResponse::json(
            json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string(),
        )
    });
    server.await.unwrap()
}

/// A connection whose credentials come from a command, which appends a line to the file `runs` on each run.
fn connect(host: &TestHost, url: &str, auth: &Value) -> Conn {
    let key_file = host.path().join("key");
    let command = format!("echo x >> {}; cat {}", command_log(host).display(), key_file.display());
    let stores = json!({"pass": {"kind": "command", "command": [write_program(host, "print-key", &command)]}});
    let mut entry = json!({"url": url, "protocol": "legacy"});
    entry.as_object_mut().unwrap().extend(auth.as_object().unwrap().clone());
    let text = json!({"version": 1, "host": {"secrets": stores}, "servers": {"it": entry}});
    let mut config = host.config("toolcrib.yaml", &text.to_string());
    host.context.sources.set_stores(&config.host.secrets);
    host.start(config.servers.remove(0))
}

fn command_log(host: &TestHost) -> std::path::PathBuf {
    host.path().join("runs")
}

fn auth_variants() -> [Value; 5] {
    let secret = json!({"secret": "pass:key"});
    [
        json!({"auth": {"kind": "bearer", "token": secret}}),
        json!({"auth": {"kind": "api_key", "key": secret, "header": "X-Key"}}),
        json!({"headers": {"Authorization": secret}}),
        json!({"headers": {"X-Key": secret}}),
        // A URL that contains the key.
        json!({"url": secret}),
    ]
}

#[tokio::test]
async fn rejected_cached_secret_is_fetched_again_and_the_call_retried() {
    for variant in auth_variants() {
        let host = TestHost::new();
        let key = Arc::new(Mutex::new("one".to_owned()));
        let server = start_key_server(&key).await;
        let before = match variant.get("url") {
            Some(_) => server.url("/mcp?key="),
            None => String::new(),
        };
        let change = |to: &str, stored: &str| {
            *key.lock().unwrap() = to.to_owned();
            std::fs::write(host.path().join("key"), format!("{before}{stored}")).unwrap();
        };
        change("one", "one");
        let conn = connect(&host, &server.url("/mcp"), &variant);
        let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
        let call = async || call_tool(&permit.session, "t", &json!({})).await;
        assert_eq!(result_text(&call().await.unwrap()), "one");
        assert_eq!(line_count(&command_log(&host)), 1);
        change("two", "two");
        // Concurrent calls share one lookup.
        let (one, other) = tokio::join!(call(), call());
        assert_eq!(
            (result_text(&one.unwrap()), result_text(&other.unwrap())),
            ("two", "two"),
            "{variant}"
        );
        assert_eq!(line_count(&command_log(&host)), 2, "{variant}");
        // The store's current secret is refused as well, so further calls do not query the store.
        change("three", "two");
        let refused = server.requests().len();
        for _ in 0..3 {
            let error = call().await.unwrap_err();
            assert!(error.to_string().contains("denie") || !error.to_string().contains("two"));
        }
        assert_eq!(line_count(&command_log(&host)), 2, "{variant}");
        assert_eq!(server.requests().len(), refused + 3, "each call sends one request");
        drop((permit, conn));
        host.close().await;
    }
}

#[tokio::test]
async fn new_sessions_use_the_current_secret() {
    let host = TestHost::new();
    let key = Arc::new(Mutex::new("one".to_owned()));
    let server = start_key_server(&key).await;
    std::fs::write(host.path().join("key"), "one").unwrap();
    let first = connect(&host, &server.url("/mcp"), &auth_variants()[0]);
    drop(with_time_limit(first.acquire_session(Demand::Call)).await.unwrap());
    drop(first);
    *key.lock().unwrap() = "two".to_owned();
    std::fs::write(host.path().join("key"), "two").unwrap();
    let next = connect(&host, &server.url("/mcp"), &auth_variants()[0]);
    drop(with_time_limit(next.acquire_without_retry(Demand::Call)).await.unwrap());
    assert_eq!(line_count(&command_log(&host)), 2);
    // A key that is also wrong in the store is an ordinary refusal.
    *key.lock().unwrap() = "three".to_owned();
    let last = connect(&host, &server.url("/mcp"), &auth_variants()[0]);
    let failure = with_time_limit(last.acquire_without_retry(Demand::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Authentication, "{failure}");
    assert_eq!(line_count(&command_log(&host)), 3, "the store is queried once more");
    drop((next, last));
    host.close().await;
}

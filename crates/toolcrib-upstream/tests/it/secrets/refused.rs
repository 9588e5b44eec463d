//! Secrets that change in their store: what is remembered of them ends with the first refusal.

use std::sync::{Arc, Mutex};

use toolcrib_testkit::http::{Asked, HttpServer, Reply};
use toolcrib_upstream::conn::Conn;

use super::*;

/// A server that takes one key, in whichever header, or in its address.
async fn locked(key: &Arc<Mutex<String>>) -> HttpServer {
    let key = Arc::clone(key);
    let server = HttpServer::start(move |asked: &Asked| {
        let key = key.lock().unwrap().clone();
        let shown = asked.header("authorization").or(asked.header("x-key"));
        let shown = shown.or(asked.path.split_once("?key=").map(|(_, key)| key));
        if shown.and_then(|shown| shown.split(' ').next_back()) != Some(&*key) {
            return Reply::status(401);
        }
        let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"}})
            }
            Some("tools/list") => json!({"tools": []}),
            Some("tools/call") => json!({"content": [{"type": "text", "text": key}]}),
            _ => return Reply::status(202),
        };
        Reply::json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
    });
    server.await.unwrap()
}

/// A connection whose credentials a command tells, which notes each time in the file `asked`.
fn start(scene: &Scene, url: &str, auth: &Value) -> Conn {
    let told = scene.path().join("told");
    let tell = format!("echo x >> {}; cat {}", lines_of(scene).display(), told.display());
    let stores = json!({"pass": {"kind": "command", "command": [program(scene, "tell", &tell)]}});
    let mut entry = json!({"url": url, "protocol": "legacy"});
    entry.as_object_mut().unwrap().extend(auth.as_object().unwrap().clone());
    let text = json!({"version": 1, "host": {"secrets": stores}, "servers": {"it": entry}});
    let mut config = scene.config("toolcrib.yaml", &text.to_string());
    scene.world.sources.declare(&config.host.secrets);
    scene.start(config.servers.remove(0))
}

fn lines_of(scene: &Scene) -> std::path::PathBuf {
    scene.path().join("asked")
}

fn ways() -> [Value; 5] {
    let secret = json!({"secret": "pass:key"});
    [
        json!({"auth": {"kind": "bearer", "token": secret}}),
        json!({"auth": {"kind": "api_key", "key": secret, "header": "X-Key"}}),
        json!({"headers": {"Authorization": secret}}),
        json!({"headers": {"X-Key": secret}}),
        // An address with the key in it.
        json!({"url": secret}),
    ]
}

#[tokio::test]
async fn a_remembered_secret_that_is_refused_is_asked_for_again_and_the_call_is_made() {
    for way in ways() {
        let scene = Scene::new();
        let key = Arc::new(Mutex::new("one".to_owned()));
        let server = locked(&key).await;
        let before = match way.get("url") {
            Some(_) => server.url("/mcp?key="),
            None => String::new(),
        };
        let change = |to: &str, told: &str| {
            *key.lock().unwrap() = to.to_owned();
            std::fs::write(scene.path().join("told"), format!("{before}{told}")).unwrap();
        };
        change("one", "one");
        let conn = start(&scene, &server.url("/mcp"), &way);
        let ticket = within(conn.ready(Want::Call)).await.unwrap();
        let call = async || tool(&ticket.session, "t", &json!({})).await;
        assert_eq!(text(&call().await.unwrap()), "one");
        assert_eq!(lines(&lines_of(&scene)), 1);
        change("two", "two");
        // Those at once wait for one answer.
        let (one, other) = tokio::join!(call(), call());
        assert_eq!((text(&one.unwrap()), text(&other.unwrap())), ("two", "two"), "{way}");
        assert_eq!(lines(&lines_of(&scene)), 2, "{way}");
        // What the store says is refused as well: it is not asked for each call.
        change("three", "two");
        let refused = server.requests().len();
        for _ in 0..3 {
            let error = call().await.unwrap_err();
            assert!(error.to_string().contains("denie") || !error.to_string().contains("two"));
        }
        assert_eq!(lines(&lines_of(&scene)), 2, "{way}");
        assert_eq!(server.requests().len(), refused + 3, "and nothing is sent twice");
        drop((ticket, conn));
        scene.close().await;
    }
}

#[tokio::test]
async fn a_session_is_opened_with_what_the_store_says_now() {
    let scene = Scene::new();
    let key = Arc::new(Mutex::new("one".to_owned()));
    let server = locked(&key).await;
    std::fs::write(scene.path().join("told"), "one").unwrap();
    let first = start(&scene, &server.url("/mcp"), &ways()[0]);
    drop(within(first.ready(Want::Call)).await.unwrap());
    drop(first);
    *key.lock().unwrap() = "two".to_owned();
    std::fs::write(scene.path().join("told"), "two").unwrap();
    let next = start(&scene, &server.url("/mcp"), &ways()[0]);
    drop(within(next.first_try(Want::Call)).await.unwrap());
    assert_eq!(lines(&lines_of(&scene)), 2);
    // A key that is wrong in the store, too, is a refusal like any other.
    *key.lock().unwrap() = "three".to_owned();
    let last = start(&scene, &server.url("/mcp"), &ways()[0]);
    let failure = within(last.first_try(Want::Call)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Authentication, "{failure}");
    assert_eq!(lines(&lines_of(&scene)), 3, "asked once more, and not again and again");
    drop((next, last));
    scene.close().await;
}

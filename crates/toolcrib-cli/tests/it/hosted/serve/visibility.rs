//! A principal learns of no server that it has no grant on: denied and unknown servers look the same everywhere.

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::tokens::made;
use super::{Served, within};
use crate::Place;
use crate::hosted::{demo, native};

/// The server that only the owner and `default` may know of.
const HIDDEN: &str = "secretive";

/// A workspace in which the agent `coder` has a grant on `mine` and on nothing else. The other server holds the URI of
/// a resource of `mine`, and a pattern denies one of its tools, so that problems name it.
fn place() -> Place {
    let mut hidden = demo();
    hidden["expose"] = json!({"tools": {"deny": ["fail"]}});
    let file = json!({"version": 1, "servers": {HIDDEN: hidden, "mine": demo()},
        "host": {"grants": {"members": {"coder": {"toolsets": ["mine"]}}}}});
    native(&json!({})).file("toolcrib.yaml", &file.to_string())
}

fn token(place: &Place, args: &[&str]) -> String {
    made(place, args)["token"].as_str().unwrap().to_owned()
}

/// The status and body of an answer, without the time that errors carry and without its chunks' sizes.
async fn answer(served: &Served, head: &str, token: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {length}"
    );
    let told = served.send(&head, body).await;
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let Ok(mut body) = serde_json::from_str::<Value>(body) else { return (status, body.into()) };
    if let Some(error) = body["error"].as_object_mut() {
        error.remove("timestamp");
    }
    (status, body.to_string())
}

/// Every surface that tells of servers.
const PATHS: [&str; 10] = [
    "/api/v1/servers",
    "/api/v1/status",
    "/api/v1/problems",
    "/api/v1/tools?wait=true",
    "/api/v1/resources",
    "/api/v1/prompts",
    "/api/v1/reload",
    "/api/v1/dialogs",
    "/api/v1/why?tool=mine__add",
    "/metrics",
];

#[tokio::test]
async fn principal_is_told_of_no_server_without_a_grant() {
    let place = place();
    let served = Served::start(&place).await;
    let owner = token(&place, &["--owner"]);
    let coder = token(&place, &["--agent", "coder"]);
    let stranger = token(&place, &["--agent", "stranger"]);
    for tool in ["mine__add", "secretive__add"] {
        place.json(&["call", tool, "--args", r#"{"a":1,"b":2}"#]);
    }
    let mut named = Vec::new();
    for path in PATHS {
        let get = format!("GET {path}");
        if answer(&served, &get, &owner, "").await.1.contains(HIDDEN) {
            named.push(path);
        }
        for token in [&coder, &stranger] {
            let (_, told) = answer(&served, &get, token, "").await;
            assert!(!told.contains(HIDDEN), "{path}: {told}");
        }
        let (_, told) = answer(&served, &get, &stranger, "").await;
        let told = told.replace("mine__add", "");
        assert!(!told.contains("`mine`") && !told.contains("\"mine\""), "{path}: {told}");
    }
    let owners = ["/api/v1/servers", "/api/v1/problems", "/api/v1/tools?wait=true"];
    assert_eq!(named[..3], [owners[0], owners[1], owners[2]]);
    assert!(named.contains(&"/api/v1/reload") && named.contains(&"/metrics"), "{named:?}");

    let figures = async |token: &str| -> Value {
        serde_json::from_str(&answer(&served, "GET /api/v1/status", token, "").await.1).unwrap()
    };
    let (all, own, none) = (figures(&owner).await, figures(&coder).await, figures(&stranger).await);
    assert_eq!(
        (&all["servers"], &own["servers"], &none["servers"]),
        (&json!(2), &json!(1), &json!(0))
    );
    assert_eq!((&own["tools"], &none["tools"]), (&json!(7), &json!(0)));
    assert_eq!(none["problems"], 0);
    let (_, metrics) = answer(&served, "GET /metrics", &coder, "").await;
    assert!(metrics.contains("toolcrib_calls_total{server=\"mine\""), "{metrics}");
    assert!(metrics.contains("\ntoolcrib_servers 1\n"), "{metrics}");
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn denied_and_unknown_servers_answer_identically() {
    let place = place();
    let served = Served::start(&place).await;
    let coder = token(&place, &["--agent", "coder"]);
    let stranger = token(&place, &["--agent", "stranger"]);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "it", "version": "0"}}})
    .to_string();
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}})
    .to_string();
    for token in [&coder, &stranger] {
        for (head, body) in [
            ("POST /mcp/{server}", hello.as_str()),
            ("POST /mcp/{server}", discover.as_str()),
            ("GET /mcp/{server}", ""),
            ("DELETE /mcp/{server}", ""),
            ("GET /api/v1/servers/{server}", ""),
            ("POST /api/v1/servers/{server}/refresh", ""),
            ("POST /api/v1/servers/{server}/restart", ""),
            ("GET /api/v1/tools?server={server}", ""),
            ("GET /api/v1/tools?server={server}&wait=true", ""),
            ("GET /api/v1/why?tool={server}__add", ""),
            ("GET /api/v1/why?tool={server}__fail", ""),
            ("GET /api/v1/resources/content?uri=demo://calls&server={server}", ""),
            ("POST /api/v1/prompts/{server}__greet", ""),
        ] {
            let ask = async |server: &str| {
                let head = head.replace("{server}", server);
                let (status, told) = answer(&served, &head, token, body).await;
                (status, told.replace(server, "SERVER"))
            };
            let (denied, unknown) = (ask(HIDDEN).await, ask("absent").await);
            assert_eq!(denied, unknown, "{head}");
            if head.contains("/mcp/") {
                assert_eq!(denied.0, 404, "{head}");
            }
        }
    }
    assert_eq!(answer(&served, "POST /mcp/mine", &coder, &hello).await.0, 200);
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}

/// Reads a stream of events until these words have come.
async fn read_until(stream: &mut TcpStream, told: &mut String, words: &str) {
    within(async {
        let mut part = [0; 4096];
        while !told.contains(words) {
            let length = stream.read(&mut part).await.unwrap();
            assert!(length > 0, "the stream has ended: {told}");
            told.push_str(&String::from_utf8_lossy(&part[..length]));
        }
    })
    .await;
}

#[tokio::test]
async fn event_stream_tells_of_no_server_without_a_grant() {
    let place = place();
    let served = Served::start(&place).await;
    let args: [&[&str]; 3] = [&["--owner"], &["--agent", "coder"], &["--agent", "stranger"]];
    let mut streams = Vec::new();
    for args in args {
        let head =
            format!("GET /api/v1/events HTTP/1.1\r\nAuthorization: Bearer {}", token(&place, args));
        let (mut stream, mut told) = (served.open(&head).await, String::new());
        // From the head on the stream listens.
        read_until(&mut stream, &mut told, "\r\n\r\n").await;
        streams.push((stream, told));
    }
    for server in [HIDDEN, "mine"] {
        place.json(&["server", "restart", server]);
    }
    for deny in ["fail", "slow"] {
        let mut hidden = demo();
        hidden["expose"] = json!({"tools": {"deny": [deny, "image"]}});
        let file = json!({"version": 1, "servers": {HIDDEN: hidden, "mine": demo()},
            "host": {"grants": {"members": {"coder": {"toolsets": ["mine"]}}}}});
        std::fs::write(place.root().join("toolcrib.yaml"), file.to_string()).unwrap();
        place.json(&["reload"]);
    }
    // The last event that each is told: the owner of the second reload, the others of `mine`.
    place.json(&["server", "disable", "mine"]);
    let mut told = Vec::new();
    for (mut stream, mut events) in streams {
        for _ in 0..2 {
            read_until(&mut stream, &mut events, "event: reload").await;
        }
        told.push((stream, events));
    }
    for (place_in_list, (stream, events)) in told.iter_mut().enumerate() {
        match place_in_list {
            2 => read_until(stream, events, "event: published").await,
            _ => read_until(stream, events, "\"state\":\"disabled\"").await,
        }
    }
    let [owner, coder, stranger] = [0, 1, 2].map(|it| told[it].1.as_str());
    for event in ["event: state", "event: problem", "event: solved", "event: reload"] {
        assert!(owner.contains(event), "{event}: {owner}");
    }
    assert!(owner.contains(HIDDEN));
    assert!(coder.contains("toolcrib.yaml#mine") && !coder.contains(HIDDEN), "{coder}");
    assert!(!stranger.contains("toolcrib.yaml#mine") && !stranger.contains(HIDDEN), "{stranger}");
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}

//! Tests that principals learn nothing about servers without a grant: denied and unknown servers are indistinguishable.

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::tokens::create_token;
use super::{ServeProcess, with_time_limit};
use crate::TestWorkspace;
use crate::server_commands::{demo_server, native_workspace};

/// Only the owner and `default` may know this server.
const HIDDEN: &str = "secretive";

/// A workspace in which the agent `coder` has a grant only on `mine`. The other server has a colliding resource URI and
/// a denied tool, so that problems name it.
fn workspace() -> TestWorkspace {
    let mut hidden = demo_server();
    hidden["expose"] = json!({"tools": {"deny": ["fail"]}});
    let file = json!({"version": 1, "servers": {HIDDEN: hidden, "mine": demo_server()},
        "host": {"grants": {"members": {"coder": {"toolsets": ["mine"]}}}}});
    native_workspace(&json!({})).with_file("toolcrib.yaml", &file.to_string())
}

fn token(workspace: &TestWorkspace, args: &[&str]) -> String {
    create_token(workspace, args)["token"].as_str().unwrap().to_owned()
}

/// Status and body of a response, without the time in errors and without chunk sizes.
async fn answer(served: &ServeProcess, head: &str, token: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {length}"
    );
    let report = served.send(&head, body).await;
    let (head, body) = report.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let Ok(mut body) = serde_json::from_str::<Value>(body) else { return (status, body.into()) };
    if let Some(error) = body["error"].as_object_mut() {
        error.remove("timestamp");
    }
    (status, body.to_string())
}

/// Every endpoint that shows servers.
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
async fn servers_without_grant_are_hidden_from_principal() {
    let workspace = workspace();
    let served = ServeProcess::start(&workspace).await;
    let owner = token(&workspace, &["--owner"]);
    let coder = token(&workspace, &["--agent", "coder"]);
    let stranger = token(&workspace, &["--agent", "stranger"]);
    for tool in ["mine__add", "secretive__add"] {
        workspace.json(&["call", tool, "--args", r#"{"a":1,"b":2}"#]);
    }
    let mut named = Vec::new();
    for path in PATHS {
        let get = format!("GET {path}");
        if answer(&served, &get, &owner, "").await.1.contains(HIDDEN) {
            named.push(path);
        }
        for token in [&coder, &stranger] {
            let (_, report) = answer(&served, &get, token, "").await;
            assert!(!report.contains(HIDDEN), "{path}: {report}");
        }
        let (_, report) = answer(&served, &get, &stranger, "").await;
        let report = report.replace("mine__add", "");
        assert!(!report.contains("`mine`") && !report.contains("\"mine\""), "{path}: {report}");
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
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn denied_and_unknown_servers_get_identical_answers() {
    let workspace = workspace();
    let served = ServeProcess::start(&workspace).await;
    let coder = token(&workspace, &["--agent", "coder"]);
    let stranger = token(&workspace, &["--agent", "stranger"]);
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
                let (status, report) = answer(&served, &head, token, body).await;
                (status, report.replace(server, "SERVER"))
            };
            let (denied, unknown) = (ask(HIDDEN).await, ask("absent").await);
            assert_eq!(denied, unknown, "{head}");
            if head.contains("/mcp/") {
                assert_eq!(denied.0, 404, "{head}");
            }
        }
    }
    assert_eq!(answer(&served, "POST /mcp/mine", &coder, &hello).await.0, 200);
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}

/// Reads an event stream until the text has arrived.
async fn read_until(stream: &mut TcpStream, report: &mut String, words: &str) {
    with_time_limit(async {
        let mut part = [0; 4096];
        while !report.contains(words) {
            let length = stream.read(&mut part).await.unwrap();
            assert!(length > 0, "the stream has ended: {report}");
            report.push_str(&String::from_utf8_lossy(&part[..length]));
        }
    })
    .await;
}

#[tokio::test]
async fn event_stream_hides_servers_without_grant() {
    let workspace = workspace();
    let served = ServeProcess::start(&workspace).await;
    let args: [&[&str]; 3] = [&["--owner"], &["--agent", "coder"], &["--agent", "stranger"]];
    let mut streams = Vec::new();
    for args in args {
        let head = format!(
            "GET /api/v1/events HTTP/1.1\r\nAuthorization: Bearer {}",
            token(&workspace, args)
        );
        let (mut stream, mut report) = (served.open(&head).await, String::new());
        // The stream is subscribed once its head has arrived.
        read_until(&mut stream, &mut report, "\r\n\r\n").await;
        streams.push((stream, report));
    }
    for server in [HIDDEN, "mine"] {
        workspace.json(&["server", "restart", server]);
    }
    for deny in ["fail", "slow"] {
        let mut hidden = demo_server();
        hidden["expose"] = json!({"tools": {"deny": [deny, "image"]}});
        let file = json!({"version": 1, "servers": {HIDDEN: hidden, "mine": demo_server()},
            "host": {"grants": {"members": {"coder": {"toolsets": ["mine"]}}}}});
        std::fs::write(workspace.root().join("toolcrib.yaml"), file.to_string()).unwrap();
        workspace.json(&["reload"]);
    }
    // The last event per stream: the second reload for the owner, the state of `mine` for the others.
    workspace.json(&["server", "disable", "mine"]);
    let mut report = Vec::new();
    for (mut stream, mut events) in streams {
        for _ in 0..2 {
            read_until(&mut stream, &mut events, "event: reload").await;
        }
        report.push((stream, events));
    }
    for (place_in_list, (stream, events)) in report.iter_mut().enumerate() {
        match place_in_list {
            2 => read_until(stream, events, "event: published").await,
            _ => read_until(stream, events, "\"state\":\"disabled\"").await,
        }
    }
    let [owner, coder, stranger] = [0, 1, 2].map(|it| report[it].1.as_str());
    for event in ["event: state", "event: problem", "event: solved", "event: reload"] {
        assert!(owner.contains(event), "{event}: {owner}");
    }
    assert!(owner.contains(HIDDEN));
    assert!(coder.contains("toolcrib.yaml#mine") && !coder.contains(HIDDEN), "{coder}");
    assert!(!stranger.contains("toolcrib.yaml#mine") && !stranger.contains(HIDDEN), "{stranger}");
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}

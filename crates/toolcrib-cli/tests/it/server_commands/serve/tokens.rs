//! Tests `toolcrib token` and the host's handling of tokens.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ServeProcess;
use crate::TestWorkspace;
use crate::server_commands::{demo_server, native_workspace};

/// The status of a request with or without a token.
pub(super) async fn status(served: &ServeProcess, path: &str, token: Option<&str>) -> u16 {
    let token = token.map(|token| format!("\r\nAuthorization: Bearer {token}"));
    let answer =
        served.request_head(&format!("GET {path} HTTP/1.1{}", token.unwrap_or_default())).await;
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

pub(super) fn create_token(workspace: &TestWorkspace, args: &[&str]) -> Value {
    let report = workspace.json(&[&["token", "new"], args].concat());
    assert!(report["token"].as_str().unwrap().starts_with("toolcrib_"), "{report}");
    report
}

#[tokio::test]
async fn token_is_valid_from_creation_to_revocation() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    // Without tokens every local client is `default`, and never the owner.
    assert_eq!(status(&served, "/api/v1/servers", None).await, 200);
    assert_eq!(status(&served, "/api/v1/calls", None).await, 403);
    let console = served.line["console"].as_str().unwrap();
    let (_, fresh) = console.split_once("/#token=").unwrap();
    assert_eq!(status(&served, "/api/v1/calls", Some(fresh)).await, 200);

    let (agent, owner) =
        (create_token(&workspace, &["--name", "ci"]), create_token(&workspace, &["--owner"]));
    let secret = |report: &Value| report["token"].as_str().unwrap().to_owned();
    assert_eq!(status(&served, "/api/v1/servers", Some(&secret(&agent))).await, 200);
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
    assert_eq!(status(&served, "/api/v1/servers", Some("toolcrib_guess")).await, 401);
    assert_eq!(status(&served, "/api/v1/calls", Some(&secret(&agent))).await, 403);
    assert_eq!(status(&served, "/api/v1/calls", Some(&secret(&owner))).await, 200);
    // Commands use the socket and need no token.
    assert_eq!(workspace.tools().len(), 7);

    let listed = workspace.json(&["token", "list"]);
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2);
    assert!(!listed.to_string().contains(&secret(&agent)) && !listed.to_string().contains("sha"));
    let ran = workspace.run(&["token", "revoke", "ci"]);
    assert_eq!(ran.out, format!("{} ci is revoked\n", agent["id"].as_str().unwrap()));
    // A running host polls the token file.
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(status(&served, "/api/v1/servers", Some(&secret(&agent))).await, 401);
    assert_eq!(status(&served, "/api/v1/servers", Some(&secret(&owner))).await, 200);
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}

#[test]
fn blank_names_are_rejected() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    for args in [
        &["token", "new", "--agent", ""][..],
        &["token", "new", "--agent", " "],
        &["token", "new", "--name", ""],
        &["token", "new", "--name", "\t"],
        &["token", "revoke", ""],
        &["tools", "--agent", ""],
        &["tools", "--dialog", ""],
        &["tools", "--server", ""],
        &["read", "demo://calls", "--server", ""],
        &["why", "demo__add", "--agent", " "],
        &["call", "", "-a", "x=1"],
        &["login", "demo", "--agent", ""],
        &["server", "restart", ""],
        &["explain", ""],
        &["doctor", ""],
    ] {
        let ran = workspace.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?} {ran:?}");
        assert!(ran.err.contains("the name is empty"), "{args:?} {ran:?}");
    }
    assert_eq!(workspace.json(&["token", "list"])["tokens"], json!([]));
}

#[tokio::test]
async fn blank_agent_parameter_is_rejected() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    for path in ["/mcp", "/mcp/demo", "/sse", "/api/v1/tools"] {
        assert_eq!(status(&served, &format!("{path}?agent="), None).await, 400, "{path}");
        assert_eq!(status(&served, &format!("{path}?agent=%20"), None).await, 400, "{path}");
    }
}

#[tokio::test]
async fn requests_are_rejected_before_configuration_is_read() {
    let (token, hash) = (
        "a-secret-that-only-this-test-has",
        "860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd",
    );
    for _ in 0..5 {
        let file = json!({"version": 1, "servers": {"demo": demo_server()},
            "gateway": {"tokens": [{"sha256": hash, "agent": "ci"}]}});
        let workspace = native_workspace(&json!({})).with_file("toolcrib.yaml", &file.to_string());
        let served = ServeProcess::start(&workspace).await;
        assert_eq!(status(&served, "/api/v1/tools", None).await, 401);
        assert_eq!(status(&served, "/api/v1/tools", Some(token)).await, 200);
    }
}

#[tokio::test]
async fn streams_end_with_revoked_token() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    let secret = |report: Value| report["token"].as_str().unwrap().to_owned();
    let doomed = secret(create_token(&workspace, &["--name", "doomed", "--owner"]));
    let (kept, as_doomed) =
        (secret(create_token(&workspace, &["--name", "kept", "--owner"])), bearer(&doomed));
    // A running host polls the token file.
    tokio::time::sleep(Duration::from_millis(150)).await;
    let stream =
        async |path, bearer| served.request_head(&format!("GET {path} HTTP/1.1{bearer}")).await;
    let events = stream("/api/v1/events", as_doomed.clone());
    let messages = stream("/sse", as_doomed.clone());
    let socket = websocket_output(&served, &as_doomed);
    let others = stream("/api/v1/events", bearer(&kept));
    let revoking = async {
        // Gives the streams time to be accepted.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(workspace.run(&["token", "revoke", "doomed"]).code, 0);
    };
    let ended = async { tokio::join!(events, messages, socket, revoking) };
    let (events, messages, socket, ()) = tokio::select! {
        ended = ended => ended,
        others = others => panic!("another token's stream has ended: {others}"),
    };
    assert!(events.starts_with("HTTP/1.1 200") && messages.contains("event: endpoint"));
    assert!(socket.starts_with("HTTP/1.1 101"), "{socket}");
}

fn bearer(token: &str) -> String {
    format!("\r\nAuthorization: Bearer {token}")
}

/// All bytes of a WebSocket until its end.
pub(super) async fn websocket_output(served: &ServeProcess, bearer: &str) -> String {
    let address = served.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /ws HTTP/1.1{bearer}\r\nHost: {address}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut report = Vec::new();
    super::with_time_limit(stream.read_to_end(&mut report)).await.unwrap();
    String::from_utf8_lossy(&report).into_owned()
}

#[test]
fn token_secret_is_shown_once_with_explanation() {
    let workspace = native_workspace(&json!({}));
    assert!(workspace.run(&["token", "list"]).err.contains("there are no tokens"));
    let ran = workspace.run(&["token", "new", "--agent", "reviewer"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("toolcrib_") && ran.out.lines().count() == 1, "{ran:?}");
    assert!(
        ran.err.contains("authenticates the agent `reviewer`; its secret is shown only once"),
        "{ran:?}"
    );
    assert!(ran.err.contains("from now on HTTP clients need a token"), "{ran:?}");
    let listed = workspace.run(&["token", "list"]).out;
    assert!(listed.contains("reviewer  reviewer") && !listed.contains(ran.out.trim()), "{listed}");
    let ran = workspace.run(&["token", "revoke", "nobody"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("there is no token `nobody`"), "{ran:?}");
}

#[tokio::test]
async fn public_address_with_token_is_served() {
    let workspace = native_workspace(&json!({}));
    create_token(&workspace, &[]);
    let mut child = super::spawn(&workspace, &["serve", "--listen", "0.0.0.0:0", "--json"], &[]);
    use tokio::io::{AsyncBufReadExt, BufReader};
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = super::with_time_limit(lines.next_line()).await.unwrap().expect("the ready line");
    assert!(line.contains("http://0.0.0.0:"), "{line}");
}

//! `toolcrib token`, and what a host makes of one.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Served;
use crate::Place;
use crate::hosted::{demo, native};

/// The status that a request gets, with or without a token.
pub(super) async fn status(served: &Served, path: &str, token: Option<&str>) -> u16 {
    let token = token.map(|token| format!("\r\nAuthorization: Bearer {token}"));
    let answer = served.ask(&format!("GET {path} HTTP/1.1{}", token.unwrap_or_default())).await;
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

pub(super) fn made(place: &Place, args: &[&str]) -> Value {
    let told = place.json(&[&["token", "new"], args].concat());
    assert!(told["token"].as_str().unwrap().starts_with("toolcrib_"), "{told}");
    told
}

#[tokio::test]
async fn a_token_is_good_from_when_it_is_made_until_it_is_revoked() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::start(&place).await;
    // Without tokens everybody on this machine is `default`, and never the owner.
    assert_eq!(status(&served, "/api/v1/servers", None).await, 200);
    assert_eq!(status(&served, "/api/v1/calls", None).await, 403);
    let console = served.line["console"].as_str().unwrap();
    let (_, fresh) = console.split_once("/#token=").unwrap();
    assert_eq!(status(&served, "/api/v1/calls", Some(fresh)).await, 200);

    let (agent, owner) = (made(&place, &["--name", "ci"]), made(&place, &["--owner"]));
    let secret = |told: &Value| told["token"].as_str().unwrap().to_owned();
    assert_eq!(status(&served, "/api/v1/servers", Some(&secret(&agent))).await, 200);
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
    assert_eq!(status(&served, "/api/v1/servers", Some("toolcrib_guess")).await, 401);
    assert_eq!(status(&served, "/api/v1/calls", Some(&secret(&agent))).await, 403);
    assert_eq!(status(&served, "/api/v1/calls", Some(&secret(&owner))).await, 200);
    // Commands come by the socket, and need none.
    assert_eq!(place.tools().len(), 7);

    let listed = place.json(&["token", "list"]);
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2);
    assert!(!listed.to_string().contains(&secret(&agent)) && !listed.to_string().contains("sha"));
    let ran = place.run(&["token", "revoke", "ci"]);
    assert_eq!(ran.out, format!("{} ci is revoked\n", agent["id"].as_str().unwrap()));
    // A host that runs looks only so often.
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(status(&served, "/api/v1/servers", Some(&secret(&agent))).await, 401);
    assert_eq!(status(&served, "/api/v1/servers", Some(&secret(&owner))).await, 200);
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}

#[test]
fn what_names_somebody_or_something_is_not_blank() {
    let place = native(&json!({"demo": demo()}));
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
        let ran = place.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?} {ran:?}");
        assert!(ran.err.contains("it is empty, and names nothing"), "{args:?} {ran:?}");
    }
    assert_eq!(place.json(&["token", "list"])["tokens"], json!([]));
}

#[tokio::test]
async fn nobody_asks_as_an_agent_without_a_name() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::start(&place).await;
    for path in ["/mcp", "/mcp/demo", "/sse", "/api/v1/tools"] {
        assert_eq!(status(&served, &format!("{path}?agent="), None).await, 400, "{path}");
        assert_eq!(status(&served, &format!("{path}?agent=%20"), None).await, 400, "{path}");
    }
}

#[tokio::test]
async fn nobody_comes_in_before_the_file_says_who_may() {
    let (token, hash) = (
        "a-secret-that-only-this-test-has",
        "860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd",
    );
    for _ in 0..5 {
        let file = json!({"version": 1, "servers": {"demo": demo()},
            "gateway": {"tokens": [{"sha256": hash, "agent": "ci"}]}});
        let place = native(&json!({})).file("toolcrib.yaml", &file.to_string());
        let served = Served::start(&place).await;
        assert_eq!(status(&served, "/api/v1/tools", None).await, 401);
        assert_eq!(status(&served, "/api/v1/tools", Some(token)).await, 200);
    }
}

#[tokio::test]
async fn streams_end_with_their_token() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::start(&place).await;
    let secret = |told: Value| told["token"].as_str().unwrap().to_owned();
    let doomed = secret(made(&place, &["--name", "doomed", "--owner"]));
    let (kept, as_doomed) = (secret(made(&place, &["--name", "kept", "--owner"])), bearer(&doomed));
    // A host that runs looks only so often.
    tokio::time::sleep(Duration::from_millis(150)).await;
    let stream = async |path, bearer| served.ask(&format!("GET {path} HTTP/1.1{bearer}")).await;
    let events = stream("/api/v1/events", as_doomed.clone());
    let messages = stream("/sse", as_doomed.clone());
    let socket = talked(&served, &as_doomed);
    let others = stream("/api/v1/events", bearer(&kept));
    let revoking = async {
        // They must have been let in, and nothing tells of that but time.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(place.run(&["token", "revoke", "doomed"]).code, 0);
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

/// What a WebSocket tells until it ends.
pub(super) async fn talked(served: &Served, bearer: &str) -> String {
    let address = served.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /ws HTTP/1.1{bearer}\r\nHost: {address}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = Vec::new();
    super::within(stream.read_to_end(&mut told)).await.unwrap();
    String::from_utf8_lossy(&told).into_owned()
}

#[test]
fn the_secret_is_shown_once_and_people_are_told_what_it_means() {
    let place = native(&json!({}));
    assert!(place.run(&["token", "list"]).err.contains("there are no tokens"));
    let ran = place.run(&["token", "new", "--agent", "reviewer"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("toolcrib_") && ran.out.lines().count() == 1, "{ran:?}");
    assert!(ran.err.contains("stands for the agent `reviewer`; it is shown only now"), "{ran:?}");
    assert!(ran.err.contains("nobody comes in over HTTP without one"), "{ran:?}");
    let listed = place.run(&["token", "list"]).out;
    assert!(listed.contains("reviewer  reviewer") && !listed.contains(ran.out.trim()), "{listed}");
    let ran = place.run(&["token", "revoke", "nobody"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("there is no token `nobody`"), "{ran:?}");
}

#[tokio::test]
async fn with_a_token_others_may_reach_it() {
    let place = native(&json!({}));
    made(&place, &[]);
    let mut child = super::spawn(&place, &["serve", "--listen", "0.0.0.0:0", "--json"], &[]);
    use tokio::io::{AsyncBufReadExt, BufReader};
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = super::within(lines.next_line()).await.unwrap().expect("it is ready");
    assert!(line.contains("http://0.0.0.0:"), "{line}");
}

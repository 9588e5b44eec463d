//! WebSockets against a scripted server.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message as Frame;
use toolcrib_config::Hidden;
use toolcrib_config::model::transport::Transport;
use toolcrib_testkit::websocket::{Act, Greeting, WebSocketServer};
use toolcrib_upstream::transport::{
    CloseReason, Credentials, HttpFault, Incoming, Link, OpenError,
};
use toolcrib_wire::{Limits, Message, method};

use crate::remote::{
    INITIALIZE, Scene, close, closed, expect_result, http_fault, is_about_a_second, message, next,
    notification, remote, request, result,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":"s1","method":"ping"}"#;

async fn open(scene: &Scene, url: &str) -> Result<Link, OpenError> {
    scene.try_open(&Transport::WebSocket(remote(url))).await
}

#[tokio::test]
async fn hol_28_handshake_call_and_a_request_of_the_server_one_message_each() {
    let server = WebSocketServer::start(Greeting::Mcp, |text| match text {
        text if text.contains("initialize\"") => vec![Act::Send(result(1, 1))],
        text if text.contains("tools/call") => {
            vec![Act::Ping, Act::Send(PING.to_owned()), Act::Send(result(2, 2))]
        }
        _ => vec![],
    });
    let server = server.await.unwrap();
    let mut scene = Scene::new();
    scene.credentials = Credentials::Bearer(Hidden::new("t"));
    let mut link = open(&scene, &server.url("/ws")).await.unwrap();
    assert_eq!(server.header("sec-websocket-protocol").as_deref(), Some("mcp"));
    assert_eq!(server.header("authorization").as_deref(), Some("Bearer t"));

    link.outbox.send(request(1, method::INITIALIZE, INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification(method::INITIALIZED)).await.unwrap();
    link.outbox.send(request(2, method::TOOLS_CALL, "{}")).await.unwrap();
    assert!(matches!(message(&mut link).await, Message::Request(ping) if ping.method == "ping"));
    expect_result(&mut link, 2, 2).await;
    close(link).await;

    let received = server.received();
    let texts = received.iter().filter(|frame| frame.is_text()).count();
    assert_eq!(texts, 3, "{received:?}");
    assert!(received.iter().any(Frame::is_pong), "a ping is answered");
    assert!(received.iter().any(Frame::is_close), "the end is told");
}

#[tokio::test]
async fn a_server_that_knows_no_sub_protocol_is_spoken_to_all_the_same() {
    let server = WebSocketServer::start(Greeting::Plain, |_| vec![Act::Send(result(1, 1))]);
    let server = server.await.unwrap();
    let mut link = open(&Scene::new(), &server.url("/ws")).await.unwrap();
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;
}

#[tokio::test]
async fn noise_is_told_and_the_link_goes_on() {
    let server = WebSocketServer::start(Greeting::Mcp, |_| {
        vec![Act::Send("noise".to_owned()), Act::Send(result(1, 1))]
    });
    let server = server.await.unwrap();
    let mut link = open(&Scene::new(), &server.url("/ws")).await.unwrap();
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    assert!(matches!(next(&mut link).await, Incoming::Malformed { .. }));
    expect_result(&mut link, 1, 1).await;
}

async fn end_after(limits: Limits, acts: Vec<Act>) -> CloseReason {
    let server = WebSocketServer::start(Greeting::Mcp, move |_| acts.clone()).await.unwrap();
    let mut scene = Scene::new();
    scene.limits = limits;
    let mut link = open(&scene, &server.url("/ws")).await.unwrap();
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    closed(&mut link).await
}

#[tokio::test]
async fn the_end_of_the_socket_ends_the_link() {
    let limits = Limits::default();
    assert!(matches!(end_after(limits, vec![Act::Close]).await, CloseReason::Ended));
    assert!(matches!(end_after(limits, vec![Act::Cut]).await, CloseReason::Broken(_)));
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_link() {
    let limits = Limits { size: 1000, ..Limits::default() };
    let CloseReason::Broken(fault) = end_after(limits, vec![Act::Send("x".repeat(1001))]).await
    else {
        panic!("broken");
    };
    assert!(fault.cause.to_string().contains("1001 > 1000"), "{fault:?}");
}

async fn refused(scene: &Scene, url: &str) -> String {
    match open(scene, url).await.map(drop).unwrap_err() {
        OpenError::Connect(fault) => http_fault(&fault).to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_wants_other_credentials_says_so() {
    let server = WebSocketServer::start(Greeting::Refuse(401), |_| vec![]).await.unwrap();
    let fault = refused(&Scene::new(), &server.url("/ws")).await;
    let denied = HttpFault::Denied { status: 401, challenge: None };
    assert_eq!(fault, denied.to_string());
}

#[tokio::test]
async fn hol_13_connecting_has_a_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut scene = Scene::new();
    scene.connect_timeout = Duration::from_secs(1);
    for scheme in ["ws", "wss"] {
        let start = Instant::now();
        let fault = refused(&scene, &format!("{scheme}://{}", silent.local_addr().unwrap())).await;
        let took = start.elapsed();
        assert!(is_about_a_second(took), "{took:?}");
        assert_eq!(fault, "the server did not answer within 1 s");
    }
}

//! Tests WebSockets with a scripted server.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message as Frame;
use toolcrib_config::SecretString;
use toolcrib_config::model::transport::Transport;
use toolcrib_testkit::websocket::{HandshakePolicy, SocketAction, WebSocketServer};
use toolcrib_upstream::transport::{
    CloseReason, Credentials, HttpFault, Incoming, Link, OpenError,
};
use toolcrib_wire::{Message, MessageLimits, method};

use crate::link_fixture::{
    INITIALIZE, LinkFixture, close, expect_result, http_fault, is_about_a_second,
    next_close_reason, next_incoming, next_message, notification, remote, request, result_text,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":"s1","method":"ping"}"#;

async fn open(fixture: &LinkFixture, url: &str) -> Result<Link, OpenError> {
    fixture.try_open(&Transport::WebSocket(remote(url))).await
}

#[tokio::test]
async fn hol_28_handshake_call_and_server_request_use_one_frame_each() {
    let server = WebSocketServer::start(HandshakePolicy::RequireMcp, |text| match text {
        text if text.contains("initialize\"") => vec![SocketAction::Send(result_text(1, 1))],
        text if text.contains("tools/call") => {
            vec![
                SocketAction::Ping,
                SocketAction::Send(PING.to_owned()),
                SocketAction::Send(result_text(2, 2)),
            ]
        }
        _ => vec![],
    });
    let server = server.await.unwrap();
    let mut fixture = LinkFixture::new();
    fixture.credentials = Credentials::Bearer(SecretString::new("t"));
    let mut link = open(&fixture, &server.url("/ws")).await.unwrap();
    assert_eq!(server.header("sec-websocket-protocol").as_deref(), Some("mcp"));
    assert_eq!(server.header("authorization").as_deref(), Some("Bearer t"));

    link.outbox.send(request(1, method::INITIALIZE, INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification(method::INITIALIZED)).await.unwrap();
    link.outbox.send(request(2, method::TOOLS_CALL, "{}")).await.unwrap();
    assert!(
        matches!(next_message(&mut link).await, Message::Request(ping) if ping.method == "ping")
    );
    expect_result(&mut link, 2, 2).await;
    close(link).await;

    let received = server.received();
    let texts = received.iter().filter(|frame| frame.is_text()).count();
    assert_eq!(texts, 3, "{received:?}");
    assert!(received.iter().any(Frame::is_pong), "a ping is answered");
    assert!(received.iter().any(Frame::is_close), "a close frame is sent");
}

#[tokio::test]
async fn server_without_sub_protocol_is_accepted() {
    let server = WebSocketServer::start(HandshakePolicy::NoSubprotocol, |_| {
        vec![SocketAction::Send(result_text(1, 1))]
    });
    let server = server.await.unwrap();
    let mut link = open(&LinkFixture::new(), &server.url("/ws")).await.unwrap();
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;
}

#[tokio::test]
async fn malformed_message_is_reported_and_link_continues() {
    let server = WebSocketServer::start(HandshakePolicy::RequireMcp, |_| {
        vec![SocketAction::Send("noise".to_owned()), SocketAction::Send(result_text(1, 1))]
    });
    let server = server.await.unwrap();
    let mut link = open(&LinkFixture::new(), &server.url("/ws")).await.unwrap();
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    assert!(matches!(next_incoming(&mut link).await, Incoming::Malformed { .. }));
    expect_result(&mut link, 1, 1).await;
}

async fn end_after(limits: MessageLimits, acts: Vec<SocketAction>) -> CloseReason {
    let server =
        WebSocketServer::start(HandshakePolicy::RequireMcp, move |_| acts.clone()).await.unwrap();
    let mut fixture = LinkFixture::new();
    fixture.limits = limits;
    let mut link = open(&fixture, &server.url("/ws")).await.unwrap();
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    next_close_reason(&mut link).await
}

#[tokio::test]
async fn closed_socket_ends_link() {
    let limits = MessageLimits::default();
    assert!(matches!(end_after(limits, vec![SocketAction::Close]).await, CloseReason::StreamEnded));
    assert!(matches!(
        end_after(limits, vec![SocketAction::Disconnect]).await,
        CloseReason::Broken(_)
    ));
}

#[tokio::test]
async fn oversized_message_ends_link() {
    let limits = MessageLimits { size: 1000, ..MessageLimits::default() };
    let CloseReason::Broken(fault) =
        end_after(limits, vec![SocketAction::Send("x".repeat(1001))]).await
    else {
        panic!("broken");
    };
    assert!(fault.cause.to_string().contains("1001 > 1000"), "{fault:?}");
}

async fn refused(fixture: &LinkFixture, url: &str) -> String {
    match open(fixture, url).await.map(drop).unwrap_err() {
        OpenError::Connect(fault) => http_fault(&fault).to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn rejected_credentials_are_reported() {
    let server = WebSocketServer::start(HandshakePolicy::Refuse(401), |_| vec![]).await.unwrap();
    let fault = refused(&LinkFixture::new(), &server.url("/ws")).await;
    let denied = HttpFault::Denied { status: 401, challenge: None };
    assert_eq!(fault, denied.to_string());
}

#[tokio::test]
async fn hol_13_connect_timeout_applies() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut fixture = LinkFixture::new();
    fixture.connect_timeout = Duration::from_secs(1);
    for scheme in ["ws", "wss"] {
        let start = Instant::now();
        let fault =
            refused(&fixture, &format!("{scheme}://{}", silent.local_addr().unwrap())).await;
        let elapsed_time = start.elapsed();
        assert!(is_about_a_second(elapsed_time), "{elapsed_time:?}");
        assert_eq!(fault, "the server did not answer within 1 s");
    }
}

//! Tests sessions: session id, listen stream and end.

use std::time::Duration;

use toolcrib_config::Value;
use toolcrib_config::model::transport::Transport;
use toolcrib_testkit::http::{BodyStep, HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_upstream::transport::{CloseReason, HttpFault};
use toolcrib_wire::{Id, Message};

use super::HTTP_MODE;
use crate::link_fixture::{
    INITIALIZE, LinkFixture, close, expect_result, http_fault, next_close_reason, next_failure,
    next_message, notification, request, result_text, streamable,
};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// Opens session `s-1` and accepts notifications. Other requests are left to the test.
fn session_reply(received: &ReceivedRequest) -> Option<ScriptedResponse> {
    match received.method.as_str() {
        "POST" if received.body.contains("\"initialize\"") => {
            Some(ScriptedResponse::json(result_text(1, 1)).header("Mcp-Session-Id", "s-1"))
        }
        "POST" if !received.body.contains("\"id\"") => Some(ScriptedResponse::status(202)),
        "DELETE" => Some(ScriptedResponse::status(200)),
        _ => None,
    }
}

#[tokio::test]
async fn dom_10_configured_session_id_is_sent_from_first_post() {
    for (configured, sent) in [(Some("mine"), Some("mine")), (Some(""), None), (None, None)] {
        let server =
            HttpServer::start(|_| ScriptedResponse::json(result_text(1, 1))).await.unwrap();
        let mut spec = streamable(&server.url("/mcp"));
        spec.session_id = configured.map(Value::literal);
        let mut link =
            LinkFixture::with_http_mode(HTTP_MODE).open(&Transport::StreamableHttp(spec)).await;
        link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
        expect_result(&mut link, 1, 1).await;
        assert_eq!(server.requests()[0].header("mcp-session-id"), sent, "{configured:?}");
    }
}

#[tokio::test]
async fn dom_09_session_id_of_initialize_is_sent_afterwards() {
    let server = HttpServer::start(|received| {
        session_reply(received).unwrap_or_else(|| ScriptedResponse::json(result_text(2, 2)))
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 2, 2).await;

    let received = server.requests();
    let sent = |name| received.iter().map(|received| received.header(name)).collect::<Vec<_>>();
    assert_eq!(sent("mcp-session-id"), [None, Some("s-1")]);
    assert_eq!(sent("mcp-protocol-version"), [None, Some("2025-11-25")]);
}

#[tokio::test]
async fn listen_stream_delivers_server_messages_and_is_reopened() {
    let server = HttpServer::start(|received| {
        session_reply(received).unwrap_or_else(|| match received.header("last-event-id") {
            None => {
                ScriptedResponse::events().send(format!("id: a\nretry: 50\ndata: {CHANGED}\n\n"))
            }
            Some(_) => ScriptedResponse::events().event(CHANGED).then_step(BodyStep::Stall),
        })
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(next_message(&mut link).await, Message::Notification(_)));
    }
    let again = server
        .wait_for_request(|received| received.header("last-event-id") == Some("a"))
        .await
        .unwrap();
    assert_eq!((again.method.as_str(), again.header("mcp-session-id")), ("GET", Some("s-1")));
}

#[tokio::test]
async fn unsupported_listen_stream_is_requested_once() {
    let server = HttpServer::start(|received| {
        session_reply(received).unwrap_or_else(|| ScriptedResponse::status(405))
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    server.wait_for_request(|received| received.method == "GET").await.unwrap();
    // Longer than the first retry delay of one second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let gets = server.requests().iter().filter(|received| received.method == "GET").count();
    assert_eq!(gets, 1);
}

#[tokio::test]
async fn not_found_on_get_keeps_session() {
    let server = HttpServer::start(|received| match received.method.as_str() {
        "GET" => ScriptedResponse::status(404),
        _ => session_reply(received).unwrap_or_else(|| ScriptedResponse::json(result_text(2, 2))),
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    server.wait_for_request(|received| received.method == "GET").await.unwrap();
    link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 2, 2).await;
    close(link).await;
}

#[tokio::test]
async fn dis_16_hol_15_close_deletes_session_if_configured() {
    for terminate in [true, false] {
        let server = HttpServer::start(|received| {
            session_reply(received).unwrap_or_else(|| ScriptedResponse::status(405))
        });
        let server = server.await.unwrap();
        let mut spec = streamable(&server.url("/mcp"));
        spec.terminate_on_close = terminate;
        let mut link =
            LinkFixture::with_http_mode(HTTP_MODE).open(&Transport::StreamableHttp(spec)).await;
        link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
        expect_result(&mut link, 1, 1).await;
        close(link).await;
        let received = server.requests();
        let ended = received.iter().find(|received| received.method == "DELETE");
        assert_eq!(ended.is_some(), terminate);
        if let Some(ended) = ended {
            assert_eq!(ended.header("mcp-session-id"), Some("s-1"));
        }
    }
}

#[tokio::test]
async fn close_without_session_sends_no_delete() {
    let server = HttpServer::start(|_| ScriptedResponse::json(result_text(1, 1))).await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    close(link).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn queued_messages_are_sent_before_close() {
    let server = HttpServer::start(|received| {
        session_reply(received).unwrap_or_else(|| ScriptedResponse::status(405))
    });
    let server = server.await.unwrap();
    let link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    for n in 0..20 {
        link.outbox.send(notification(&format!("notifications/n{n}"))).await.unwrap();
    }
    close(link).await;
    assert_eq!(server.requests().len(), 20);
}

#[tokio::test]
async fn lost_configured_session_is_replaced() {
    let server = HttpServer::start(|received| match received.header("mcp-session-id") {
        Some("old") => ScriptedResponse::status(404),
        _ => session_reply(received).unwrap_or_else(|| ScriptedResponse::json(result_text(2, 2))),
    });
    let server = server.await.unwrap();
    let mut spec = streamable(&server.url("/mcp"));
    spec.session_id = Some(Value::literal("old"));
    let mut link =
        LinkFixture::with_http_mode(HTTP_MODE).open(&Transport::StreamableHttp(spec)).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 2, 2).await;
    close(link).await;
    let received = server.requests();
    let sessions: Vec<_> =
        received.iter().map(|received| received.header("mcp-session-id")).collect();
    assert_eq!(sessions[..3], [Some("old"), None, Some("s-1")]);
}

#[tokio::test]
async fn lost_session_ends_link_without_replay() {
    let server = HttpServer::start(|received| {
        session_reply(received).unwrap_or_else(|| ScriptedResponse::status(404))
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(request(2, "tools/call", "{}")).await.unwrap();

    let (id, fault) = next_failure(&mut link).await;
    assert_eq!(id, Id::from(2));
    assert!(matches!(http_fault(&fault), HttpFault::SessionGone));
    let CloseReason::Broken(fault) = next_close_reason(&mut link).await else { panic!("broken") };
    assert!(http_fault(&fault).to_string().contains("has to be initialised again"));
    close(link).await;
    let methods: Vec<_> =
        server.requests().iter().map(|received| received.method.clone()).collect();
    assert_eq!(methods, ["POST", "POST"], "neither a replay nor a DELETE");
}

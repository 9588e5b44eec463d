//! Tests request headers and the forms of responses.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use toolcrib_config::model::auth::Auth;
use toolcrib_config::model::transport::Transport;
use toolcrib_config::{SecretString, Value};
use toolcrib_testkit::http::{BodyStep, HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_upstream::transport::{
    Credentials, Incoming, Outgoing, OutgoingKind, OutgoingMessage,
};
use toolcrib_wire::header::Header;
use toolcrib_wire::{Id, Message, Packet, Version, build};

use super::HTTP_MODE;
use crate::link_fixture::{
    LinkFixture, TEST_TIMEOUT, cancelled, expect_result, headers, http_fault, large_request,
    next_answer, next_failure, next_incoming, next_message, notification, request, result_text,
    streamable,
};

const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;

#[tokio::test]
async fn dis_48_hol_29_response_may_be_one_message_or_event_stream() {
    let server = HttpServer::start(|received| match received.body.contains("\"id\":1") {
        true => ScriptedResponse::json(result_text(1, 10)),
        false => ScriptedResponse::events().event(PROGRESS).event(&result_text(2, 20)),
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;

    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    expect_result(&mut link, 1, 10).await;

    link.outbox.send(request(2, "tools/call", "{}")).await.unwrap();
    let Incoming::Packet { packet: Packet::One(Message::Notification(first)), on } =
        next_incoming(&mut link).await
    else {
        panic!("expected the progress first");
    };
    assert_eq!((first.method.as_str(), on), ("notifications/progress", Some(Id::from(2))));
    expect_result(&mut link, 2, 20).await;
}

#[tokio::test]
async fn dom_09_configured_url_headers_and_version_are_sent() {
    let server = HttpServer::start(|_| ScriptedResponse::json(result_text(1, 1))).await.unwrap();
    let mut spec = streamable(&server.url("/deep/mcp?tenant=a"));
    spec.remote.headers = headers(&[("X-Team", "tools"), ("Accept", "nothing")]);
    let mut link =
        LinkFixture::with_http_mode(HTTP_MODE).open(&Transport::StreamableHttp(spec)).await;
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;

    let received = server.requests().remove(0);
    assert_eq!((received.method.as_str(), received.path.as_str()), ("POST", "/deep/mcp?tenant=a"));
    assert_eq!(received.body, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#);
    for (name, value) in [
        ("x-team", Some("tools")),
        ("content-type", Some("application/json")),
        ("accept", Some("application/json, text/event-stream")),
        ("mcp-protocol-version", Some("2025-11-25")),
        ("mcp-method", None),
        ("mcp-session-id", None),
        ("referer", None),
    ] {
        assert_eq!(received.header(name), value, "{name}");
    }
}

async fn request_sent_with(credentials: Credentials) -> ReceivedRequest {
    let server = HttpServer::start(|_| ScriptedResponse::json(result_text(1, 1))).await.unwrap();
    let mut fixture = LinkFixture::with_http_mode(HTTP_MODE);
    fixture.credentials = credentials;
    let mut link = fixture.http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    server.requests().remove(0)
}

fn credentials_from(auth: &Auth) -> Credentials {
    Credentials::from_auth(auth, &|_| Some("s3cret".to_owned())).unwrap()
}

#[tokio::test]
async fn min_15_no_credentials_are_sent_without_configuration() {
    let received = request_sent_with(credentials_from(&Auth::None)).await;
    assert_eq!(received.header("authorization"), None);
    assert_eq!(received.header("x-api-key"), None);
}

#[tokio::test]
async fn min_16_bearer_token_is_sent() {
    let token = Value::Secret { provider: "vault".to_owned(), path: "mcp".to_owned() };
    let received = request_sent_with(credentials_from(&Auth::Bearer { token })).await;
    assert_eq!(received.header("authorization"), Some("Bearer s3cret"));
}

#[tokio::test]
async fn min_17_api_key_is_sent_in_configured_header() {
    for (configured_as, seen_as) in [("X-API-Key", "x-api-key"), ("X-Team-Key", "x-team-key")] {
        let auth = Auth::ApiKey { key: Value::literal("s3cret"), header: configured_as.to_owned() };
        let received = request_sent_with(credentials_from(&auth)).await;
        assert_eq!(received.header(seen_as), Some("s3cret"));
        assert_eq!(received.header("authorization"), None);
    }
}

#[test]
fn credentials_debug_output_is_masked() {
    let shown = format!("{:?}", Credentials::Bearer(SecretString::new("s3cret")));
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn modern_requests_repeat_method_and_name_in_headers_without_session() {
    let server = HttpServer::start(|_| {
        ScriptedResponse::json(result_text(1, 1)).header("mcp-session-id", "s")
    });
    let server = server.await.unwrap();
    let mut spec = streamable(&server.url("/mcp"));
    spec.session_id = Some(Value::literal("configured"));
    let mut link =
        LinkFixture::with_http_mode(HTTP_MODE).open(&Transport::StreamableHttp(spec)).await;
    let id = Id::from(1);
    let call = OutgoingMessage {
        raw: build::request(&id, "tools/call", None),
        kind: OutgoingKind::Request {
            id, method: "tools/call".into(), name: Some("größe".into())
        },
        version: Some(Version::V2026_07_28),
        headers: vec![Header { name: "mcp-param-region".into(), value: "eu".to_owned() }],
    };
    link.outbox.send(Outgoing::Message(call)).await.unwrap();
    expect_result(&mut link, 1, 1).await;

    let received = server.requests().remove(0);
    assert_eq!(received.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(received.header("mcp-method"), Some("tools/call"));
    assert_eq!(received.header("mcp-name"), Some("=?base64?Z3LDtsOfZQ==?="));
    assert_eq!(received.header("mcp-param-region"), Some("eu"));
    assert_eq!(received.header("mcp-session-id"), None);
}

#[tokio::test]
async fn unread_response_stream_does_not_block_other_calls() {
    let server = HttpServer::start(|received| match received.body.contains("\"slow\"") {
        true => ScriptedResponse::events().event(PROGRESS).then_step(BodyStep::Stall),
        false => ScriptedResponse::json(result_text(99, 1)),
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    for id in 1..=40 {
        link.outbox.send(request(id, "slow", "{}")).await.unwrap();
    }
    for _ in 1..=40 {
        assert!(matches!(next_message(&mut link).await, Message::Notification(_)));
    }
    link.outbox.send(request(99, "quick", "{}")).await.unwrap();
    expect_result(&mut link, 99, 1).await;
}

#[tokio::test]
async fn abandoned_request_closes_only_its_stream() {
    let server = HttpServer::start(|_| {
        ScriptedResponse::events().event(PROGRESS).then_step(BodyStep::Stall)
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    for id in [1, 2] {
        link.outbox.send(request(id, "tools/call", "{}")).await.unwrap();
        next_message(&mut link).await;
    }
    assert!(server.wait_for_open_responses(2).await);
    link.outbox.send(Outgoing::Abandon(Id::from(1))).await.unwrap();
    assert!(server.wait_for_open_responses(1).await);
}

#[tokio::test]
async fn requests_wait_for_initialized_notification() {
    let server = HttpServer::start(|received| match received.body.contains("initialized") {
        true => ScriptedResponse::status(202).delayed(Duration::from_millis(300)),
        false if received.method == "GET" => ScriptedResponse::status(405),
        false => ScriptedResponse::json(result_text(1, 1)),
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    let start = Instant::now();
    expect_result(&mut link, 1, 1).await;
    assert!(
        start.elapsed() >= Duration::from_millis(300),
        "the request waited for the notification"
    );
    assert!(server.requests()[0].body.contains("notifications/initialized"));
}

/// A large request takes longer to arrive than its small cancellation.
#[tokio::test]
async fn cancellation_is_sent_after_its_request() {
    let server = HttpServer::start(|received| match received.body.len() {
        0..999 => ScriptedResponse::status(202),
        _ => ScriptedResponse::events().then_step(BodyStep::Stall),
    });
    let server = server.await.unwrap();
    let link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(large_request(1)).await.unwrap();
    link.outbox.send(cancelled(1)).await.unwrap();
    link.outbox.send(Outgoing::Abandon(Id::from(1))).await.unwrap();
    let arrived =
        server.wait_for_request(|received| received.body.contains("notifications/cancelled")).await;
    arrived.unwrap();
    let order: Vec<_> =
        server.requests().iter().map(|received| received.body.len() > 999).collect();
    assert_eq!(order, [true, false], "the request arrives first");
    assert!(server.wait_for_open_responses(0).await, "its response stream is closed");
}

#[tokio::test]
async fn pending_cancellations_are_bounded() {
    let server = HttpServer::start(|_| ScriptedResponse::unanswered()).await.unwrap();
    let link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    let send = async |message| timeout(Duration::from_secs(1), link.outbox.send(message)).await;
    for id in 0..400 {
        if send(request(id, "tools/call", "{}")).await.is_err()
            || send(cancelled(id)).await.is_err()
        {
            return;
        }
    }
    panic!("the number of cancellations is unbounded");
}

#[tokio::test]
async fn dis_49_broken_stream_is_resumed_with_last_event_id_after_retry_delay() {
    let server = HttpServer::start(|received| match received.header("last-event-id") {
        None => ScriptedResponse::events()
            .send("id: e1\nretry: 300\ndata:\n\n")
            .send(format!("id: e2\ndata: {PROGRESS}\n\n"))
            .then_step(BodyStep::Reset),
        Some("e2") => ScriptedResponse::events().send("id: e3\ndata:\n\n"),
        Some("e3") => {
            ScriptedResponse::events().send(format!("id: e4\ndata: {}\n\n", result_text(1, 7)))
        }
        Some(other) => panic!("{other}"),
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    let start = Instant::now();
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    assert!(matches!(next_message(&mut link).await, Message::Notification(_)));
    expect_result(&mut link, 1, 7).await;
    let elapsed_time = start.elapsed();
    assert!(
        (Duration::from_millis(600)..TEST_TIMEOUT / 2).contains(&elapsed_time),
        "two retry delays: {elapsed_time:?}"
    );

    let received = server.requests();
    let methods: Vec<_> = received.iter().map(|received| received.method.as_str()).collect();
    assert_eq!(methods, ["POST", "GET", "GET"], "the call itself is not repeated");
    assert_eq!(received[1].header("accept"), Some("text/event-stream"));
    assert_eq!(received[1].header("mcp-protocol-version"), Some("2025-11-25"));
}

#[tokio::test]
async fn modern_streams_are_not_resumed() {
    let server =
        HttpServer::start(|_| ScriptedResponse::events().send("id: e1\nretry: 1\ndata:\n\n"))
            .await
            .unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    let Outgoing::Message(mut call) = request(1, "tools/call", "{}") else { unreachable!() };
    call.version = Some(Version::V2026_07_28);
    link.outbox.send(Outgoing::Message(call)).await.unwrap();
    let (id, fault) = next_failure(&mut link).await;
    assert_eq!(id, Id::from(1));
    assert_eq!(
        http_fault(&fault).to_string(),
        "the server ended the response without an answer to the request"
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn json_rpc_error_with_error_status_reaches_call() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"header mismatch"}}"#;
    let server = HttpServer::start(move |_| {
        ScriptedResponse::status(400).header("content-type", "application/json").send(error)
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    let Message::Response(response) = next_message(&mut link).await else {
        panic!("expected a response")
    };
    assert_eq!(response.into_result().unwrap_err().code, -32020);
}

#[tokio::test]
async fn redirect_within_origin_resends_message() {
    let server = HttpServer::start(|received| match received.path.as_str() {
        "/mcp" => ScriptedResponse::status(307).header("location", "/mcp/"),
        _ => ScriptedResponse::json(result_text(1, 1)),
    });
    let server = server.await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    let (id, _) = next_answer(&mut link).await;
    assert_eq!(id, Id::from(1));
    let received = server.requests();
    assert_eq!((received[1].path.as_str(), &received[1].body), ("/mcp/", &received[0].body));
}

#[tokio::test]
async fn closed_link_reports_close_last() {
    let server =
        HttpServer::start(|_| ScriptedResponse::events().then_step(BodyStep::Stall)).await.unwrap();
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    assert!(server.wait_for_open_responses(1).await);
    let closing = link.closer.close(Duration::from_secs(1));
    let (_, reason) = tokio::join!(closing, async {
        match link.inbox.recv().await {
            Some(Incoming::Closed(reason)) => reason.to_string(),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(reason, "Transport closed");
    assert!(server.wait_for_open_responses(0).await);
}

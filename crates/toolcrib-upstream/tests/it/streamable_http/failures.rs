//! Tests failing servers and networks: calls fail in bounded time, and the link continues.

use std::time::{Duration, Instant};

use toolcrib_config::SecretString;
use toolcrib_config::model::transport::Transport;
use toolcrib_testkit::http::{BodyStep, HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_upstream::transport::{Credentials, HttpFault, Incoming, Link, LinkFault, OpenError};
use toolcrib_wire::{Id, MessageLimits};

use super::HTTP_MODE;
use crate::link_fixture::{
    LinkFixture, TEST_TIMEOUT, chain, expect_result, headers, http_fault, is_about_a_second,
    next_failure, next_incoming, request, result_text, streamable,
};

/// A server that answers the method `bad` with the given reply and others successfully.
async fn server(bad: impl Fn() -> ScriptedResponse + Send + Sync + 'static) -> HttpServer {
    let script = move |received: &ReceivedRequest| match received.body.contains("\"bad\"") {
        true => bad(),
        false => ScriptedResponse::json(result_text(2, 2)),
    };
    HttpServer::start(script).await.unwrap()
}

/// Returns the fault of one call, and checks that the next call on the link succeeds.
async fn single_call_fault(
    fixture: &LinkFixture,
    bad: impl Fn() -> ScriptedResponse + Send + Sync + 'static,
) -> LinkFault {
    let server = server(bad).await;
    let mut link = fixture.http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    let (id, fault) = next_failure(&mut link).await;
    assert_eq!(id, Id::from(1));
    check_next_call(&mut link).await;
    let received = server.requests();
    assert_eq!(
        received.iter().filter(|received| received.body.contains("\"bad\"")).count(),
        1,
        "replayed"
    );
    fault
}

async fn check_next_call(link: &mut Link) {
    link.outbox.send(request(2, "good", "{}")).await.unwrap();
    expect_result(link, 2, 2).await;
}

#[tokio::test]
async fn dis_49_missing_credentials_error_has_server_challenge() {
    let denied = || {
        ScriptedResponse::status(401)
            .header("www-authenticate", "Bearer resource_metadata=\"http://x\"")
    };
    let fault = single_call_fault(&LinkFixture::with_http_mode(HTTP_MODE), denied).await;
    let HttpFault::Denied { status: 401, challenge: Some(challenge) } = http_fault(&fault) else {
        panic!("{fault:?}");
    };
    assert_eq!(challenge, "Bearer resource_metadata=\"http://x\"");
    let fault = single_call_fault(&LinkFixture::with_http_mode(HTTP_MODE), || {
        ScriptedResponse::status(403)
    })
    .await;
    assert!(matches!(http_fault(&fault), HttpFault::Denied { status: 403, challenge: None }));
}

#[tokio::test]
async fn rate_limit_error_has_retry_after() {
    let fault = single_call_fault(&LinkFixture::with_http_mode(HTTP_MODE), || {
        ScriptedResponse::status(429).header("retry-after", "17")
    })
    .await;
    let HttpFault::RateLimited { retry_after } = http_fault(&fault) else { panic!("{fault:?}") };
    assert_eq!(*retry_after, Some(Duration::from_secs(17)));
}

#[tokio::test]
async fn error_status_fault_has_body_excerpt() {
    let fault = single_call_fault(&LinkFixture::with_http_mode(HTTP_MODE), || {
        ScriptedResponse::status(500).send("out of\n memory")
    })
    .await;
    assert_eq!(
        chain(&fault),
        "cannot get an answer from the server: the server answered with status 500: out of memory"
    );
    let fault = single_call_fault(&LinkFixture::with_http_mode(HTTP_MODE), || {
        ScriptedResponse::status(404)
    })
    .await;
    assert!(matches!(http_fault(&fault), HttpFault::Status { status: 404, .. }));
}

#[tokio::test]
async fn response_without_json_rpc_fails_call_at_once() {
    let page =
        || ScriptedResponse::status(200).header("content-type", "text/html").send("<p>hello");
    let fault = single_call_fault(&LinkFixture::with_http_mode(HTTP_MODE), page).await;
    assert!(matches!(http_fault(&fault), HttpFault::ContentType(found) if found == "text/html"));
    let fault = single_call_fault(&LinkFixture::with_http_mode(HTTP_MODE), || {
        ScriptedResponse::status(202)
    })
    .await;
    assert!(matches!(http_fault(&fault), HttpFault::NoResponse));
}

#[tokio::test]
async fn response_to_another_call_fails_own_call() {
    let server = server(|| ScriptedResponse::json(result_text(7, 7))).await;
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    expect_result(&mut link, 7, 7).await;
    let (id, fault) = next_failure(&mut link).await;
    assert_eq!(id, Id::from(1));
    assert!(matches!(http_fault(&fault), HttpFault::NoResponse), "{fault:?}");
    check_next_call(&mut link).await;
}

#[tokio::test]
async fn malformed_body_is_reported_on_its_call() {
    let server = server(|| ScriptedResponse::json("<p>oops")).await;
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    let Incoming::Malformed { on, .. } = next_incoming(&mut link).await else {
        panic!("malformed")
    };
    assert_eq!(on, Some(Id::from(1)));
    check_next_call(&mut link).await;
}

#[tokio::test]
async fn connection_lost_before_response_fails_call() {
    for broken in [
        || ScriptedResponse::events().send(": hello\n\n").then_step(BodyStep::Reset),
        || ScriptedResponse::json("{\"jsonrpc\":").then_step(BodyStep::Reset),
    ] {
        let fault = single_call_fault(&LinkFixture::with_http_mode(HTTP_MODE), broken).await;
        assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");
    }
}

#[tokio::test]
async fn stalled_body_fails_call() {
    let mut fixture = LinkFixture::with_http_mode(HTTP_MODE);
    fixture.sse_read_timeout = Duration::from_millis(300);
    let start = Instant::now();
    let fault = single_call_fault(&fixture, || {
        ScriptedResponse::json("{\"jsonrpc\":").then_step(BodyStep::Stall)
    })
    .await;
    assert!(matches!(http_fault(&fault), HttpFault::ReadTimeout(_)), "{fault:?}");
    assert!(start.elapsed() < TEST_TIMEOUT / 2);
}

#[tokio::test]
async fn hol_14_silent_stream_fails_and_comments_keep_it_alive() {
    let mut fixture = LinkFixture::with_http_mode(HTTP_MODE);
    fixture.sse_read_timeout = Duration::from_secs(2);
    let fault = single_call_fault(&fixture, || {
        ScriptedResponse::events().send(": hello\n\n").then_step(BodyStep::Stall)
    })
    .await;
    assert!(matches!(http_fault(&fault), HttpFault::ReadTimeout(_)), "{fault:?}");

    let alive = || {
        let mut reply = ScriptedResponse::events();
        for _ in 0..4 {
            reply = reply.then_step(BodyStep::Pause(Duration::from_millis(700))).send(":\n\n");
        }
        reply.event(&result_text(1, 1))
    };
    let server = server(alive).await;
    let mut link = fixture.http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;
}

#[tokio::test]
async fn hol_13_silent_server_fails_after_connect_timeout() {
    let server = HttpServer::start(|_| ScriptedResponse::unanswered()).await.unwrap();
    let mut fixture = LinkFixture::with_http_mode(HTTP_MODE);
    fixture.connect_timeout = Duration::from_secs(1);
    let mut link = fixture.http(&server.url("/mcp")).await;
    let start = Instant::now();
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    let (_, fault) = next_failure(&mut link).await;
    let elapsed_time = start.elapsed();
    assert!(is_about_a_second(elapsed_time), "{elapsed_time:?}");
    assert_eq!(
        chain(&fault),
        "cannot get an answer from the server: the server did not answer within 1 s"
    );
}

#[tokio::test]
async fn connect_timeout_does_not_limit_later_calls() {
    let server = server(ScriptedResponse::unanswered).await;
    let mut fixture = LinkFixture::with_http_mode(HTTP_MODE);
    fixture.connect_timeout = Duration::from_millis(200);
    let mut link = fixture.http(&server.url("/mcp")).await;
    check_next_call(&mut link).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_millis(600), link.inbox.recv()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

#[tokio::test]
async fn unreachable_address_fails_call_without_secrets() {
    let address =
        HttpServer::start(|_| ScriptedResponse::unanswered()).await.unwrap().url("/mcp?key=s3cret");
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&address).await;
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    let (_, fault) = next_failure(&mut link).await;
    assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");
    let shown = format!("{fault:?} {}", chain(&fault));
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn cross_origin_redirect_is_reported_and_not_followed() {
    let elsewhere = HttpServer::start(|_| ScriptedResponse::json(result_text(1, 1))).await.unwrap();
    let location = elsewhere.url("/mcp?token=s3cret");
    let mut fixture = LinkFixture::with_http_mode(HTTP_MODE);
    fixture.credentials = Credentials::Bearer(SecretString::new("s3cret"));
    for status in [302, 307, 308] {
        let location = location.clone();
        let fault = single_call_fault(&fixture, move || {
            ScriptedResponse::status(status).header("location", &location)
        })
        .await;
        let HttpFault::Redirected { to } = http_fault(&fault) else { panic!("{fault:?}") };
        assert_eq!(*to, elsewhere.url("/mcp"));
    }
    assert_eq!(elsewhere.requests(), []);
}

#[tokio::test]
async fn oversized_response_fails_call() {
    let mut fixture = LinkFixture::with_http_mode(HTTP_MODE);
    fixture.limits = MessageLimits { size: 1000, ..MessageLimits::default() };
    let large = || format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(1000));
    let fault = single_call_fault(&fixture, move || ScriptedResponse::json(large())).await;
    assert!(matches!(http_fault(&fault), HttpFault::TooLarge { limit: 1000 }), "{fault:?}");

    let server = server(move || ScriptedResponse::events().event(&large())).await;
    let mut link = fixture.http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    let Incoming::Malformed { fault, on } = next_incoming(&mut link).await else {
        panic!("malformed")
    };
    assert_eq!((fault.id, on), (Some(Id::from(1)), Some(Id::from(1))));
    check_next_call(&mut link).await;
}

#[tokio::test]
async fn disallowed_url_is_rejected_before_sending() {
    let mut fixture = LinkFixture::with_http_mode(HTTP_MODE);
    let open = async |fixture: &LinkFixture, url: &str| {
        let spec = Transport::StreamableHttp(streamable(url));
        fixture.try_open(&spec).await.map(drop).unwrap_err()
    };
    let error = open(&fixture, "http://example.com/mcp?key=s3cret").await;
    assert_eq!(error.code(), "url.not_allowed");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    for url in ["nowhere", "ftp://127.0.0.1/", "ws://127.0.0.1/"] {
        assert_eq!(open(&fixture, url).await.code(), "url.invalid", "{url}");
    }
    fixture.may_use_network = false;
    assert!(matches!(open(&fixture, "http://127.0.0.1/").await, OpenError::NetworkForbidden));
}

#[tokio::test]
async fn invalid_header_is_named_without_its_value() {
    let mut spec = streamable("http://127.0.0.1/");
    spec.remote.headers = headers(&[("X-Key", "s3cret\nX-Other: 1")]);
    let error = LinkFixture::with_http_mode(HTTP_MODE)
        .try_open(&Transport::StreamableHttp(spec))
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(error.to_string(), "the header `X-Key` cannot be sent");
    assert_eq!(error.code(), "header.invalid");
}

#[tokio::test]
async fn https_url_of_plain_server_fails_call() {
    let server = HttpServer::start(|_| ScriptedResponse::json(result_text(1, 1))).await.unwrap();
    let url = server.url("/mcp").replace("http://", "https://");
    let mut link = LinkFixture::with_http_mode(HTTP_MODE).http(&url).await;
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    let (_, fault) = next_failure(&mut link).await;
    assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");
    assert_eq!(server.requests(), []);
}

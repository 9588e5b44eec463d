//! Tests HTTP+SSE with a scripted and a real server.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use toolcrib_config::SecretString;
use toolcrib_config::model::transport::Transport;
use toolcrib_testkit::http::{BodyStep, HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_upstream::transport::{
    CloseReason, Credentials, HttpFault, Link, LinkFault, OpenError,
};
use toolcrib_wire::{Id, Message, method};

use crate::link_fixture::{
    INITIALIZE, LinkFixture, TEST_TIMEOUT, cancelled, chain, close, expect_result, http_fault,
    is_about_a_second, large_request, next_close_reason, next_failure, next_message, notification,
    remote, request, result_text,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":"s1","method":"ping"}"#;

/// A server whose stream announces the endpoint and then sends the steps that the script returns per message.
async fn server(
    script: impl Fn(&ReceivedRequest) -> Vec<BodyStep> + Send + Sync + 'static,
) -> HttpServer {
    let (says, steps) = mpsc::channel(16);
    let steps = Mutex::new(Some(steps));
    let server = HttpServer::start(move |received| match received.method.as_str() {
        "GET" => {
            let steps = steps.lock().unwrap().take().unwrap();
            ScriptedResponse::events()
                .send("event: endpoint\ndata: /messages?id=7\n\n")
                .then_steps_from(steps)
        }
        _ if received.body.contains("\"refused\"") => ScriptedResponse::status(500),
        _ => {
            script(received).into_iter().for_each(|step| says.try_send(step).unwrap());
            ScriptedResponse::status(202).send("Accepted")
        }
    });
    server.await.unwrap()
}

fn event(data: &str) -> BodyStep {
    BodyStep::Send(format!("event: message\ndata: {data}\n\n"))
}

async fn open(fixture: &LinkFixture, url: &str) -> Result<Link, OpenError> {
    fixture.try_open(&Transport::Sse(remote(url))).await
}

/// The fault of connecting to a server with this first reply.
async fn refused(fixture: &LinkFixture, reply: fn() -> ScriptedResponse) -> LinkFault {
    let server = HttpServer::start(move |_| reply()).await.unwrap();
    match open(fixture, &server.url("/sse")).await.map(drop).unwrap_err() {
        OpenError::Connect(fault) => fault,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn hol_27_handshake_call_and_server_request_work() {
    let server = server(|received| match received.body.as_str() {
        body if body.contains("initialize\"") => vec![event(&result_text(1, 1))],
        body if body.contains("tools/call") => vec![event(PING), event(&result_text(2, 2))],
        _ => vec![],
    });
    let server = server.await;
    let mut fixture = LinkFixture::new();
    fixture.credentials = Credentials::Bearer(SecretString::new("t"));
    let mut link = open(&fixture, &server.url("/sse?tenant=a")).await.unwrap();
    link.outbox.send(request(1, method::INITIALIZE, INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification(method::INITIALIZED)).await.unwrap();
    link.outbox.send(request(2, method::TOOLS_CALL, "{}")).await.unwrap();
    assert!(
        matches!(next_message(&mut link).await, Message::Request(ping) if ping.method == "ping")
    );
    expect_result(&mut link, 2, 2).await;
    close(link).await;

    let received = server.requests();
    let paths: Vec<_> =
        received.iter().map(|received| (&*received.method, &*received.path)).collect();
    let post = ("POST", "/messages?id=7");
    assert_eq!(paths, [("GET", "/sse?tenant=a"), post, post, post]);
    assert_eq!(received[0].header("accept"), Some("text/event-stream"));
    assert!(received.iter().all(|received| received.header("authorization") == Some("Bearer t")));
    assert!(received[2].body.contains("notifications/initialized"));
    assert!(server.wait_for_open_responses(0).await, "the stream ends with the link");
}

#[tokio::test]
async fn rejected_message_fails_and_next_succeeds() {
    let server = server(|_| vec![event(&result_text(2, 2))]).await;
    let mut link = open(&LinkFixture::new(), &server.url("/sse")).await.unwrap();
    link.outbox.send(request(1, "refused", "{}")).await.unwrap();
    let (id, fault) = next_failure(&mut link).await;
    assert_eq!(id, Id::from(1));
    assert!(matches!(http_fault(&fault), HttpFault::Status { status: 500, .. }));
    link.outbox.send(request(2, "tools/call", "{}")).await.unwrap();
    expect_result(&mut link, 2, 2).await;
}

/// A large request takes longer to arrive than its small cancellation.
#[tokio::test]
async fn cancellation_is_sent_after_its_request() {
    let server = server(|_| vec![]).await;
    let link = open(&LinkFixture::new(), &server.url("/sse")).await.unwrap();
    link.outbox.send(large_request(1)).await.unwrap();
    link.outbox.send(cancelled(1)).await.unwrap();
    let arrived =
        server.wait_for_request(|received| received.body.contains("notifications/cancelled")).await;
    arrived.unwrap();
    let order: Vec<_> =
        server.requests()[1..].iter().map(|received| received.body.len() > 999).collect();
    assert_eq!(order, [true, false], "the request arrives first");
}

#[tokio::test]
async fn hol_14_silent_stream_ends_link_and_comments_keep_it_alive() {
    let server = server(|_| {
        let comment =
            || [BodyStep::Pause(Duration::from_millis(700)), BodyStep::Send(":\n\n".to_owned())];
        let mut steps: Vec<_> = (0..4).flat_map(|_| comment()).collect();
        steps.push(event(&result_text(1, 1)));
        steps
    });
    let server = server.await;
    let mut fixture = LinkFixture::new();
    fixture.sse_read_timeout = Duration::from_secs(2);
    let mut link = open(&fixture, &server.url("/sse")).await.unwrap();
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;

    let start = Instant::now();
    let CloseReason::Broken(fault) = next_close_reason(&mut link).await else { panic!("broken") };
    assert!(matches!(http_fault(&fault), HttpFault::ReadTimeout(_)), "{fault:?}");
    // The stream may have been silent for a moment before the measurement starts.
    let elapsed_time = start.elapsed();
    assert!((Duration::from_secs(1)..TEST_TIMEOUT / 2).contains(&elapsed_time), "{elapsed_time:?}");
}

#[tokio::test]
async fn ended_or_broken_stream_ends_link() {
    let server = server(|_| vec![BodyStep::Reset]).await;
    let mut link = open(&LinkFixture::new(), &server.url("/sse")).await.unwrap();
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    let CloseReason::Broken(fault) = next_close_reason(&mut link).await else { panic!("broken") };
    assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");

    let endpoint = || ScriptedResponse::events().send("event: endpoint\ndata: /messages\n\n");
    let server = HttpServer::start(move |_| endpoint()).await.unwrap();
    let mut link = open(&LinkFixture::new(), &server.url("/sse")).await.unwrap();
    assert!(matches!(next_close_reason(&mut link).await, CloseReason::StreamEnded));
}

#[tokio::test]
async fn hol_13_connect_timeout_covers_endpoint_event() {
    let mut fixture = LinkFixture::new();
    fixture.connect_timeout = Duration::from_secs(1);
    for reply in [ScriptedResponse::unanswered as fn() -> ScriptedResponse, || {
        ScriptedResponse::events().then_step(BodyStep::Stall)
    }] {
        let start = Instant::now();
        let fault = refused(&fixture, reply).await;
        let elapsed_time = start.elapsed();
        assert!(is_about_a_second(elapsed_time), "{elapsed_time:?}");
        assert!(matches!(http_fault(&fault), HttpFault::ResponseTimeout(_)), "{fault:?}");
    }
}

#[tokio::test]
async fn unusable_server_is_rejected_with_reason() {
    let fixture = LinkFixture::new();
    let fault = refused(&fixture, || ScriptedResponse::status(401)).await;
    assert!(matches!(http_fault(&fault), HttpFault::Denied { status: 401, .. }));
    let fault = refused(&fixture, || ScriptedResponse::status(405)).await;
    assert!(matches!(http_fault(&fault), HttpFault::Status { status: 405, .. }));
    let fault = refused(&fixture, || ScriptedResponse::json("{}")).await;
    assert!(matches!(http_fault(&fault), HttpFault::ContentType(_)));
    let foreign =
        || ScriptedResponse::events().send("event: endpoint\ndata: http://example.com/m?k=1\n\n");
    assert_eq!(
        chain(&refused(&fixture, foreign).await),
        "cannot open the server's stream: \
         the server announced an endpoint outside of its origin: `http://example.com/m`"
    );
}

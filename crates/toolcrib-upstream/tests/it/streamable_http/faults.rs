//! Servers and networks that fail: the call gets its error in bounded time, and the rest goes on.

use std::time::{Duration, Instant};

use toolcrib_config::Hidden;
use toolcrib_config::model::transport::Transport;
use toolcrib_testkit::http::{Asked, HttpServer, Reply, Step};
use toolcrib_upstream::transport::{Credentials, HttpFault, Incoming, Link, LinkFault, OpenError};
use toolcrib_wire::{Id, Limits};

use crate::remote::{
    PATIENCE, Scene, chain, expect_result, failure, headers, http_fault, is_about_a_second, next,
    request, result, streamable,
};

/// A server that answers `bad` as the test says and everything else well.
async fn server(bad: impl Fn() -> Reply + Send + Sync + 'static) -> HttpServer {
    let script = move |asked: &Asked| match asked.body.contains("\"bad\"") {
        true => bad(),
        false => Reply::json(result(2, 2)),
    };
    HttpServer::start(script).await.unwrap()
}

/// The fault of one call as a person sees it, after which another one succeeds on the same link.
async fn fault_of(scene: &Scene, bad: impl Fn() -> Reply + Send + Sync + 'static) -> LinkFault {
    let server = server(bad).await;
    let mut link = scene.http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    let (id, fault) = failure(&mut link).await;
    assert_eq!(id, Id::from(1));
    goes_on(&mut link).await;
    let asked = server.requests();
    assert_eq!(asked.iter().filter(|asked| asked.body.contains("\"bad\"")).count(), 1, "replayed");
    fault
}

async fn goes_on(link: &mut Link) {
    link.outbox.send(request(2, "good", "{}")).await.unwrap();
    expect_result(link, 2, 2).await;
}

#[tokio::test]
async fn dis_49_missing_credentials_are_a_clear_error_with_the_servers_challenge() {
    let denied =
        || Reply::status(401).header("www-authenticate", "Bearer resource_metadata=\"http://x\"");
    let fault = fault_of(&Scene::new(), denied).await;
    let HttpFault::Denied { status: 401, challenge: Some(challenge) } = http_fault(&fault) else {
        panic!("{fault:?}");
    };
    assert_eq!(challenge, "Bearer resource_metadata=\"http://x\"");
    let fault = fault_of(&Scene::new(), || Reply::status(403)).await;
    assert!(matches!(http_fault(&fault), HttpFault::Denied { status: 403, challenge: None }));
}

#[tokio::test]
async fn a_server_that_has_enough_says_when_to_come_again() {
    let fault = fault_of(&Scene::new(), || Reply::status(429).header("retry-after", "17")).await;
    let HttpFault::TooMany { retry_after } = http_fault(&fault) else { panic!("{fault:?}") };
    assert_eq!(*retry_after, Some(Duration::from_secs(17)));
}

#[tokio::test]
async fn a_failing_server_fails_the_call_with_its_own_words() {
    let fault = fault_of(&Scene::new(), || Reply::status(500).send("out of\n memory")).await;
    assert_eq!(
        chain(&fault),
        "cannot get an answer from the server: the server answered with status 500: out of memory"
    );
    let fault = fault_of(&Scene::new(), || Reply::status(404)).await;
    assert!(matches!(http_fault(&fault), HttpFault::Status { status: 404, .. }));
}

#[tokio::test]
async fn an_answer_that_is_none_fails_its_call_at_once() {
    let page = || Reply::status(200).header("content-type", "text/html").send("<p>hello");
    let fault = fault_of(&Scene::new(), page).await;
    assert!(matches!(http_fault(&fault), HttpFault::ContentType(found) if found == "text/html"));
    let fault = fault_of(&Scene::new(), || Reply::status(202)).await;
    assert!(matches!(http_fault(&fault), HttpFault::NoAnswer));
}

#[tokio::test]
async fn a_body_that_answers_another_call_fails_its_own() {
    let server = server(|| Reply::json(result(7, 7))).await;
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    expect_result(&mut link, 7, 7).await;
    let (id, fault) = failure(&mut link).await;
    assert_eq!(id, Id::from(1));
    assert!(matches!(http_fault(&fault), HttpFault::NoAnswer), "{fault:?}");
    goes_on(&mut link).await;
}

#[tokio::test]
async fn a_body_that_is_no_message_is_told_on_its_call() {
    let server = server(|| Reply::json("<p>oops")).await;
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    let Incoming::Malformed { on, .. } = next(&mut link).await else { panic!("malformed") };
    assert_eq!(on, Some(Id::from(1)));
    goes_on(&mut link).await;
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_fails_its_call() {
    for broken in [
        || Reply::events().send(": hello\n\n").then(Step::Cut),
        || Reply::json("{\"jsonrpc\":").then(Step::Cut),
    ] {
        let fault = fault_of(&Scene::new(), broken).await;
        assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");
    }
}

#[tokio::test]
async fn a_body_that_stops_coming_fails_its_call() {
    let mut scene = Scene::new();
    scene.sse_read_timeout = Duration::from_millis(300);
    let start = Instant::now();
    let fault = fault_of(&scene, || Reply::json("{\"jsonrpc\":").then(Step::Hold)).await;
    assert!(matches!(http_fault(&fault), HttpFault::Silent(_)), "{fault:?}");
    assert!(start.elapsed() < PATIENCE / 2);
}

#[tokio::test]
async fn hol_14_a_silent_stream_is_an_error_and_a_comment_keeps_it_alive() {
    let mut scene = Scene::new();
    scene.sse_read_timeout = Duration::from_secs(2);
    let fault = fault_of(&scene, || Reply::events().send(": hello\n\n").then(Step::Hold)).await;
    assert!(matches!(http_fault(&fault), HttpFault::Silent(_)), "{fault:?}");

    let alive = || {
        let mut reply = Reply::events();
        for _ in 0..4 {
            reply = reply.then(Step::Pause(Duration::from_millis(700))).send(":\n\n");
        }
        reply.event(&result(1, 1))
    };
    let server = server(alive).await;
    let mut link = scene.http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;
}

#[tokio::test]
async fn hol_13_a_server_that_never_answers_fails_after_the_time_for_connecting() {
    let server = HttpServer::start(|_| Reply::never()).await.unwrap();
    let mut scene = Scene::new();
    scene.connect_timeout = Duration::from_secs(1);
    let mut link = scene.http(&server.url("/mcp")).await;
    let start = Instant::now();
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    let (_, fault) = failure(&mut link).await;
    let took = start.elapsed();
    assert!(is_about_a_second(took), "{took:?}");
    assert_eq!(
        chain(&fault),
        "cannot get an answer from the server: the server did not answer within 1 s"
    );
}

#[tokio::test]
async fn once_connected_a_call_may_take_longer_than_connecting() {
    let server = server(Reply::never).await;
    let mut scene = Scene::new();
    scene.connect_timeout = Duration::from_millis(200);
    let mut link = scene.http(&server.url("/mcp")).await;
    goes_on(&mut link).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_millis(600), link.inbox.recv()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

#[tokio::test]
async fn nobody_at_the_address_is_a_failed_call() {
    let address = HttpServer::start(|_| Reply::never()).await.unwrap().url("/mcp?key=s3cret");
    let mut link = Scene::new().http(&address).await;
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    let (_, fault) = failure(&mut link).await;
    assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");
    let shown = format!("{fault:?} {}", chain(&fault));
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn a_redirect_to_another_host_is_told_and_not_followed() {
    let elsewhere = HttpServer::start(|_| Reply::json(result(1, 1))).await.unwrap();
    let location = elsewhere.url("/mcp?token=s3cret");
    let mut scene = Scene::new();
    scene.credentials = Credentials::Bearer(Hidden::new("s3cret"));
    for status in [302, 307, 308] {
        let location = location.clone();
        let fault =
            fault_of(&scene, move || Reply::status(status).header("location", &location)).await;
        let HttpFault::Redirected { to } = http_fault(&fault) else { panic!("{fault:?}") };
        assert_eq!(*to, elsewhere.url("/mcp"));
    }
    assert_eq!(elsewhere.requests(), []);
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_call() {
    let mut scene = Scene::new();
    scene.limits = Limits { size: 1000, ..Limits::default() };
    let large = || format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(1000));
    let fault = fault_of(&scene, move || Reply::json(large())).await;
    assert!(matches!(http_fault(&fault), HttpFault::TooLarge { limit: 1000 }), "{fault:?}");

    let server = server(move || Reply::events().event(&large())).await;
    let mut link = scene.http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "bad", "{}")).await.unwrap();
    let Incoming::Malformed { fault, on } = next(&mut link).await else { panic!("malformed") };
    assert_eq!((fault.id, on), (Some(Id::from(1)), Some(Id::from(1))));
    goes_on(&mut link).await;
}

#[tokio::test]
async fn an_address_that_must_not_be_used_is_refused_before_anything_is_sent() {
    let mut scene = Scene::new();
    let open = async |scene: &Scene, url: &str| {
        let spec = Transport::StreamableHttp(streamable(url));
        scene.try_open(&spec).await.map(drop).unwrap_err()
    };
    let error = open(&scene, "http://example.com/mcp?key=s3cret").await;
    assert_eq!(error.code(), "url.not_allowed");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    for url in ["nowhere", "ftp://127.0.0.1/", "ws://127.0.0.1/"] {
        assert_eq!(open(&scene, url).await.code(), "url.invalid", "{url}");
    }
    scene.may_use_network = false;
    assert!(matches!(open(&scene, "http://127.0.0.1/").await, OpenError::NetworkForbidden));
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_named_and_its_value_is_not() {
    let mut spec = streamable("http://127.0.0.1/");
    spec.remote.headers = headers(&[("X-Key", "s3cret\nX-Other: 1")]);
    let error =
        Scene::new().try_open(&Transport::StreamableHttp(spec)).await.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "the header `X-Key` cannot be sent");
    assert_eq!(error.code(), "header.invalid");
}

#[tokio::test]
async fn a_plain_server_at_an_encrypted_address_is_a_failed_call() {
    let server = HttpServer::start(|_| Reply::json(result(1, 1))).await.unwrap();
    let url = server.url("/mcp").replace("http://", "https://");
    let mut link = Scene::new().http(&url).await;
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    let (_, fault) = failure(&mut link).await;
    assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");
    assert_eq!(server.requests(), []);
}

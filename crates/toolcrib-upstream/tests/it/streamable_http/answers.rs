//! What is sent with each message, and the ways in which answers come.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use toolcrib_config::model::auth::Auth;
use toolcrib_config::model::transport::Transport;
use toolcrib_config::{Hidden, Value};
use toolcrib_testkit::http::{Asked, HttpServer, Reply, Step};
use toolcrib_upstream::transport::{Credentials, Incoming, Outgoing, Outward, What};
use toolcrib_wire::header::Header;
use toolcrib_wire::{Id, Message, Packet, Version, build};

use crate::remote::{
    PATIENCE, Scene, answer, cancelled, expect_result, failure, headers, http_fault, large_request,
    message, next, notification, request, result, streamable,
};

const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;

#[tokio::test]
async fn dis_48_hol_29_an_answer_may_be_one_message_or_a_stream_with_progress() {
    // HOL-29 as well.
    let server = HttpServer::start(|asked| match asked.body.contains("\"id\":1") {
        true => Reply::json(result(1, 10)),
        false => Reply::events().event(PROGRESS).event(&result(2, 20)),
    });
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;

    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    expect_result(&mut link, 1, 10).await;

    link.outbox.send(request(2, "tools/call", "{}")).await.unwrap();
    let Incoming::Packet { packet: Packet::One(Message::Notification(first)), on } =
        next(&mut link).await
    else {
        panic!("the progress comes first");
    };
    assert_eq!((first.method.as_str(), on), ("notifications/progress", Some(Id::from(2))));
    expect_result(&mut link, 2, 20).await;
}

#[tokio::test]
async fn dom_09_url_headers_and_version_are_sent_as_configured() {
    let server = HttpServer::start(|_| Reply::json(result(1, 1))).await.unwrap();
    let mut spec = streamable(&server.url("/deep/mcp?tenant=a"));
    spec.remote.headers = headers(&[("X-Team", "tools"), ("Accept", "nothing")]);
    let mut link = Scene::new().open(&Transport::StreamableHttp(spec)).await;
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;

    let asked = server.requests().remove(0);
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/deep/mcp?tenant=a"));
    assert_eq!(asked.body, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#);
    for (name, value) in [
        ("x-team", Some("tools")),
        ("content-type", Some("application/json")),
        ("accept", Some("application/json, text/event-stream")),
        ("mcp-protocol-version", Some("2025-11-25")),
        ("mcp-method", None),
        ("mcp-session-id", None),
        ("referer", None),
    ] {
        assert_eq!(asked.header(name), value, "{name}");
    }
}

async fn sent_with(credentials: Credentials) -> Asked {
    let server = HttpServer::start(|_| Reply::json(result(1, 1))).await.unwrap();
    let mut scene = Scene::new();
    scene.credentials = credentials;
    let mut link = scene.http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    server.requests().remove(0)
}

fn configured(auth: &Auth) -> Credentials {
    Credentials::configured(auth, &|_| Some("s3cret".to_owned())).unwrap()
}

#[tokio::test]
async fn min_15_without_credentials_none_are_sent() {
    let asked = sent_with(configured(&Auth::None)).await;
    assert_eq!(asked.header("authorization"), None);
    assert_eq!(asked.header("x-api-key"), None);
}

#[tokio::test]
async fn min_16_a_bearer_token_is_sent() {
    let token = Value::Secret { provider: "vault".to_owned(), path: "mcp".to_owned() };
    let asked = sent_with(configured(&Auth::Bearer { token })).await;
    assert_eq!(asked.header("authorization"), Some("Bearer s3cret"));
}

#[tokio::test]
async fn min_17_an_api_key_is_sent_in_its_header() {
    for (configured_as, seen_as) in [("X-API-Key", "x-api-key"), ("X-Team-Key", "x-team-key")] {
        let auth = Auth::ApiKey { key: Value::literal("s3cret"), header: configured_as.to_owned() };
        let asked = sent_with(configured(&auth)).await;
        assert_eq!(asked.header(seen_as), Some("s3cret"));
        assert_eq!(asked.header("authorization"), None);
    }
}

#[test]
fn credentials_do_not_show_themselves() {
    let shown = format!("{:?}", Credentials::Bearer(Hidden::new("s3cret")));
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn the_modern_era_repeats_method_name_and_params_in_headers_and_has_no_session() {
    let server = HttpServer::start(|_| Reply::json(result(1, 1)).header("mcp-session-id", "s"));
    let server = server.await.unwrap();
    let mut spec = streamable(&server.url("/mcp"));
    spec.session_id = Some(Value::literal("configured"));
    let mut link = Scene::new().open(&Transport::StreamableHttp(spec)).await;
    let id = Id::from(1);
    let call = Outward {
        raw: build::request(&id, "tools/call", None),
        what: What::Request { id, method: "tools/call".into(), name: Some("größe".into()) },
        version: Some(Version::V2026_07_28),
        headers: vec![Header { name: "mcp-param-region".into(), value: "eu".to_owned() }],
    };
    link.outbox.send(Outgoing::Message(call)).await.unwrap();
    expect_result(&mut link, 1, 1).await;

    let asked = server.requests().remove(0);
    assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(asked.header("mcp-method"), Some("tools/call"));
    assert_eq!(asked.header("mcp-name"), Some("=?base64?Z3LDtsOfZQ==?="));
    assert_eq!(asked.header("mcp-param-region"), Some("eu"));
    assert_eq!(asked.header("mcp-session-id"), None);
}

#[tokio::test]
async fn an_unread_answer_stream_blocks_no_other_call() {
    let server = HttpServer::start(|asked| match asked.body.contains("\"slow\"") {
        true => Reply::events().event(PROGRESS).then(Step::Hold),
        false => Reply::json(result(99, 1)),
    });
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    for id in 1..=40 {
        link.outbox.send(request(id, "slow", "{}")).await.unwrap();
    }
    for _ in 1..=40 {
        assert!(matches!(message(&mut link).await, Message::Notification(_)));
    }
    link.outbox.send(request(99, "quick", "{}")).await.unwrap();
    expect_result(&mut link, 99, 1).await;
}

#[tokio::test]
async fn an_abandoned_request_closes_its_stream_and_no_other() {
    let server = HttpServer::start(|_| Reply::events().event(PROGRESS).then(Step::Hold));
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    for id in [1, 2] {
        link.outbox.send(request(id, "tools/call", "{}")).await.unwrap();
        message(&mut link).await;
    }
    assert!(server.has_open(2).await);
    link.outbox.send(Outgoing::Abandon(Id::from(1))).await.unwrap();
    assert!(server.has_open(1).await);
}

#[tokio::test]
async fn nothing_overtakes_the_end_of_the_handshake() {
    let server = HttpServer::start(|asked| match asked.body.contains("initialized") {
        true => Reply::status(202).after(Duration::from_millis(300)),
        false if asked.method == "GET" => Reply::status(405),
        false => Reply::json(result(1, 1)),
    });
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    let start = Instant::now();
    expect_result(&mut link, 1, 1).await;
    assert!(start.elapsed() >= Duration::from_millis(300), "it waited until that was accepted");
    assert!(server.requests()[0].body.contains("notifications/initialized"));
}

/// A request takes a while to arrive where it is large; its cancellation is small and in a hurry.
#[tokio::test]
async fn a_cancellation_does_not_overtake_its_request() {
    let server = HttpServer::start(|asked| match asked.body.len() {
        0..999 => Reply::status(202),
        _ => Reply::events().then(Step::Hold),
    });
    let server = server.await.unwrap();
    let link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(large_request(1)).await.unwrap();
    link.outbox.send(cancelled(1)).await.unwrap();
    link.outbox.send(Outgoing::Abandon(Id::from(1))).await.unwrap();
    let arrived = server.request(|asked| asked.body.contains("notifications/cancelled")).await;
    arrived.unwrap();
    let order: Vec<_> = server.requests().iter().map(|asked| asked.body.len() > 999).collect();
    assert_eq!(order, [true, false], "the request first");
    assert!(server.has_open(0).await, "its answer is not read any more");
}

#[tokio::test]
async fn cancellations_that_the_server_does_not_take_are_bounded() {
    let server = HttpServer::start(|_| Reply::never()).await.unwrap();
    let link = Scene::new().http(&server.url("/mcp")).await;
    let send = async |message| timeout(Duration::from_secs(1), link.outbox.send(message)).await;
    for id in 0..400 {
        if send(request(id, "tools/call", "{}")).await.is_err()
            || send(cancelled(id)).await.is_err()
        {
            return;
        }
    }
    panic!("there is always room for more");
}

#[tokio::test]
async fn dis_49_a_broken_stream_is_resumed_after_the_servers_delay_with_the_last_event_id() {
    let server = HttpServer::start(|asked| match asked.header("last-event-id") {
        None => Reply::events()
            .send("id: e1\nretry: 300\ndata:\n\n")
            .send(format!("id: e2\ndata: {PROGRESS}\n\n"))
            .then(Step::Cut),
        Some("e2") => Reply::events().send("id: e3\ndata:\n\n"),
        Some("e3") => Reply::events().send(format!("id: e4\ndata: {}\n\n", result(1, 7))),
        Some(other) => panic!("{other}"),
    });
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    let start = Instant::now();
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    assert!(matches!(message(&mut link).await, Message::Notification(_)));
    expect_result(&mut link, 1, 7).await;
    let took = start.elapsed();
    assert!((Duration::from_millis(600)..PATIENCE / 2).contains(&took), "not twice: {took:?}");

    let asked = server.requests();
    let methods: Vec<_> = asked.iter().map(|asked| asked.method.as_str()).collect();
    assert_eq!(methods, ["POST", "GET", "GET"], "the call itself is not repeated");
    assert_eq!(asked[1].header("accept"), Some("text/event-stream"));
    assert_eq!(asked[1].header("mcp-protocol-version"), Some("2025-11-25"));
}

#[tokio::test]
async fn the_modern_era_does_not_resume() {
    let server =
        HttpServer::start(|_| Reply::events().send("id: e1\nretry: 1\ndata:\n\n")).await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    let Outgoing::Message(mut call) = request(1, "tools/call", "{}") else { unreachable!() };
    call.version = Some(Version::V2026_07_28);
    link.outbox.send(Outgoing::Message(call)).await.unwrap();
    let (id, fault) = failure(&mut link).await;
    assert_eq!(id, Id::from(1));
    assert_eq!(http_fault(&fault).to_string(), "the server ended the exchange without an answer");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_error_answer_beside_a_status_reaches_its_call() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"header mismatch"}}"#;
    let server = HttpServer::start(move |_| {
        Reply::status(400).header("content-type", "application/json").send(error)
    });
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    let Message::Response(response) = message(&mut link).await else { panic!("an answer") };
    assert_eq!(response.into_answer().unwrap_err().code, -32020);
}

#[tokio::test]
async fn a_redirect_within_the_origin_takes_the_message_along() {
    let server = HttpServer::start(|asked| match asked.path.as_str() {
        "/mcp" => Reply::status(307).header("location", "/mcp/"),
        _ => Reply::json(result(1, 1)),
    });
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "tools/list", "{}")).await.unwrap();
    let (id, _) = answer(&mut link).await;
    assert_eq!(id, Id::from(1));
    let asked = server.requests();
    assert_eq!((asked[1].path.as_str(), &asked[1].body), ("/mcp/", &asked[0].body));
}

#[tokio::test]
async fn a_closed_link_says_so_last() {
    let server = HttpServer::start(|_| Reply::events().then(Step::Hold)).await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    assert!(server.has_open(1).await);
    let closing = link.closer.close(Duration::from_secs(1));
    let (_, reason) = tokio::join!(closing, async {
        match link.inbox.recv().await {
            Some(Incoming::Closed(reason)) => reason.to_string(),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(reason, "Transport closed");
    assert!(server.has_open(0).await);
}

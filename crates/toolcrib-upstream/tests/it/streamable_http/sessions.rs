//! Sessions: whose id is sent, how the server's own messages come, and how a session ends.

use std::time::Duration;

use toolcrib_config::Value;
use toolcrib_config::model::transport::Transport;
use toolcrib_testkit::http::{Asked, HttpServer, Reply, Step};
use toolcrib_upstream::transport::{CloseReason, HttpFault};
use toolcrib_wire::{Id, Message};

use crate::remote::{
    INITIALIZE, Scene, close, closed, expect_result, failure, http_fault, message, notification,
    request, result, streamable,
};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// Opens a session `s-1`, accepts notifications, and leaves the rest to the test.
fn session(asked: &Asked) -> Option<Reply> {
    match asked.method.as_str() {
        "POST" if asked.body.contains("\"initialize\"") => {
            Some(Reply::json(result(1, 1)).header("Mcp-Session-Id", "s-1"))
        }
        "POST" if !asked.body.contains("\"id\"") => Some(Reply::status(202)),
        "DELETE" => Some(Reply::status(200)),
        _ => None,
    }
}

#[tokio::test]
async fn dom_10_a_configured_session_is_sent_from_the_first_post_and_an_empty_one_is_none() {
    for (configured, sent) in [(Some("mine"), Some("mine")), (Some(""), None), (None, None)] {
        let server = HttpServer::start(|_| Reply::json(result(1, 1))).await.unwrap();
        let mut spec = streamable(&server.url("/mcp"));
        spec.session_id = configured.map(Value::literal);
        let mut link = Scene::new().open(&Transport::StreamableHttp(spec)).await;
        link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
        expect_result(&mut link, 1, 1).await;
        assert_eq!(server.requests()[0].header("mcp-session-id"), sent, "{configured:?}");
    }
}

#[tokio::test]
async fn dom_09_the_session_of_initialize_is_sent_from_then_on() {
    let server =
        HttpServer::start(|asked| session(asked).unwrap_or_else(|| Reply::json(result(2, 2))));
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 2, 2).await;

    let asked = server.requests();
    let sent = |name| asked.iter().map(|asked| asked.header(name)).collect::<Vec<_>>();
    assert_eq!(sent("mcp-session-id"), [None, Some("s-1")]);
    assert_eq!(sent("mcp-protocol-version"), [None, Some("2025-11-25")]);
}

#[tokio::test]
async fn messages_of_the_server_come_on_a_stream_of_their_own_which_is_opened_again() {
    let server = HttpServer::start(|asked| {
        session(asked).unwrap_or_else(|| match asked.header("last-event-id") {
            None => Reply::events().send(format!("id: a\nretry: 50\ndata: {CHANGED}\n\n")),
            Some(_) => Reply::events().event(CHANGED).then(Step::Hold),
        })
    });
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(message(&mut link).await, Message::Notification(_)));
    }
    let again = server.request(|asked| asked.header("last-event-id") == Some("a")).await.unwrap();
    assert_eq!((again.method.as_str(), again.header("mcp-session-id")), ("GET", Some("s-1")));
}

#[tokio::test]
async fn a_server_without_a_stream_of_its_own_is_asked_once() {
    let server = HttpServer::start(|asked| session(asked).unwrap_or_else(|| Reply::status(405)));
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    server.request(|asked| asked.method == "GET").await.unwrap();
    // Long enough for a second try, were there one: the first pause is a second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let gets = server.requests().iter().filter(|asked| asked.method == "GET").count();
    assert_eq!(gets, 1);
}

#[tokio::test]
async fn a_server_that_knows_nothing_of_a_get_keeps_its_session() {
    let server = HttpServer::start(|asked| match asked.method.as_str() {
        "GET" => Reply::status(404),
        _ => session(asked).unwrap_or_else(|| Reply::json(result(2, 2))),
    });
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    server.request(|asked| asked.method == "GET").await.unwrap();
    link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 2, 2).await;
    close(link).await;
}

#[tokio::test]
async fn dis_16_hol_15_closing_ends_the_session_on_the_server_if_that_is_wanted() {
    // HOL-15 as well.
    for terminate in [true, false] {
        let server =
            HttpServer::start(|asked| session(asked).unwrap_or_else(|| Reply::status(405)));
        let server = server.await.unwrap();
        let mut spec = streamable(&server.url("/mcp"));
        spec.terminate_on_close = terminate;
        let mut link = Scene::new().open(&Transport::StreamableHttp(spec)).await;
        link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
        expect_result(&mut link, 1, 1).await;
        close(link).await;
        let asked = server.requests();
        let ended = asked.iter().find(|asked| asked.method == "DELETE");
        assert_eq!(ended.is_some(), terminate);
        if let Some(ended) = ended {
            assert_eq!(ended.header("mcp-session-id"), Some("s-1"));
        }
    }
}

#[tokio::test]
async fn without_a_session_there_is_nothing_to_end() {
    let server = HttpServer::start(|_| Reply::json(result(1, 1))).await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    close(link).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn what_is_queued_is_sent_before_a_link_closes() {
    let server = HttpServer::start(|asked| session(asked).unwrap_or_else(|| Reply::status(405)));
    let server = server.await.unwrap();
    let link = Scene::new().http(&server.url("/mcp")).await;
    for n in 0..20 {
        link.outbox.send(notification(&format!("notifications/n{n}"))).await.unwrap();
    }
    close(link).await;
    assert_eq!(server.requests().len(), 20);
}

#[tokio::test]
async fn a_configured_session_that_is_gone_is_not_named_again() {
    let server = HttpServer::start(|asked| match asked.header("mcp-session-id") {
        Some("old") => Reply::status(404),
        _ => session(asked).unwrap_or_else(|| Reply::json(result(2, 2))),
    });
    let server = server.await.unwrap();
    let mut spec = streamable(&server.url("/mcp"));
    spec.session_id = Some(Value::literal("old"));
    let mut link = Scene::new().open(&Transport::StreamableHttp(spec)).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
    expect_result(&mut link, 2, 2).await;
    close(link).await;
    let asked = server.requests();
    let sessions: Vec<_> = asked.iter().map(|asked| asked.header("mcp-session-id")).collect();
    assert_eq!(sessions[..3], [Some("old"), None, Some("s-1")]);
}

#[tokio::test]
async fn a_session_that_is_gone_ends_the_link_and_replays_nothing() {
    let server = HttpServer::start(|asked| session(asked).unwrap_or_else(|| Reply::status(404)));
    let server = server.await.unwrap();
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(request(2, "tools/call", "{}")).await.unwrap();

    let (id, fault) = failure(&mut link).await;
    assert_eq!(id, Id::from(2));
    assert!(matches!(http_fault(&fault), HttpFault::SessionGone));
    let CloseReason::Broken(fault) = closed(&mut link).await else { panic!("broken") };
    assert!(http_fault(&fault).to_string().contains("has to be initialised again"));
    close(link).await;
    let methods: Vec<_> = server.requests().iter().map(|asked| asked.method.clone()).collect();
    assert_eq!(methods, ["POST", "POST"], "neither a replay nor a goodbye to what is gone");
}

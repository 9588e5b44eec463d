//! HTTP+SSE against a scripted server and a real one.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use toolcrib_config::Hidden;
use toolcrib_config::model::transport::Transport;
use toolcrib_testkit::http::{Asked, HttpServer, Reply, Step};
use toolcrib_upstream::transport::{
    CloseReason, Credentials, HttpFault, Link, LinkFault, OpenError,
};
use toolcrib_wire::{Id, Message, method};

use crate::everything::Everything;
use crate::remote::{
    INITIALIZE, PATIENCE, Scene, answer, cancelled, chain, close, closed, expect_result, failure,
    http_fault, is_about_a_second, large_request, message, notification, remote, request, result,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":"s1","method":"ping"}"#;

/// A server whose stream tells the endpoint, and then what the script has for each message.
async fn server(script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> HttpServer {
    let (says, steps) = mpsc::channel(16);
    let steps = Mutex::new(Some(steps));
    let server = HttpServer::start(move |asked| match asked.method.as_str() {
        "GET" => {
            let steps = steps.lock().unwrap().take().unwrap();
            Reply::events().send("event: endpoint\ndata: /messages?id=7\n\n").live(steps)
        }
        _ if asked.body.contains("\"refused\"") => Reply::status(500),
        _ => {
            script(asked).into_iter().for_each(|step| says.try_send(step).unwrap());
            Reply::status(202).send("Accepted")
        }
    });
    server.await.unwrap()
}

fn event(data: &str) -> Step {
    Step::Send(format!("event: message\ndata: {data}\n\n"))
}

async fn open(scene: &Scene, url: &str) -> Result<Link, OpenError> {
    scene.try_open(&Transport::Sse(remote(url))).await
}

/// Why a server with this answer to the first request cannot be connected to.
async fn refused(scene: &Scene, reply: fn() -> Reply) -> LinkFault {
    let server = HttpServer::start(move |_| reply()).await.unwrap();
    match open(scene, &server.url("/sse")).await.map(drop).unwrap_err() {
        OpenError::Connect(fault) => fault,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn hol_27_handshake_call_and_a_request_of_the_server() {
    let server = server(|asked| match asked.body.as_str() {
        body if body.contains("initialize\"") => vec![event(&result(1, 1))],
        body if body.contains("tools/call") => vec![event(PING), event(&result(2, 2))],
        _ => vec![],
    });
    let server = server.await;
    let mut scene = Scene::new();
    scene.credentials = Credentials::Bearer(Hidden::new("t"));
    let mut link = open(&scene, &server.url("/sse?tenant=a")).await.unwrap();
    link.outbox.send(request(1, method::INITIALIZE, INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link.outbox.send(notification(method::INITIALIZED)).await.unwrap();
    link.outbox.send(request(2, method::TOOLS_CALL, "{}")).await.unwrap();
    assert!(matches!(message(&mut link).await, Message::Request(ping) if ping.method == "ping"));
    expect_result(&mut link, 2, 2).await;
    close(link).await;

    let asked = server.requests();
    let paths: Vec<_> = asked.iter().map(|asked| (&*asked.method, &*asked.path)).collect();
    let post = ("POST", "/messages?id=7");
    assert_eq!(paths, [("GET", "/sse?tenant=a"), post, post, post]);
    assert_eq!(asked[0].header("accept"), Some("text/event-stream"));
    assert!(asked.iter().all(|asked| asked.header("authorization") == Some("Bearer t")));
    assert!(asked[2].body.contains("notifications/initialized"));
    assert!(server.has_open(0).await, "the stream ends with the link");
}

#[tokio::test]
async fn a_message_that_is_refused_fails_and_the_next_does_not() {
    let server = server(|_| vec![event(&result(2, 2))]).await;
    let mut link = open(&Scene::new(), &server.url("/sse")).await.unwrap();
    link.outbox.send(request(1, "refused", "{}")).await.unwrap();
    let (id, fault) = failure(&mut link).await;
    assert_eq!(id, Id::from(1));
    assert!(matches!(http_fault(&fault), HttpFault::Status { status: 500, .. }));
    link.outbox.send(request(2, "tools/call", "{}")).await.unwrap();
    expect_result(&mut link, 2, 2).await;
}

/// A request takes a while to arrive where it is large; its cancellation is small and in a hurry.
#[tokio::test]
async fn a_cancellation_does_not_overtake_its_request() {
    let server = server(|_| vec![]).await;
    let link = open(&Scene::new(), &server.url("/sse")).await.unwrap();
    link.outbox.send(large_request(1)).await.unwrap();
    link.outbox.send(cancelled(1)).await.unwrap();
    let arrived = server.request(|asked| asked.body.contains("notifications/cancelled")).await;
    arrived.unwrap();
    let order: Vec<_> = server.requests()[1..].iter().map(|asked| asked.body.len() > 999).collect();
    assert_eq!(order, [true, false], "the request first");
}

#[tokio::test]
async fn hol_14_a_silent_stream_ends_the_link_and_a_comment_keeps_it_alive() {
    let server = server(|_| {
        let comment = || [Step::Pause(Duration::from_millis(700)), Step::Send(":\n\n".to_owned())];
        let mut steps: Vec<_> = (0..4).flat_map(|_| comment()).collect();
        steps.push(event(&result(1, 1)));
        steps
    });
    let server = server.await;
    let mut scene = Scene::new();
    scene.sse_read_timeout = Duration::from_secs(2);
    let mut link = open(&scene, &server.url("/sse")).await.unwrap();
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    expect_result(&mut link, 1, 1).await;

    let start = Instant::now();
    let CloseReason::Broken(fault) = closed(&mut link).await else { panic!("broken") };
    assert!(matches!(http_fault(&fault), HttpFault::Silent(_)), "{fault:?}");
    // The stream may have been silent for a moment when this begins to count.
    let took = start.elapsed();
    assert!((Duration::from_secs(1)..PATIENCE / 2).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_stream_that_ends_or_breaks_ends_the_link() {
    let server = server(|_| vec![Step::Cut]).await;
    let mut link = open(&Scene::new(), &server.url("/sse")).await.unwrap();
    link.outbox.send(request(1, "tools/call", "{}")).await.unwrap();
    let CloseReason::Broken(fault) = closed(&mut link).await else { panic!("broken") };
    assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");

    let endpoint = || Reply::events().send("event: endpoint\ndata: /messages\n\n");
    let server = HttpServer::start(move |_| endpoint()).await.unwrap();
    let mut link = open(&Scene::new(), &server.url("/sse")).await.unwrap();
    assert!(matches!(closed(&mut link).await, CloseReason::Ended));
}

#[tokio::test]
async fn hol_13_connecting_is_over_when_the_endpoint_is_known() {
    let mut scene = Scene::new();
    scene.connect_timeout = Duration::from_secs(1);
    for reply in [Reply::never as fn() -> Reply, || Reply::events().then(Step::Hold)] {
        let start = Instant::now();
        let fault = refused(&scene, reply).await;
        let took = start.elapsed();
        assert!(is_about_a_second(took), "{took:?}");
        assert!(matches!(http_fault(&fault), HttpFault::Unanswered(_)), "{fault:?}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_refused_with_the_reason() {
    let scene = Scene::new();
    let fault = refused(&scene, || Reply::status(401)).await;
    assert!(matches!(http_fault(&fault), HttpFault::Denied { status: 401, .. }));
    let fault = refused(&scene, || Reply::status(405)).await;
    assert!(matches!(http_fault(&fault), HttpFault::Status { status: 405, .. }));
    let fault = refused(&scene, || Reply::json("{}")).await;
    assert!(matches!(http_fault(&fault), HttpFault::ContentType(_)));
    let foreign = || Reply::events().send("event: endpoint\ndata: http://example.com/m?k=1\n\n");
    assert_eq!(
        chain(&refused(&scene, foreign).await),
        "cannot open the server's stream: \
         the server names an endpoint that is not its own: `http://example.com/m`"
    );
}

#[tokio::test]
async fn everything_is_opened_listed_and_closed() {
    let server = Everything::start("sse").await;
    let mut link = open(&Scene::new(), &server.url("/sse")).await.unwrap();
    link.outbox.send(request(1, method::INITIALIZE, INITIALIZE)).await.unwrap();
    let (_, hello) = answer(&mut link).await;
    assert!(hello.text().contains("mcp-servers/everything"), "{}", hello.text());
    link.outbox.send(notification(method::INITIALIZED)).await.unwrap();
    link.outbox.send(request(2, method::TOOLS_LIST, "{}")).await.unwrap();
    let tools = server.tools(&mut link).await;
    assert!(tools > 5, "{tools} tools");
    close(link).await;
}

//! Tokens that are renewed while a session lives: nothing of it is lost meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{advance, pause, resume, timeout};
use toolcrib_config::Hidden;
use toolcrib_testkit::http::{Asked, HttpServer, Reply, Step};
use toolcrib_upstream::transport::{
    Coming, Credentials, Denial, HttpFault, Incoming, Link, NoToken, Tokens, Trouble,
};
use toolcrib_wire::Message;

use crate::remote::{
    INITIALIZE, Scene, expect_result, http_fault, message, next, notification, request, result,
};

/// Longer than a message without an answer may take.
const LONG: Duration = Duration::from_secs(31);

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// Tokens as the test says.
#[derive(Debug, Default)]
struct Given {
    token: Mutex<&'static str>,
    /// What is given for those that are refused, one after the other.
    instead: Mutex<VecDeque<Result<&'static str, Trouble>>>,
    /// The next token takes its time.
    is_slow: AtomicBool,
    given: Notify,
}

impl Given {
    fn new(
        token: &'static str,
        instead: impl IntoIterator<Item = Result<&'static str, Trouble>>,
    ) -> Arc<Self> {
        let instead = Mutex::new(instead.into_iter().collect());
        Arc::new(Given { token: Mutex::new(token), instead, ..Given::default() })
    }

    fn scene(self: &Arc<Self>) -> Scene {
        let mut scene = Scene::new();
        scene.credentials = Credentials::Tokens(Arc::clone(self) as Arc<dyn Tokens>);
        scene
    }

    fn now(&self) -> Option<Hidden> {
        Some(Hidden::new(*self.token.lock().unwrap()))
    }
}

impl Tokens for Given {
    fn at_hand(&self) -> Option<Option<Hidden>> {
        (!self.is_slow.load(Ordering::SeqCst)).then(|| self.now())
    }

    fn token(&self) -> Coming<'_, Result<Option<Hidden>, NoToken>> {
        Box::pin(async {
            pause();
            advance(LONG).await;
            resume();
            self.is_slow.store(false, Ordering::SeqCst);
            self.given.notify_one();
            Ok(self.now())
        })
    }

    fn instead<'a>(
        &'a self,
        _: Option<&'a Hidden>,
        _: &'a Denial,
    ) -> Coming<'a, Result<Option<Hidden>, NoToken>> {
        Box::pin(async {
            let (message, fix) = ("none".to_owned(), String::new());
            match self.instead.lock().unwrap().pop_front() {
                None => Ok(None),
                Some(Err(trouble)) => Err(NoToken { trouble, code: "x", message, fix }),
                Some(Ok(token)) => {
                    *self.token.lock().unwrap() = token;
                    Ok(self.now())
                }
            }
        })
    }
}

/// A session of which only whoever has the second token may listen, and only he may call.
async fn server() -> HttpServer {
    let script = |asked: &Asked| {
        let may = asked.header("authorization") == Some("Bearer two");
        match asked.method.as_str() {
            "POST" if asked.body.contains("\"initialize\"") => Reply::json(result(1, 1)),
            "POST" if !asked.body.contains("\"id\"") => Reply::status(202),
            _ if !may => Reply::status(401).send("who are you?"),
            "GET" => Reply::events().event(CHANGED).then(Step::Hold),
            _ => Reply::json(result(2, 2)),
        }
    };
    HttpServer::start(script).await.unwrap()
}

async fn open(server: &HttpServer, tokens: &Arc<Given>) -> Link {
    let mut link = tokens.scene().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link
}

#[tokio::test]
async fn a_message_is_not_late_because_its_token_is_renewed() {
    let (server, tokens) = (server().await, Given::new("one", []));
    let link = open(&server, &tokens).await;
    tokens.is_slow.store(true, Ordering::SeqCst);
    link.outbox.send(notification("notifications/x")).await.unwrap();
    timeout(2 * LONG, tokens.given.notified()).await.unwrap();
    server.request(|asked| asked.body.contains("notifications/x")).await.unwrap();
}

#[tokio::test]
async fn the_servers_messages_are_listened_to_again_when_there_is_a_token_again() {
    for trouble in [Trouble::Passing, Trouble::Denied] {
        let server = server().await;
        let tokens = Given::new("one", [Err(trouble)]);
        let mut link = open(&server, &tokens).await;
        link.outbox.send(notification("notifications/initialized")).await.unwrap();
        server.request(|asked| asked.method == "GET").await.unwrap();
        match trouble {
            // The next try gets one.
            Trouble::Passing => tokens.instead.lock().unwrap().push_back(Ok("two")),
            // Somebody logs in, and the next call shows that it helped.
            _ => {
                *tokens.token.lock().unwrap() = "two";
                link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
                expect_result(&mut link, 2, 2).await;
            }
        }
        assert!(matches!(message(&mut link).await, Message::Notification(_)), "{trouble:?}");
    }
}

#[tokio::test]
async fn a_listener_who_stays_denied_is_not_a_nuisance() {
    let server = HttpServer::start(|asked| match asked.method.as_str() {
        "GET" => Reply::status(401),
        "POST" if asked.body.contains("\"initialize\"") => Reply::json(result(1, 1)),
        "POST" if !asked.body.contains("\"id\"") => Reply::status(202),
        _ => Reply::json(result(2, 2)),
    });
    let server = server.await.unwrap();
    let mut link = open(&server, &Given::new("one", [])).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    server.request(|asked| asked.method == "GET").await.unwrap();
    for _ in 0..20 {
        link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
        expect_result(&mut link, 2, 2).await;
    }
    let gets = server.requests().iter().filter(|asked| asked.method == "GET").count();
    assert!(gets <= 6, "the tries are bounded: {gets}");
}

#[tokio::test]
async fn a_refusal_does_not_cost_its_connection() {
    let (server, tokens) = (server().await, Given::new("one", [Ok("two")]));
    let mut link = open(&server, &tokens).await;
    let mut call = async |token: &'static str| {
        *tokens.token.lock().unwrap() = token;
        link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
        loop {
            match next(&mut link).await {
                Incoming::Standing { .. } => {}
                Incoming::Packet { .. } => return true,
                Incoming::Failed { fault, .. } => {
                    let denied = HttpFault::Denied { status: 401, challenge: None };
                    assert_eq!(http_fault(&fault).to_string(), denied.to_string());
                    return false;
                }
                other => panic!("{other:?}"),
            }
        }
    };
    assert!(call("one").await);
    assert_eq!((server.requests().len(), server.connections()), (3, 1), "renewed at once");
    assert!(!call("three").await);
    assert!(call("two").await);
    assert_eq!((server.requests().len(), server.connections()), (5, 1), "not renewed at all");
}

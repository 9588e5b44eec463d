//! Tests token renewal during a session.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{advance, pause, resume, timeout};
use toolcrib_config::SecretString;
use toolcrib_config::model::host::HttpMode;
use toolcrib_testkit::http::{BodyStep, HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_upstream::transport::{
    BoxFuture, Credentials, Denial, HttpFault, Incoming, Link, TokenError, TokenErrorKind,
    TokenProvider,
};
use toolcrib_wire::Message;

use super::HTTP_MODE;
use crate::link_fixture::{
    INITIALIZE, LinkFixture, expect_result, http_fault, next_incoming, next_message, notification,
    request, result_text,
};

/// Longer than the delivery timeout.
const LONG: Duration = Duration::from_secs(31);

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// Tokens that the test controls.
#[derive(Debug, Default)]
struct TestTokens {
    token: Mutex<&'static str>,
    /// Results of consecutive `replacement_token` calls.
    instead: Mutex<VecDeque<Result<&'static str, TokenErrorKind>>>,
    /// Delays the next token.
    is_slow: AtomicBool,
    given: Notify,
}

impl TestTokens {
    fn new(
        token: &'static str,
        instead: impl IntoIterator<Item = Result<&'static str, TokenErrorKind>>,
    ) -> Arc<Self> {
        let instead = Mutex::new(instead.into_iter().collect());
        Arc::new(TestTokens { token: Mutex::new(token), instead, ..TestTokens::default() })
    }

    fn fixture(self: &Arc<Self>) -> LinkFixture {
        let mut fixture = LinkFixture::with_http_mode(HTTP_MODE);
        fixture.credentials = Credentials::Tokens(Arc::clone(self) as Arc<dyn TokenProvider>);
        fixture
    }

    fn current(&self) -> Option<SecretString> {
        Some(SecretString::new(*self.token.lock().unwrap()))
    }
}

impl TokenProvider for TestTokens {
    fn cached_token(&self) -> Option<Option<SecretString>> {
        (!self.is_slow.load(Ordering::SeqCst)).then(|| self.current())
    }

    fn fetch_token(&self) -> BoxFuture<'_, Result<Option<SecretString>, TokenError>> {
        Box::pin(async {
            pause();
            advance(LONG).await;
            resume();
            self.is_slow.store(false, Ordering::SeqCst);
            self.given.notify_one();
            Ok(self.current())
        })
    }

    fn replacement_token<'a>(
        &'a self,
        _: Option<&'a SecretString>,
        _: &'a Denial,
    ) -> BoxFuture<'a, Result<Option<SecretString>, TokenError>> {
        Box::pin(async {
            let (message, fix) = ("none".to_owned(), String::new());
            match self.instead.lock().unwrap().pop_front() {
                None => Ok(None),
                Some(Err(trouble)) => Err(TokenError { kind: trouble, code: "x", message, fix }),
                Some(Ok(token)) => {
                    *self.token.lock().unwrap() = token;
                    Ok(self.current())
                }
            }
        })
    }
}

/// A server that accepts listen streams and calls only with the second token.
async fn server() -> HttpServer {
    let script = |received: &ReceivedRequest| {
        let may = received.header("authorization") == Some("Bearer two");
        match received.method.as_str() {
            "POST" if received.body.contains("\"initialize\"") => {
                ScriptedResponse::json(result_text(1, 1))
            }
            "POST" if !received.body.contains("\"id\"") => ScriptedResponse::status(202),
            _ if !may => ScriptedResponse::status(401).send("unknown token"),
            "GET" => ScriptedResponse::events().event(CHANGED).then_step(BodyStep::Stall),
            _ => ScriptedResponse::json(result_text(2, 2)),
        }
    };
    HttpServer::start(script).await.unwrap()
}

async fn open(server: &HttpServer, tokens: &Arc<TestTokens>) -> Link {
    let mut link = tokens.fixture().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, "initialize", INITIALIZE)).await.unwrap();
    expect_result(&mut link, 1, 1).await;
    link
}

#[tokio::test]
async fn token_renewal_time_is_not_counted() {
    let (server, tokens) = (server().await, TestTokens::new("one", []));
    let link = open(&server, &tokens).await;
    tokens.is_slow.store(true, Ordering::SeqCst);
    link.outbox.send(notification("notifications/x")).await.unwrap();
    timeout(2 * LONG, tokens.given.notified()).await.unwrap();
    server.wait_for_request(|received| received.body.contains("notifications/x")).await.unwrap();
}

#[tokio::test]
async fn listen_stream_is_reopened_after_token_renewal() {
    for trouble in [TokenErrorKind::Transient, TokenErrorKind::Denied] {
        let server = server().await;
        let tokens = TestTokens::new("one", [Err(trouble)]);
        let mut link = open(&server, &tokens).await;
        link.outbox.send(notification("notifications/initialized")).await.unwrap();
        server.wait_for_request(|received| received.method == "GET").await.unwrap();
        match trouble {
            // The next attempt gets a token.
            TokenErrorKind::Transient => tokens.instead.lock().unwrap().push_back(Ok("two")),
            // A person logs in, and the next call is accepted.
            _ => {
                *tokens.token.lock().unwrap() = "two";
                link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
                expect_result(&mut link, 2, 2).await;
            }
        }
        assert!(matches!(next_message(&mut link).await, Message::Notification(_)), "{trouble:?}");
    }
}

#[tokio::test]
async fn denied_listen_stream_is_retried_boundedly() {
    let server = HttpServer::start(|received| match received.method.as_str() {
        "GET" => ScriptedResponse::status(401),
        "POST" if received.body.contains("\"initialize\"") => {
            ScriptedResponse::json(result_text(1, 1))
        }
        "POST" if !received.body.contains("\"id\"") => ScriptedResponse::status(202),
        _ => ScriptedResponse::json(result_text(2, 2)),
    });
    let server = server.await.unwrap();
    let mut link = open(&server, &TestTokens::new("one", [])).await;
    link.outbox.send(notification("notifications/initialized")).await.unwrap();
    server.wait_for_request(|received| received.method == "GET").await.unwrap();
    for _ in 0..20 {
        link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
        expect_result(&mut link, 2, 2).await;
    }
    let gets = server.requests().iter().filter(|received| received.method == "GET").count();
    assert!(gets <= 6, "the attempts are bounded: {gets}");
}

#[tokio::test]
async fn denied_request_keeps_connection() {
    let (server, tokens) = (server().await, TestTokens::new("one", [Ok("two")]));
    let mut link = open(&server, &tokens).await;
    let mut call = async |token: &'static str| {
        *tokens.token.lock().unwrap() = token;
        link.outbox.send(request(2, "tools/list", "{}")).await.unwrap();
        loop {
            match next_incoming(&mut link).await {
                Incoming::DeadlinePaused { .. } => {}
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
    // reqwest opens a new connection after a response whose body was not read.
    let connections =
        |count| if HTTP_MODE == HttpMode::Auto { count } else { server.connection_count() };
    assert_eq!(
        (server.requests().len(), server.connection_count()),
        (3, connections(1)),
        "one renewal"
    );
    assert!(!call("three").await);
    assert!(call("two").await);
    assert_eq!(
        (server.requests().len(), server.connection_count()),
        (5, connections(1)),
        "no renewal"
    );
}

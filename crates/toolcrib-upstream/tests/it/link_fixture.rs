//! Fixture and helpers for tests of links to network servers.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;
use toolcrib_config::Value;
use toolcrib_config::model::host::HttpMode;
use toolcrib_config::model::transport::{
    DisplayValue, Remote, StreamableHttp, Transport, UrlPolicy,
};
use toolcrib_upstream::process::{GracePeriods, Instance};
use toolcrib_upstream::signals::SecretMask;
use toolcrib_upstream::transport::{
    CloseReason, Credentials, HttpFault, Incoming, Link, LinkFault, OpenContext, OpenError,
    Outgoing, OutgoingKind, OutgoingMessage, Permissions, Tls, open,
};
use toolcrib_wire::notification::Cancelled;
use toolcrib_wire::{Id, Json, Message, MessageLimits, Packet, RawJson, Version, build, method};

/// Only bounds failures.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"toolcrib","version":"0"}}"#;

/// Inputs for opening a link, which tests modify.
pub(crate) struct LinkFixture {
    _state: TempDir,
    instance: Instance,
    pub(crate) tls: Tls,
    pub(crate) limits: MessageLimits,
    pub(crate) connect_timeout: Duration,
    pub(crate) sse_read_timeout: Duration,
    pub(crate) credentials: Credentials,
    pub(crate) may_use_network: bool,
    http_mode: HttpMode,
}

impl LinkFixture {
    pub(crate) fn new() -> Self {
        Self::with_http_mode(HttpMode::Auto)
    }

    pub(crate) fn with_http_mode(http_mode: HttpMode) -> Self {
        let state = tempfile::tempdir().unwrap();
        let instance = Instance::open(state.path()).unwrap();
        Self {
            _state: state,
            instance,
            tls: Tls::default(),
            limits: MessageLimits::default(),
            connect_timeout: TEST_TIMEOUT,
            sse_read_timeout: TEST_TIMEOUT,
            credentials: Credentials::None,
            may_use_network: true,
            http_mode,
        }
    }

    pub(crate) async fn try_open(&self, transport: &Transport) -> Result<Link, OpenError> {
        let opening = OpenContext {
            instance: &self.instance,
            host_env: &[],
            extra_env: &[],
            cwd: ".".into(),
            lookup: &|_| None,
            limits: self.limits,
            stderr_limit: 1024,
            graces: GracePeriods::default(),
            connect_timeout: self.connect_timeout,
            sse_read_timeout: self.sse_read_timeout,
            credentials: self.credentials.clone(),
            tls: &self.tls,
            permissions: Permissions { spawn: false, network: self.may_use_network, docker: false },
            http_mode: self.http_mode,
            mask: SecretMask::default(),
        };
        timeout(TEST_TIMEOUT, open(transport, &opening)).await.unwrap()
    }

    pub(crate) async fn open(&self, transport: &Transport) -> Link {
        self.try_open(transport).await.unwrap()
    }

    pub(crate) async fn http(&self, url: &str) -> Link {
        self.open(&Transport::StreamableHttp(streamable(url))).await
    }
}

pub(crate) fn remote(url: &str) -> Remote {
    Remote {
        url: DisplayValue::literal(url),
        headers: BTreeMap::new(),
        url_policy: UrlPolicy::HttpsOrLoopback,
    }
}

pub(crate) fn streamable(url: &str) -> StreamableHttp {
    StreamableHttp { remote: remote(url), session_id: None, terminate_on_close: true }
}

pub(crate) fn headers(pairs: &[(&str, &str)]) -> BTreeMap<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::literal(*value))).collect()
}

pub(crate) fn request(id: i64, method: &str, params: &str) -> Outgoing {
    let id = Id::from(id);
    let params = RawJson::parse(params, &MessageLimits::default()).unwrap();
    Outgoing::Message(OutgoingMessage {
        raw: build::request(&id, method, Some(params.json())),
        kind: OutgoingKind::Request { id, method: method.into(), name: None },
        version: (method != method::INITIALIZE).then_some(Version::V2025_11_25),
        headers: Vec::new(),
    })
}

pub(crate) fn notification(method: &str) -> Outgoing {
    Outgoing::Message(OutgoingMessage {
        raw: build::notification(method, None),
        kind: OutgoingKind::Notification { method: method.into() },
        version: Some(Version::V2025_11_25),
        headers: Vec::new(),
    })
}

/// A tool call of 16 MB.
pub(crate) fn large_request(id: i64) -> Outgoing {
    request(id, method::TOOLS_CALL, &format!(r#"{{"text":"{}"}}"#, "x".repeat(16 << 20)))
}

pub(crate) fn cancelled(id: i64) -> Outgoing {
    Outgoing::Message(OutgoingMessage {
        raw: Cancelled { request: Id::from(id), reason: None }.build(),
        kind: OutgoingKind::Notification { method: method::CANCELLED.into() },
        version: Some(Version::V2025_11_25),
        headers: Vec::new(),
    })
}

/// HOL-13: checks that a timeout of one second is neither missed nor early. The upper bound only detects
/// hangs, because on a busy machine a second may take several.
pub(crate) fn is_about_a_second(time: Duration) -> bool {
    (Duration::from_millis(900)..TEST_TIMEOUT / 2).contains(&time)
}

/// A result with one member, `n`.
pub(crate) fn result_text(id: i64, n: i64) -> String {
    let result = RawJson::from_value(&BTreeMap::from([("n", n)])).unwrap();
    build::response(&Id::from(id), result).text().to_owned()
}

pub(crate) async fn next_incoming(link: &mut Link) -> Incoming {
    timeout(TEST_TIMEOUT, link.inbox.recv()).await.unwrap().unwrap()
}

/// Expects a message and returns it.
pub(crate) async fn next_message(link: &mut Link) -> Message {
    match next_incoming(link).await {
        Incoming::Packet { packet: Packet::One(message), .. } => message,
        other => panic!("{other:?}"),
    }
}

/// Expects a response and returns its id and result.
pub(crate) async fn next_answer(link: &mut Link) -> (Id, RawJson) {
    match next_message(link).await {
        Message::Response(response) => {
            let id = response.id.clone().unwrap();
            (id, response.into_result().unwrap())
        }
        other => panic!("{other:?}"),
    }
}

/// Expects a response with this id and the number that [`result_text`] put into it.
pub(crate) async fn expect_result(link: &mut Link, id: i64, n: i64) {
    let (answered, result) = next_answer(link).await;
    assert_eq!(answered, Id::from(id));
    assert_eq!(result.json().get("n").and_then(Json::as_i64), Some(n));
}

/// Expects a failed request.
pub(crate) async fn next_failure(link: &mut Link) -> (Id, LinkFault) {
    match next_incoming(link).await {
        Incoming::Failed { request, fault } => (request, fault),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn next_close_reason(link: &mut Link) -> CloseReason {
    match next_incoming(link).await {
        Incoming::Closed(reason) => reason,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn http_fault(fault: &LinkFault) -> &HttpFault {
    fault.cause.downcast_ref().unwrap_or_else(|| panic!("{fault:?}"))
}

/// Formats an error with all its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(crate) async fn close(link: Link) {
    drop(link.inbox);
    timeout(TEST_TIMEOUT, link.closer.close(Duration::from_secs(2))).await.unwrap();
}

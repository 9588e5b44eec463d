//! Links to servers at an address: what the tests of each transport share.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;
use toolcrib_config::Value;
use toolcrib_config::model::transport::{Plain, Remote, StreamableHttp, Transport, UrlPolicy};
use toolcrib_upstream::process::{Graces, Instance};
use toolcrib_upstream::signals::SecretMask;
use toolcrib_upstream::transport::{
    CloseReason, Credentials, HttpFault, Incoming, Link, LinkFault, OpenError, Opening, Outgoing,
    Outward, Permissions, Tls, What, open,
};
use toolcrib_wire::notice::Cancelled;
use toolcrib_wire::{Id, Json, Limits, Message, Packet, Raw, Version, build, method};

/// Only bounds a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"toolcrib","version":"0"}}"#;

/// Everything that opening a link takes, with the values that tests change.
pub(crate) struct Scene {
    _state: TempDir,
    instance: Instance,
    pub(crate) tls: Tls,
    pub(crate) limits: Limits,
    pub(crate) connect_timeout: Duration,
    pub(crate) sse_read_timeout: Duration,
    pub(crate) credentials: Credentials,
    pub(crate) may_use_network: bool,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let instance = Instance::open(state.path()).unwrap();
        Self {
            _state: state,
            instance,
            tls: Tls::default(),
            limits: Limits::default(),
            connect_timeout: PATIENCE,
            sse_read_timeout: PATIENCE,
            credentials: Credentials::None,
            may_use_network: true,
        }
    }

    pub(crate) async fn try_open(&self, transport: &Transport) -> Result<Link, OpenError> {
        let opening = Opening {
            instance: &self.instance,
            host_env: &[],
            extra_env: &[],
            cwd: ".".into(),
            find: &|_| None,
            limits: self.limits,
            stderr_limit: 1024,
            graces: Graces::default(),
            connect_timeout: self.connect_timeout,
            sse_read_timeout: self.sse_read_timeout,
            credentials: self.credentials.clone(),
            tls: &self.tls,
            permissions: Permissions { spawn: false, network: self.may_use_network, docker: false },
            mask: SecretMask::default(),
        };
        timeout(PATIENCE, open(transport, &opening)).await.unwrap()
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
        url: Plain::literal(url),
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
    let params = Raw::parse(params, &Limits::default()).unwrap();
    Outgoing::Message(Outward {
        raw: build::request(&id, method, Some(params.json())),
        what: What::Request { id, method: method.into(), name: None },
        version: (method != method::INITIALIZE).then_some(Version::V2025_11_25),
        headers: Vec::new(),
    })
}

pub(crate) fn notification(method: &str) -> Outgoing {
    Outgoing::Message(Outward {
        raw: build::notification(method, None),
        what: What::Notification { method: method.into() },
        version: Some(Version::V2025_11_25),
        headers: Vec::new(),
    })
}

/// A tool call of 16 MB.
pub(crate) fn large_request(id: i64) -> Outgoing {
    request(id, method::TOOLS_CALL, &format!(r#"{{"text":"{}"}}"#, "x".repeat(16 << 20)))
}

pub(crate) fn cancelled(id: i64) -> Outgoing {
    Outgoing::Message(Outward {
        raw: Cancelled { request: Id::from(id), reason: None }.build(),
        what: What::Notification { method: method::CANCELLED.into() },
        version: Some(Version::V2025_11_25),
        headers: Vec::new(),
    })
}

/// HOL-13: the limit is neither missed nor met early. Above it only a hang is told apart: on a machine that is
/// busy with other tests a second may take several.
pub(crate) fn is_about_a_second(time: Duration) -> bool {
    (Duration::from_millis(900)..PATIENCE / 2).contains(&time)
}

/// A result with one member, `n`.
pub(crate) fn result(id: i64, n: i64) -> String {
    let result = Raw::of(&BTreeMap::from([("n", n)])).unwrap();
    build::response(&Id::from(id), result).text().to_owned()
}

pub(crate) async fn next(link: &mut Link) -> Incoming {
    timeout(PATIENCE, link.inbox.recv()).await.unwrap().unwrap()
}

/// The next thing is a message, and this is it.
pub(crate) async fn message(link: &mut Link) -> Message {
    match next(link).await {
        Incoming::Packet { packet: Packet::One(message), .. } => message,
        other => panic!("{other:?}"),
    }
}

/// The next message is an answer; its id and its result.
pub(crate) async fn answer(link: &mut Link) -> (Id, Raw) {
    match message(link).await {
        Message::Response(response) => {
            let id = response.id.clone().unwrap();
            (id, response.into_answer().unwrap())
        }
        other => panic!("{other:?}"),
    }
}

/// The next answer has this id, and the number that [`result`] put into it.
pub(crate) async fn expect_result(link: &mut Link, id: i64, n: i64) {
    let (answered, result) = answer(link).await;
    assert_eq!(answered, Id::from(id));
    assert_eq!(result.json().get("n").and_then(Json::as_i64), Some(n));
}

/// The next thing is a failed request.
pub(crate) async fn failure(link: &mut Link) -> (Id, LinkFault) {
    match next(link).await {
        Incoming::Failed { request, fault } => (request, fault),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn closed(link: &mut Link) -> CloseReason {
    match next(link).await {
        Incoming::Closed(reason) => reason,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn http_fault(fault: &LinkFault) -> &HttpFault {
    fault.cause.downcast_ref().unwrap_or_else(|| panic!("{fault:?}"))
}

/// An error with all its causes, as a person would see it.
pub(crate) fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(crate) async fn close(link: Link) {
    drop(link.inbox);
    timeout(PATIENCE, link.closer.close(Duration::from_secs(2))).await.unwrap();
}

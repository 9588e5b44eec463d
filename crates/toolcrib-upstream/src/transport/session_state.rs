//! State of a Streamable HTTP session that determines its request headers.

use std::sync::Arc;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::oneshot;
use toolcrib_http::client::RequestTemplate;
use toolcrib_wire::{Version, header};

use super::http_client::HttpClient;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static(header::SESSION_ID);

/// Session id and protocol version, as far as they are known.
#[derive(Default)]
pub(super) struct SessionState {
    session: Option<HeaderValue>,
    version: Option<Version>,
    /// Template of all POSTs, and whether it names a session. Reset when the session id or the version changes.
    template: Option<(Arc<RequestTemplate>, bool)>,
    /// The server has answered at least once, so the connect timeout does not apply any more.
    pub(super) has_answered: bool,
    /// Wakes a denied listener when a request is accepted.
    pub(super) accepted: Option<oneshot::Sender<()>>,
}

impl SessionState {
    /// Starts with the configured session id.
    pub(super) fn with_session_id(session: Option<HeaderValue>) -> Self {
        SessionState { session, ..SessionState::default() }
    }

    pub(super) fn record_response(&mut self, status: StatusCode) {
        self.has_answered = true;
        if let Some(accepted) = self.accepted.take_if(|_| status.is_success()) {
            // The listener may be gone.
            let _ = accepted.send(());
        }
    }

    pub(super) fn set_version(&mut self, version: Option<&Version>) {
        if self.version.as_ref() != version {
            self.version = version.cloned();
            self.template = None;
        }
    }

    pub(super) fn set_session_id(&mut self, session: Option<HeaderValue>) {
        self.session = session;
        self.template = None;
    }

    /// Headers of every request, and whether they name a session.
    pub(super) fn headers(&self, http: &HttpClient) -> (HeaderMap, bool) {
        let mut headers = http.headers();
        let version = self.version.as_ref();
        if let Some(version) = version.filter(|version| sends_version_header(version))
            && let Ok(value) = HeaderValue::from_str(version.as_str())
        {
            headers.insert(HeaderName::from_static(header::PROTOCOL_VERSION), value);
        }
        let is_modern = version.is_some_and(Version::is_modern);
        let session = self.session.clone().filter(|_| !is_modern);
        let has_session = session.is_some();
        headers.extend(session.map(|session| (SESSION_ID, session)));
        (headers, has_session)
    }

    /// The template of all POSTs, built once.
    pub(super) fn request_template(&mut self, http: &HttpClient) -> (Arc<RequestTemplate>, bool) {
        if let Some((template, has_session)) = &self.template {
            return (Arc::clone(template), *has_session);
        }
        let (headers, has_session) = self.headers(http);
        let template = Arc::new(http.request_template(http.url(), headers));
        self.template = Some((Arc::clone(&template), has_session));
        (template, has_session)
    }
}

fn sends_version_header(version: &Version) -> bool {
    version.has_version_header() || version.is_modern()
}

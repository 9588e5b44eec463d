//! What is known of a server over HTTP, and goes into every request to it.

use std::sync::Arc;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::oneshot;
use toolcrib_wire::{Version, header};

use super::http::Http;
use super::posting::Posting;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static(header::SESSION_ID);

/// As much as is known so far.
#[derive(Default)]
pub(super) struct Known {
    session: Option<HeaderValue>,
    version: Option<Version>,
    /// What all that is posted in the conversation has in common, as long as neither of them changes.
    posting: Option<(Arc<Posting>, bool)>,
    /// It has answered at least once: connecting is over.
    pub(super) answered: bool,
    /// Tells whoever listens, and may be denied it, that a request was not denied.
    pub(super) admits: Option<oneshot::Sender<()>>,
}

impl Known {
    /// Of a server that one may be in a session with before the first word.
    pub(super) fn of(session: Option<HeaderValue>) -> Self {
        Known { session, ..Known::default() }
    }

    pub(super) fn heard(&mut self, status: StatusCode) {
        self.answered = true;
        if let Some(admits) = self.admits.take_if(|_| status.is_success()) {
            // Nobody has to want to know.
            let _ = admits.send(());
        }
    }

    pub(super) fn speaks(&mut self, version: Option<&Version>) {
        if self.version.as_ref() != version {
            self.version = version.cloned();
            self.posting = None;
        }
    }

    pub(super) fn is_in(&mut self, session: Option<HeaderValue>) {
        self.session = session;
        self.posting = None;
    }

    /// The headers of every request of the conversation, and whether a session is among them.
    pub(super) fn headers(&self, http: &Http) -> (HeaderMap, bool) {
        let mut headers = http.headers();
        let version = self.version.as_ref();
        if let Some(version) = version.filter(|version| names_itself(version))
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

    /// The same for whatever is posted.
    pub(super) fn posting(&mut self, http: &Http) -> (Arc<Posting>, bool) {
        if let Some((posting, has_session)) = &self.posting {
            return (Arc::clone(posting), *has_session);
        }
        let (headers, has_session) = self.headers(http);
        let posting = Arc::new(http.posting(http.url(), headers));
        self.posting = Some((Arc::clone(&posting), has_session));
        (posting, has_session)
    }
}

fn names_itself(version: &Version) -> bool {
    version.has_version_header() || version.is_modern()
}

//! Headers and bodies of the requests of a session.

use std::sync::Arc;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_http::client::RequestTemplate;
use toolcrib_wire::Version;
use toolcrib_wire::header::{self, Header};

use super::{DELIVERY_TIMEOUT, HttpSession, into_sensitive};
use crate::transport::event_stream::StreamCursor;
use crate::transport::http_client::{self, PostRequest};
use crate::transport::http_fault::HttpFault;
use crate::transport::http_response::HttpResponse;
use crate::transport::link::{OutgoingKind, OutgoingMessage};
use crate::transport::request_waiter::RequestWaiter;
use crate::transport::session_state::SESSION_ID;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static(header::LAST_EVENT_ID);

impl HttpSession {
    /// Sends `initialize`. Starts a new session if the configured one is gone.
    pub(super) async fn post_initialize(
        &self,
        message: &OutgoingMessage,
    ) -> Result<(HttpResponse, bool), HttpFault> {
        // The version of an era probe does not apply to the new session.
        self.state().set_version(None);
        let (mut response, mut had_session) = self.post_with_version(None, message).await?;
        if had_session && response.status() == StatusCode::NOT_FOUND {
            // A 404 means that the request had no effect.
            self.state().set_session_id(None);
            (response, had_session) = self.post_with_version(None, message).await?;
        }
        if response.status().is_success()
            && let Some(given) = response.headers().get(SESSION_ID)
        {
            self.state().set_session_id(Some(into_sensitive(given.clone())));
        }
        Ok((response, had_session))
    }

    /// Sends any other message. Also returns whether the request named a session.
    pub(super) async fn post(
        &self,
        message: &OutgoingMessage,
    ) -> Result<(HttpResponse, bool), HttpFault> {
        self.post_with_version(message.version.as_ref(), message).await
    }

    /// Sends a message, and changes the session to `version` if there is one.
    async fn post_with_version(
        &self,
        version: Option<&Version>,
        message: &OutgoingMessage,
    ) -> Result<(HttpResponse, bool), HttpFault> {
        let mut headers = HeaderMap::new();
        for header in message_headers(message) {
            http_client::insert_header(&mut headers, &header)?;
        }
        let (template, had_session, waiter) = self.prepare_post(version, message);
        let post = PostRequest {
            url: self.http.url(),
            template: &template,
            headers,
            message: &message.raw,
        };
        let response = self.http.post(post, waiter).await?;
        self.state().record_response(response.status());
        Ok((response, had_session))
    }

    /// Template of a message, whether it names a session, and the waiter with its limits.
    fn prepare_post<'a>(
        &'a self,
        version: Option<&Version>,
        message: &'a OutgoingMessage,
    ) -> (Arc<RequestTemplate>, bool, RequestWaiter<'a>) {
        let waiter = match &message.kind {
            OutgoingKind::Request { id, .. } => RequestWaiter::for_request(&self.incoming, id),
            OutgoingKind::Notification { .. } | OutgoingKind::Response => {
                RequestWaiter::NONE.with_limit(DELIVERY_TIMEOUT)
            }
        };
        let mut state = self.state();
        if version.is_some() {
            state.set_version(version);
        }
        let (template, had_session) = state.request_template(&self.http);
        match state.has_answered {
            true => (template, had_session, waiter),
            false => (template, had_session, waiter.with_limit(self.http.connect_timeout)),
        }
    }

    pub(super) async fn get_event_stream(
        &self,
        cursor: &StreamCursor,
    ) -> Result<HttpResponse, HttpFault> {
        let (mut headers, had_session) = self.state().headers(&self.http);
        if let Some(id) = cursor.last_id() {
            let refused = |_| HttpFault::BadHeader(header::LAST_EVENT_ID.to_owned());
            headers.insert(LAST_EVENT_ID, HeaderValue::from_str(id).map_err(refused)?);
        }
        let response = self.http.open_event_stream(headers, RequestWaiter::NONE).await?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.http.read_refusal(response, had_session).await),
        }
    }
}

/// Headers that repeat parts of a modern message, and the headers of the message itself.
fn message_headers(message: &OutgoingMessage) -> Vec<Header> {
    let mut headers = Vec::new();
    let (method, name) = match &message.kind {
        OutgoingKind::Request { method, name, .. } => (Some(method), name.as_ref()),
        OutgoingKind::Notification { method } => (Some(method), None),
        OutgoingKind::Response => (None, None),
    };
    if message.version.as_ref().is_some_and(Version::is_modern) {
        let header =
            |key, value: &str| Header { name: key, value: header::encode(value).into_owned() };
        headers.extend(method.map(|method| header(header::METHOD.into(), method)));
        headers.extend(name.map(|name| header(header::NAME.into(), name)));
    }
    headers.extend(message.headers.iter().cloned());
    headers
}

//! What each request of a conversation carries.

use std::sync::Arc;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_wire::Version;
use toolcrib_wire::header::{self, Header};

use super::{DELIVERY, Session, sensitive};
use crate::transport::answer::Answer;
use crate::transport::event_stream::Cursor;
use crate::transport::http::{self, Post};
use crate::transport::http_fault::HttpFault;
use crate::transport::known::SESSION_ID;
use crate::transport::link::{Outward, What};
use crate::transport::posting::Posting;
use crate::transport::waiting::Waiting;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static(header::LAST_EVENT_ID);

impl Session {
    /// Sends the message that opens the conversation, and begins another session if the configured one is gone.
    pub(super) async fn post_opening(
        &self,
        message: &Outward,
    ) -> Result<(Answer, bool), HttpFault> {
        // What was spoken before, to find out the era, is not what this begins.
        self.known().speaks(None);
        let (mut response, mut had_session) = self.post_in(None, message).await?;
        if had_session && response.status() == StatusCode::NOT_FOUND {
            // It has had no effect yet.
            self.known().is_in(None);
            (response, had_session) = self.post_in(None, message).await?;
        }
        if response.status().is_success()
            && let Some(given) = response.headers().get(SESSION_ID)
        {
            self.known().is_in(Some(sensitive(given.clone())));
        }
        Ok((response, had_session))
    }

    /// Sends any other message. Tells besides whether the request named a session.
    pub(super) async fn post(&self, message: &Outward) -> Result<(Answer, bool), HttpFault> {
        self.post_in(message.version.as_ref(), message).await
    }

    /// Sends a message in a version from now on, or in the one that is spoken.
    async fn post_in(
        &self,
        version: Option<&Version>,
        message: &Outward,
    ) -> Result<(Answer, bool), HttpFault> {
        let mut own = HeaderMap::new();
        for header in of_message(message) {
            http::put(&mut own, &header)?;
        }
        let (posting, had_session, waiting) = self.prepared(version, message);
        let post = Post { url: self.http.url(), posting: &posting, own, message: &message.raw };
        let response = self.http.post(post, waiting).await?;
        self.known().heard(response.status());
        Ok((response, had_session))
    }

    /// What a message goes with, whether a session is in it, and how long its answer may take.
    fn prepared<'a>(
        &'a self,
        version: Option<&Version>,
        message: &'a Outward,
    ) -> (Arc<Posting>, bool, Waiting<'a>) {
        let waiting = match &message.what {
            What::Request { id, .. } => Waiting::for_answer(&self.incoming, id),
            What::Notification { .. } | What::Answer => Waiting::NOBODY.at_most(DELIVERY),
        };
        let mut known = self.known();
        if version.is_some() {
            known.speaks(version);
        }
        let (posting, had_session) = known.posting(&self.http);
        match known.answered {
            true => (posting, had_session, waiting),
            false => (posting, had_session, waiting.at_most(self.http.connect_timeout)),
        }
    }

    pub(super) async fn get(&self, cursor: &Cursor) -> Result<Answer, HttpFault> {
        let (mut headers, had_session) = self.known().headers(&self.http);
        if let Some(id) = cursor.last_id() {
            let refused = |_| HttpFault::BadHeader(header::LAST_EVENT_ID.to_owned());
            headers.insert(LAST_EVENT_ID, HeaderValue::from_str(id).map_err(refused)?);
        }
        let response = self.http.get_events(headers, Waiting::NOBODY).await?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.http.refusal(response, had_session).await),
        }
    }
}

/// What a message of the modern era repeats in headers, and what was given along.
fn of_message(message: &Outward) -> Vec<Header> {
    let mut headers = Vec::new();
    let (method, name) = match &message.what {
        What::Request { method, name, .. } => (Some(method), name.as_ref()),
        What::Notification { method } => (Some(method), None),
        What::Answer => (None, None),
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

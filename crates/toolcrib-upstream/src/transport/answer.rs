//! What comes back over HTTP: the head of an answer and what is still to come of it, bounded.

use std::borrow::Cow;
use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use reqwest::{Response, StatusCode};
use tokio::time::timeout;

use super::head::Head;
use super::http_fault::HttpFault;
use super::lane::{Fault, Rest};
use crate::signals::SecretMask;

/// Room that is made for an answer because it says how large it is: many can say so and send nothing.
const ANNOUNCED: usize = 2 << 20;

/// How long the end of an answer is waited for.
pub(super) const LINGER: Duration = Duration::from_millis(250);

/// As much of a refusal is read as a person may want to see, or an error answer takes.
const REFUSAL: usize = 64 * 1024;
const EXCERPT: usize = 200;

/// An answer, with what is still to come of it.
pub(super) enum Answer {
    /// Over a connection of a pool that has tasks of its own.
    Pooled(Response),
    /// Over one that whoever reads it drives.
    Driven(Head, Rest),
}

/// The rest of an answer. Reading fails when nothing comes for too long.
pub(super) struct Body {
    answer: Answer,
    silence: Option<Duration>,
}

/// What a successful answer holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Events,
    Nothing,
    Other(String),
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Pooled(response) => response.status(),
            Self::Driven(head, _) => head.status,
        }
    }

    /// The first header of this name, where it is text.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        match self {
            Self::Pooled(response) => response.headers().get(name)?.to_str().ok(),
            Self::Driven(head, _) => head.header(name),
        }
    }

    /// All of them, which may have to be collected first.
    pub(super) fn headers(&self) -> Cow<'_, HeaderMap> {
        match self {
            Self::Pooled(response) => Cow::Borrowed(response.headers()),
            Self::Driven(head, _) => Cow::Owned(head.headers()),
        }
    }

    /// How long it is, where the server has said so.
    fn announced(&self) -> Option<u64> {
        match self {
            Self::Pooled(response) => response.content_length(),
            Self::Driven(_, rest) => rest.announced(),
        }
    }
}

impl Body {
    pub(super) fn new(answer: Answer, silence: Option<Duration>) -> Self {
        Self { answer, silence }
    }

    /// The next piece; none at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpFault> {
        let rest = match &mut self.answer {
            Answer::Driven(_, rest) => rest,
            Answer::Pooled(response) => {
                let chunk = unless_silent(self.silence, response.chunk()).await?;
                return chunk.map_err(HttpFault::network);
            }
        };
        loop {
            // What has come already needs no clock.
            if let Poll::Ready(chunk) = rest.chunk_at_hand() {
                return chunk.map_err(broken);
            }
            unless_silent(self.silence, rest.more()).await?.map_err(broken)?;
        }
    }

    /// All of it, behind so many blanks: room in which something can be written before it without moving it.
    pub(super) async fn whole(mut self, limit: usize, room: usize) -> Result<Vec<u8>, HttpFault> {
        let announced = self.answer.announced().unwrap_or(0);
        if announced > limit as u64 {
            return Err(HttpFault::TooLarge { limit });
        }
        let mut body = Vec::with_capacity(room + (announced as usize).min(ANNOUNCED));
        body.resize(room, b' ');
        loop {
            let goes_on = self.add_to(&mut body).await?;
            if body.len() - room > limit {
                return Err(HttpFault::TooLarge { limit });
            }
            if !goes_on {
                return Ok(body);
            }
        }
    }

    /// Whether there was more. It is not copied from piece to piece where that can be avoided.
    async fn add_to(&mut self, body: &mut Vec<u8>) -> Result<bool, HttpFault> {
        let Answer::Driven(_, rest) = &mut self.answer else {
            let chunk = Box::pin(self.chunk()).await?;
            body.extend_from_slice(chunk.as_deref().unwrap_or_default());
            return Ok(chunk.is_some());
        };
        if let Poll::Ready(end) = rest.take_into(body) {
            return end.map(|()| false).map_err(broken);
        }
        unless_silent(self.silence, rest.more_into(body)).await?.map_err(broken)?;
        Ok(true)
    }

    /// Reads what is not wanted: a connection on which nothing is left can be used again, so its end is waited for.
    pub(super) async fn finish(self) {
        let _ = timeout(LINGER, self.beginning()).await;
    }

    /// The body of a refusal, as far as it is worth reading.
    pub(super) async fn beginning(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = self.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > REFUSAL {
                break;
            }
        }
        body
    }
}

impl Content {
    pub(super) fn of(response: &Answer) -> Self {
        if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Self::Nothing;
        }
        let named = response.header(&CONTENT_TYPE).unwrap_or_default();
        // As nearly every server writes it; to take words apart is dear.
        if named == "application/json" {
            return Self::Json;
        }
        let kind = named.split(';').next().unwrap_or_default().trim();
        match kind {
            _ if kind.eq_ignore_ascii_case("application/json") => Self::Json,
            _ if kind.eq_ignore_ascii_case("text/event-stream") => Self::Events,
            "" if response.announced() == Some(0) => Self::Nothing,
            _ => Self::Other(named.to_owned()),
        }
    }
}

fn broken(fault: impl Into<Fault>) -> HttpFault {
    HttpFault::Network(fault.into().into())
}

/// The beginning of what a server said beside a status, where it is text.
pub(super) fn excerpt(body: &[u8], mask: &SecretMask) -> Option<String> {
    // Masked before it is cut, which may be within a secret.
    let text = mask.mask_excerpt(String::from_utf8_lossy(body).into_owned());
    let plain: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = plain.chars().filter(|c| !c.is_control()).take(EXCERPT).collect();
    (!short.is_empty()).then_some(short)
}

pub(super) async fn unless_silent<F: Future>(
    silence: Option<Duration>,
    work: F,
) -> Result<F::Output, HttpFault> {
    match silence {
        Some(limit) => timeout(limit, work).await.map_err(|_| HttpFault::Silent(limit)),
        None => Ok(work.await),
    }
}

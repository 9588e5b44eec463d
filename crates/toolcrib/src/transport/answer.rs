//! What comes back over HTTP: the head of an answer and what is still to come of it, bounded.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::response::Parts;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode};
use tokio::time::timeout;

use super::http_fault::HttpFault;
use super::lane::Rest;

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
    Driven(Box<(Parts, Rest)>),
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
            Self::Driven(driven) => driven.0.status,
        }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        match self {
            Self::Pooled(response) => response.headers(),
            Self::Driven(driven) => &driven.0.headers,
        }
    }

    /// How long it is, where the server has said so.
    fn announced(&self) -> Option<u64> {
        match self {
            Self::Pooled(response) => response.content_length(),
            Self::Driven(driven) => driven.1.announced(),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, HttpFault> {
        match self {
            Self::Pooled(response) => response.chunk().await.map_err(HttpFault::network),
            Self::Driven(driven) => {
                driven.1.chunk().await.map_err(|error| HttpFault::Network(Arc::new(error)))
            }
        }
    }
}

impl Body {
    pub(super) fn new(answer: Answer, silence: Option<Duration>) -> Self {
        Self { answer, silence }
    }

    /// The next piece; none at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpFault> {
        unless_silent(self.silence, self.answer.chunk()).await?
    }

    pub(super) async fn whole(mut self, limit: usize) -> Result<Vec<u8>, HttpFault> {
        let announced = self.answer.announced().and_then(|size| usize::try_from(size).ok());
        let mut body = Vec::with_capacity(announced.unwrap_or(0).min(ANNOUNCED.min(limit)));
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > limit {
                return Err(HttpFault::TooLarge { limit });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
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
        let named = response.headers().get(CONTENT_TYPE);
        let named = named.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = named.split(';').next().unwrap_or_default().trim();
        match kind {
            _ if kind.eq_ignore_ascii_case("application/json") => Self::Json,
            _ if kind.eq_ignore_ascii_case("text/event-stream") => Self::Events,
            "" if response.announced() == Some(0) => Self::Nothing,
            _ => Self::Other(named.to_owned()),
        }
    }
}

/// The beginning of what a server said beside a status, where it is text.
pub(super) fn excerpt(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
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

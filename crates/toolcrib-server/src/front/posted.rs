//! A message that was posted: read within its limits, or the reason why it is not taken.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{AsHeaderName, CONTENT_TYPE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use tokio::time::timeout;
use toolcrib_wire::{Limits, Malformed, Packet, parse};

use super::reply::{self, Reply};
use crate::lines::refusal;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    TooLarge,
    TooSlow,
    /// It ends before its end, or is no body at all.
    Broken,
}

/// A message, which has to come within some time.
pub async fn read<B>(
    head: &Parts,
    body: B,
    limits: &Limits,
    longest: Duration,
) -> Result<Packet, Box<Reply>>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let kind = header(head, CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Box::new(reply::empty(StatusCode::UNSUPPORTED_MEDIA_TYPE)));
    }
    let status = match whole(body, limits.size, longest).await {
        Ok(body) => return parse(body, limits).map_err(malformed),
        Err(Unread::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
        Err(Unread::TooSlow) => StatusCode::REQUEST_TIMEOUT,
        Err(Unread::Broken) => StatusCode::BAD_REQUEST,
    };
    Err(Box::new(reply::empty(status)))
}

/// All of a body, up to so many bytes and within some time.
pub async fn whole<B>(body: B, most: usize, longest: Duration) -> Result<Bytes, Unread>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    match timeout(longest, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Unread::TooLarge),
        Ok(Err(_)) => Err(Unread::Broken),
        Err(_) => Err(Unread::TooSlow),
    }
}

/// What a header of a request says, where it is text.
pub fn header(head: &Parts, name: impl AsHeaderName) -> Option<&str> {
    text(&head.headers, name)
}

/// What a header says, where it is text.
pub fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn malformed(malformed: Malformed) -> Box<Reply> {
    let bad = StatusCode::BAD_REQUEST;
    Box::new(match refusal(&malformed) {
        Some(said) => reply::json(bad, &said),
        None => reply::empty(bad),
    })
}

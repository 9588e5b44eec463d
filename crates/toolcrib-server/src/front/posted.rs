//! A message that was posted: read within its limits, or the reason why it is not taken.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::CONTENT_TYPE;
use tokio::time::timeout;
use toolcrib_wire::{Limits, Malformed, Packet, parse};

use super::headers::Headers;
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
    headers: &dyn Headers,
    body: B,
    limits: &Limits,
    longest: Duration,
) -> Result<Packet, Box<Reply>>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    check(headers, 0, limits)?;
    let body = whole(body, limits.size, longest).await.map_err(unread)?;
    parse(body, limits).map_err(malformed)
}

/// A message that is here already.
pub fn understand(
    headers: &dyn Headers,
    body: Bytes,
    limits: &Limits,
) -> Result<Packet, Box<Reply>> {
    check(headers, body.len(), limits)?;
    parse(body, limits).map_err(malformed)
}

/// Whether a message of some length is taken, before it is read.
pub fn check(headers: &dyn Headers, length: usize, limits: &Limits) -> Result<(), Box<Reply>> {
    if !is_json(headers.text(CONTENT_TYPE.as_str()).unwrap_or_default()) {
        return Err(Box::new(reply::empty(StatusCode::UNSUPPORTED_MEDIA_TYPE)));
    }
    match length > limits.size {
        true => Err(unread(Unread::TooLarge)),
        false => Ok(()),
    }
}

fn is_json(kind: &str) -> bool {
    // As nearly everybody writes it; to take words apart is dear.
    kind == "application/json" || {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    }
}

/// What somebody is told whose message could not be read.
pub fn unread(why: Unread) -> Box<Reply> {
    Box::new(reply::empty(match why {
        Unread::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Unread::TooSlow => StatusCode::REQUEST_TIMEOUT,
        Unread::Broken => StatusCode::BAD_REQUEST,
    }))
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

fn malformed(malformed: Malformed) -> Box<Reply> {
    let bad = StatusCode::BAD_REQUEST;
    Box::new(match refusal(&malformed) {
        Some(said) => reply::json(bad, &said),
        None => reply::empty(bad),
    })
}

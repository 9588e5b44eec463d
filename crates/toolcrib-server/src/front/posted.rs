//! A message that was posted: read within its limits, or the reason why it is not taken.

use std::error::Error;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use tokio::time::timeout;
use toolcrib_wire::{Limits, Malformed, Packet, parse};

use super::reply::{self, Reply};
use crate::lines::refusal;

/// How long the body of a request may take.
const BODY: Duration = Duration::from_secs(30);

pub async fn read<B>(head: &Parts, body: B, limits: &Limits) -> Result<Packet, Box<Reply>>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let kind = header(head, CONTENT_TYPE.as_str()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Box::new(reply::empty(StatusCode::UNSUPPORTED_MEDIA_TYPE)));
    }
    let read = timeout(BODY, Limited::new(body, limits.size).collect()).await;
    let status = match read {
        Ok(Ok(body)) => return parse(body.to_bytes(), limits).map_err(malformed),
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE,
        Err(_) => StatusCode::REQUEST_TIMEOUT,
    };
    Err(Box::new(reply::empty(status)))
}

/// What a header says, where it is text.
pub fn header<'h>(head: &'h Parts, name: &str) -> Option<&'h str> {
    head.headers.get(name).and_then(|value| value.to_str().ok())
}

fn malformed(malformed: Malformed) -> Box<Reply> {
    let bad = StatusCode::BAD_REQUEST;
    Box::new(match refusal(&malformed) {
        Some(said) => reply::json(bad, &said),
        None => reply::empty(bad),
    })
}
